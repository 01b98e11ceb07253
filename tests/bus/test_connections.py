"""One connection for each peer, whatever the network and the peer do."""

import asyncio

import pytest

from parley.bus import Address, Bus, Fingerprint, Identity, MemoryMeshStore, state
from parley.bus.blocks import block
from parley.bus.envelope import Envelope
from parley.bus.link_frames import Answer, Hello, Refusal, Topics, decode_frame, encode_frame
from parley.bus.memory_transport import MemoryChannel, MemoryTransport
from parley.bus.message import Request
from parley.bus.revocation import NOTHING_REVOKED
from parley.bus.transport import Channel
from parley.core import limits
from parley.core.bus_errors import (
    BusClosed,
    ChannelClosed,
    NotAcknowledged,
    OtherUser,
    PeerUnreachable,
    Revoked,
    SequenceRefused,
)
from tests.bus.agents import ADA, BOB, CAROL, NOW, STRANGER, USER, chain_of, envelope_of
from tests.bus.world import Caller, World, echo, name_of, quiet


async def test_two_agents_that_dial_each_other_at_once_keep_the_same_connection(world: World) -> None:
    async with echo(world, ADA, announced=False) as ada, echo(world, BOB, announced=False) as bob:
        world.resolver.announce(ada.fingerprint, ada.address)
        world.resolver.announce(bob.fingerprint, bob.address)
        answers = await asyncio.gather(
            *(ada.request(bob.fingerprint, "echo", b"to bob") for _ in range(20)),
            *(bob.request(ada.fingerprint, "echo", b"to ada") for _ in range(20)),
        )
        await quiet()
        assert answers == [b"to bob"] * 20 + [b"to ada"] * 20
        assert world.network.connections(ada.fingerprint, bob.fingerprint) == 1


async def test_a_connection_that_broke_is_made_again(world: World) -> None:
    ada = await world.bus(ADA)
    async with echo(world, BOB) as bob:
        for number in range(3):
            assert await ada.request(bob.fingerprint, "echo", b"%d" % number) == b"%d" % number
            world.network.sever(ada.fingerprint, bob.fingerprint)
            world.network.mend(ada.fingerprint, bob.fingerprint)


async def test_a_peer_that_started_again_takes_the_place_of_its_old_connection(world: World) -> None:
    bob = await world.bus(BOB, topics=frozenset({"news"}))
    ada = Caller(world, ADA)
    old = await ada.meet(bob)
    new = await ada.meet(bob)
    await quiet()
    with pytest.raises(ChannelClosed):
        await old.receive()
    assert await ada.ask(new, ada.envelope(bob, Request("news", b"", 1))) == Answer(1, "accepted")
    assert world.network.connections(bob.fingerprint, name_of(ADA)) == 1


async def test_several_addresses_of_a_peer_are_tried_one_after_the_other(world: World) -> None:
    ada, carol = await world.bus(ADA), await world.bus(CAROL)
    gone = await world.bus(BOB)
    address = gone.address
    await world.crash(gone)
    async with echo(world, BOB, announced=False) as bob:
        world.resolver.announce(bob.fingerprint, address, carol.address, bob.address)
        assert await ada.request(bob.fingerprint, "echo", b"hello") == b"hello"
        world.resolver.announce(bob.fingerprint, address, carol.address)
        world.network.sever(ada.fingerprint, bob.fingerprint)
        with pytest.raises(PeerUnreachable) as refusal:
            await ada.request(bob.fingerprint, "echo", b"hello")
        assert refusal.value.details["tried"] == [list(address), list(carol.address)]


class Unanswered(MemoryTransport):
    """Dials addresses where nobody says anything."""

    async def dial(self, address: Address, *, peer: Fingerprint) -> MemoryChannel:
        await asyncio.sleep(limits.BUS_DIAL_SECONDS * 2)
        return await super().dial(address, peer=peer)


async def patient_ada(world: World) -> Bus:
    return await Bus.bind(
        Identity(ADA, chain_of(ADA)),
        resolver=world.resolver,
        transport=Unanswered(world.network, name_of(ADA)),
        clock=world.clock,
    )


async def test_a_peer_that_calls_is_not_kept_waiting_for_an_address_that_does_not_answer(world: World) -> None:
    ada = await patient_ada(world)
    world.resolver.announce(ada.fingerprint, ada.address)
    async with ada, echo(world, BOB) as bob:
        asking = asyncio.ensure_future(ada.request(bob.fingerprint, "echo", b"hello"))
        await bob.connect(ada.fingerprint)
        await quiet()
        assert asking.done()
        assert await asking == b"hello"
    async with await world.bus(CAROL) as carol:
        world.resolver.announce(name_of(BOB), Address("nowhere", 1))
        with pytest.raises(PeerUnreachable):
            await carol.request(name_of(BOB), "echo", b"")


async def test_who_waits_for_a_connection_when_the_bus_is_closed_is_told(world: World) -> None:
    ada = await patient_ada(world)
    world.resolver.announce(name_of(BOB), Address("nowhere", 1))
    connecting = asyncio.ensure_future(ada.connect(name_of(BOB)))
    await quiet()
    await ada.close()
    with pytest.raises(BusClosed):
        await connecting


async def test_who_dials_an_agent_of_another_user_is_told(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB, chain=chain_of(BOB, issuer=STRANGER))
    with pytest.raises(OtherUser):
        await ada.request(bob.fingerprint, "echo", b"secret")


async def test_who_is_revoked_is_told_and_asks_nobody(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB)
    revoked = state(USER, NOTHING_REVOKED, [ada.fingerprint], next_generation=False, now_ms=NOW)
    await bob.learn([revoked.encode()])
    with pytest.raises(Revoked):
        await ada.request(bob.fingerprint, "echo", b"")


GARBAGE = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"\0" * 100, id="zeros"),
    pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
    pytest.param(b"parley bus envelope", id="the beginning of an envelope"),
    pytest.param(envelope_of()[:-1], id="an envelope that is cut off"),
    pytest.param(b"\1\1" + bytes(20) + block(b"\4" * 100) + bytes(3), id="a hello with a chain that is none"),
    pytest.param(b"\1\1" + bytes(20) + block(b"\1" + block(b"[" * 16_000) + bytes(64)) + bytes(3), id="a deep chain"),
    pytest.param(encode_frame(Topics(("news",))), id="topics before a hello"),
]


@pytest.mark.parametrize("frame", GARBAGE)
async def test_garbage_in_the_place_of_a_hello_ends_the_connection_and_serves_the_others(
    world: World, frame: bytes
) -> None:
    ada = await world.bus(ADA)
    async with echo(world, BOB) as bob:
        channel = await Caller(world, CAROL).call(bob)
        await channel.send(frame)
        await ends(channel)
        assert await ada.request(bob.fingerprint, "echo", b"hello") == b"hello"


@pytest.mark.parametrize("frame", GARBAGE[:5])
async def test_garbage_after_a_hello_ends_the_connection_and_says_why(world: World, frame: bytes) -> None:
    bob = await world.bus(BOB)
    channel = await Caller(world, CAROL).meet(bob)
    await channel.send(frame)
    assert isinstance((await ends(channel))[-1], Refusal)


async def test_a_second_hello_ends_the_connection(world: World) -> None:
    bob = await world.bus(BOB)
    channel = await Caller(world, CAROL).meet(bob)
    await channel.send(encode_frame(Hello(b"i" * 16, 1, chain_of(CAROL).encode(), (), ())))
    assert (await ends(channel))[-1] == Refusal("BUS_LINK_INVALID", False)


async def test_who_says_nothing_is_hung_up_on(world: World) -> None:
    bob = await world.bus(BOB)
    silent = await Caller(world, CAROL).call(bob)
    began = world.clock.now_ms()
    await ends(silent)
    assert world.clock.now_ms() - began == limits.BUS_HELLO_SECONDS * 1000
    quietened = await Caller(world, CAROL).meet(bob)
    began = world.clock.now_ms()
    await ends(quietened)
    assert world.clock.now_ms() - began == limits.BUS_SILENCE_SECONDS * 1000


async def test_control_who_only_says_that_it_is_there_is_kept(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB)
    await ada.connect(bob.fingerprint)
    await asyncio.sleep(limits.BUS_SILENCE_SECONDS * 10)
    assert world.network.connections(ada.fingerprint, bob.fingerprint) == 1


async def test_who_reads_nothing_is_hung_up_on_and_the_others_are_served(world: World) -> None:
    bob = await world.bus(BOB, topics=frozenset({"news"}))
    caller = Caller(world, CAROL)
    channel = await caller.meet(bob)
    old = caller.envelope(bob, Request("news", b"", 1))
    with pytest.raises(ChannelClosed):
        await repeat(channel, old)
    async with echo(world, ADA) as ada:
        assert await bob.request(ada.fingerprint, "echo", b"hello") == b"hello"


async def test_a_flood_of_answers_to_nothing_is_passed_over(world: World) -> None:
    async with echo(world, BOB) as bob:
        channel = await Caller(world, CAROL).meet(bob)
        for sequence in range(1000):
            await channel.send(encode_frame(Answer(sequence, "accepted")))
        assert await bob.inbox() == []


class Peer:
    """Somebody who listens in Bob's place, and answers envelopes as the test has it."""

    def __init__(self, world: World, *answers: Answer | None) -> None:
        self.received: list[tuple[int, bytes]] = []
        self._answers = iter(answers)
        self._world = world
        self._transport = world.network.transport(name_of(BOB))

    async def listen(self) -> None:
        self._world.resolver.announce(name_of(BOB), await self._transport.listen(self._serve))

    async def _serve(self, channel: Channel) -> None:
        await channel.send(encode_frame(Hello(b"b" * 16, 1, chain_of(BOB).encode(), (), ())))
        while True:
            try:
                said = decode_frame(await channel.receive())
            except ChannelClosed:
                return
            if not isinstance(said, Envelope):
                continue
            self.received.append((said.head.sequence, said.head.message_id))
            answer = next(self._answers, Answer(0, "accepted"))
            if answer is not None:
                await channel.send(encode_frame(answer._replace(sequence=said.head.sequence)))


async def test_weakness_6_without_an_acknowledgement_it_is_sent_again_under_the_same_id(world: World) -> None:
    peer = Peer(world, None, None)
    await peer.listen()
    ada = await world.bus(ADA)
    assert (await ada.publish_to(name_of(BOB), "news", b"hello")).outcome == "delivered"
    sequences, message_ids = zip(*peer.received, strict=True)
    assert sequences == (1, 2, 3)
    assert len(set(message_ids)) == 1


async def test_weakness_6_who_never_acknowledges_is_told_of_to_the_caller(world: World) -> None:
    peer = Peer(world, *[None] * 9)
    await peer.listen()
    ada = await world.bus(ADA)
    with pytest.raises(NotAcknowledged):
        await ada.publish_to(name_of(BOB), "news", b"hello")
    assert len(peer.received) == limits.BUS_TRIES_MAX


async def test_weakness_16_a_counter_of_a_restored_backup_catches_up(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    ada = await world.bus(ADA)
    async with echo(world, BOB) as bob:
        for _ in range(5):
            await ada.request(bob.fingerprint, "echo", b"")
        await world.crash(ada)
        store = MemoryMeshStore()  # as it was before everything
        restored = await world.bus(ADA, store=store)
        assert await restored.request(bob.fingerprint, "echo", b"hello") == b"hello"
        assert await store.next_out_seq() == 7
        assert "the counter jumps to 6" in caplog.text


async def test_weakness_16_fifty_at_a_time_catch_up_together(world: World) -> None:
    ada = await world.bus(ADA)
    async with echo(world, BOB) as bob:
        for _ in range(60):
            await ada.request(bob.fingerprint, "echo", b"")
        await world.crash(ada)
        restored = await world.bus(ADA)
        bodies = [b"%d" % number for number in range(50)]
        assert await asyncio.gather(*(restored.request(bob.fingerprint, "echo", body) for body in bodies)) == bodies


@pytest.mark.parametrize("expected", [2**40, 2**63 - 1, 2**64 - 1])
async def test_weakness_16_a_peer_that_lies_cannot_use_the_counter_up(world: World, expected: int) -> None:
    peer = Peer(world, Answer(0, "bad_sequence", expected=expected))
    await peer.listen()
    store = MemoryMeshStore()
    ada = await world.bus(ADA, store=store)
    with pytest.raises(SequenceRefused):
        await ada.publish_to(name_of(BOB), "news", b"hello")
    assert await store.next_out_seq() == 2


async def test_weakness_16_a_peer_that_goes_on_lying_is_given_up(world: World) -> None:
    peer = Peer(world, *(Answer(0, "bad_sequence", expected=1_000 * number) for number in range(1, 9)))
    await peer.listen()
    ada = await world.bus(ADA)
    with pytest.raises(SequenceRefused):
        await ada.publish_to(name_of(BOB), "news", b"hello")
    assert len(peer.received) == limits.BUS_TRIES_MAX


async def test_a_refusal_that_is_not_known_is_told_with_its_code(world: World) -> None:
    peer = Peer(
        world,
        Answer(0, "refused", refusal=Refusal("BUS_FROM_THE_FUTURE", False)),
        Answer(0, "refused", refusal=Refusal("BUS_STORE_DAMAGED", True)),
    )
    await peer.listen()
    ada = await world.bus(ADA)
    for code, told in (("BUS_PEER_REFUSED", "BUS_FROM_THE_FUTURE"), ("BUS_PEER_BUSY", "BUS_STORE_DAMAGED")):
        outcome = await asyncio.gather(ada.publish_to(name_of(BOB), "news", b""), return_exceptions=True)
        assert getattr(outcome[0], "code", None) == code
        assert getattr(outcome[0], "details", {})["told"] == told


async def test_weakness_8_the_order_of_a_peer_is_held_to_the_write_and_not_to_the_acknowledgement(
    world: World,
) -> None:
    peer = Peer(world, *[None] * 50)
    await peer.listen()
    ada = await world.bus(ADA)
    sending = [asyncio.ensure_future(ada.publish_to(name_of(BOB), "news", b"%d" % number)) for number in range(50)]
    await quiet()
    assert [sequence for sequence, _ in peer.received] == list(range(1, 51))
    for each in sending:
        each.cancel()


async def test_after_its_close_a_bus_does_nothing_more(world: World) -> None:
    ada = await world.bus(ADA)
    await ada.close()
    for refused in (ada.publish("news", b""), ada.request(name_of(BOB), "news", b""), ada.connect(name_of(BOB))):
        with pytest.raises(BusClosed):
            await refused


async def repeat(channel: Channel, frame: bytes) -> None:
    while True:
        await channel.send(frame)


async def ends(channel: Channel) -> list[object]:
    """All that is said until the connection ends."""
    said: list[object] = []
    try:
        while True:
            said.append(decode_frame(await channel.receive()))
    except ChannelClosed:
        return said
