"""Each check of what comes in, by somebody who would get past it, and beside it the same attempt with every right."""

import secrets

import pytest

from parley.bus import Caveats, Chain, Channel, Message, state
from parley.bus.bus import Bus
from parley.bus.link_frames import Answer, Refusal
from parley.bus.message import Publish, Reply, Request, encode_message
from parley.bus.payload import seal_payload
from parley.bus.revocation import NOTHING_REVOKED
from parley.core.bus_errors import (
    BusError,
    CertificateExpired,
    ChainInvalid,
    ChannelClosed,
    OtherUser,
    PeerUnreachable,
    ReplyUnasked,
    Revoked,
    TopicRefused,
)
from parley.core.sealing import public_key
from tests.bus.agents import ADA, BOB, CAROL, DAY, MALLORY, NOW, STRANGER, USER, USER_NAME, chain_of
from tests.bus.world import Caller, World, echo, name_of, quiet

HELLO = Publish("news", b"hello")


class Listener:
    """Bob's bus, and what reached its handler."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.heard: list[bytes] = []

    async def hear(self, message: Message) -> None:
        self.heard.append(message.body)


@pytest.fixture
async def bob(world: World) -> Listener:
    listener = Listener(await world.bus(BOB, chain=chain_of(BOB, Caveats())))
    listener.bus.subscribe("news", listener.hear)
    return listener


async def answered(world: World, bob: Listener, caller: bytes = ADA, **more: object) -> Answer | Refusal:
    """What Bob answers a caller that has met him, to an envelope of this making."""
    chain = more.get("meets_with")
    somebody = Caller(world, caller)
    channel = await somebody.meet(bob.bus, chain if isinstance(chain, Chain) else None)
    more.pop("meets_with", None)
    return await somebody.ask(channel, somebody.envelope(bob.bus, HELLO, **more))


async def test_control_an_honest_envelope_is_accepted_and_handled(world: World, bob: Listener) -> None:
    assert await answered(world, bob) == Answer(1, "accepted")
    await quiet()
    assert bob.heard == [b"hello"]


async def refused_at_hello(world: World, bob: Listener, caller: bytes, chain: Chain, **more: object) -> Refusal:
    somebody = Caller(world, caller)
    channel = await somebody.meet(bob.bus, chain, **more)
    said = await somebody.ask(channel, somebody.envelope(bob.bus, HELLO, chain=chain))
    assert isinstance(said, Refusal)
    assert await ends(channel)
    await quiet()
    assert bob.heard == []
    return said


async def ends(channel: Channel) -> bool:
    try:
        while True:
            await channel.receive()
    except ChannelClosed:
        return True


async def test_the_chain_of_a_hello_must_be_that_of_the_key_that_holds_the_channel(world: World, bob: Listener) -> None:
    """A stolen certificate: Mallory shows Ada's."""
    assert (await refused_at_hello(world, bob, MALLORY, chain_of(ADA))).code == ChainInvalid.code
    assert (await answered(world, bob, MALLORY)) == Answer(1, "accepted")


async def test_another_users_agent_is_refused(world: World, bob: Listener) -> None:
    said = await refused_at_hello(world, bob, ADA, chain_of(ADA, issuer=STRANGER))
    assert said == Refusal(OtherUser.code, False)


async def test_an_expired_certificate_is_refused_for_now(world: World, bob: Listener) -> None:
    expired = chain_of(ADA, Caveats(expires_at_ms=NOW - 1))
    assert await refused_at_hello(world, bob, ADA, expired) == Refusal(CertificateExpired.code, True)
    renewed = chain_of(ADA, Caveats(expires_at_ms=NOW + 1))
    assert await answered(world, bob, meets_with=renewed, chain=renewed) == Answer(1, "accepted")


async def test_a_certificate_of_an_older_generation_is_refused(world: World, bob: Listener) -> None:
    begun = state(USER, NOTHING_REVOKED, next_generation=True, now_ms=NOW)
    await bob.bus.learn([begun.encode()])
    assert await refused_at_hello(world, bob, ADA, chain_of(ADA)) == Refusal(Revoked.code, False)
    newer = chain_of(ADA, Caveats(generation=1))
    somebody = Caller(world, ADA)
    channel = await somebody.meet(bob.bus, newer, statements=(begun.encode(),))
    assert await somebody.ask(channel, somebody.envelope(bob.bus, HELLO, chain=newer)) == Answer(1, "accepted")


async def test_a_peer_may_bring_the_news_of_its_own_revocation(world: World, bob: Listener) -> None:
    revoked = state(USER, NOTHING_REVOKED, [name_of(ADA)], next_generation=False, now_ms=NOW)
    said = await refused_at_hello(world, bob, ADA, chain_of(ADA), statements=(revoked.encode(),))
    assert said == Refusal(Revoked.code, False)
    assert await answered(world, bob, CAROL) == Answer(1, "accepted")


async def test_a_revocation_ends_connections_that_there_are(world: World, bob: Listener) -> None:
    somebody, other = Caller(world, ADA), Caller(world, CAROL)
    channel, others = await somebody.meet(bob.bus), await other.meet(bob.bus)
    assert await somebody.ask(channel, somebody.envelope(bob.bus, HELLO)) == Answer(1, "accepted")
    revoked = state(USER, NOTHING_REVOKED, [name_of(ADA)], next_generation=False, now_ms=NOW)
    assert await bob.bus.learn([revoked.encode()])
    assert await somebody.ask(channel, somebody.envelope(bob.bus, HELLO)) == Refusal(Revoked.code, False)
    assert await ends(channel)
    assert await other.ask(others, other.envelope(bob.bus, HELLO)) == Answer(1, "accepted")


async def test_a_revocation_reaches_every_peer_that_is_connected(world: World, bob: Listener) -> None:
    ada, carol = await world.bus(ADA), await world.bus(CAROL)
    await ada.connect(bob.bus.fingerprint)
    await carol.connect(bob.bus.fingerprint)
    revoked = state(USER, NOTHING_REVOKED, [name_of(MALLORY)], next_generation=False, now_ms=NOW)
    assert await ada.learn([revoked.encode()])
    await quiet()
    assert name_of(MALLORY) in carol.revocations.revoked
    assert not await carol.learn([revoked.encode()])


async def test_the_sender_of_an_envelope_must_hold_the_channel(world: World, bob: Listener) -> None:
    """Mallory hands on an envelope that she has captured: genuine, and not hers."""
    captured = Caller(world, ADA).envelope(bob.bus, HELLO)
    mallory = Caller(world, MALLORY)
    said = await mallory.ask(await mallory.meet(bob.bus), captured)
    assert said == Answer(1, "refused", refusal=Refusal("BUS_ENVELOPE_INVALID", False))
    ada = Caller(world, ADA)
    assert await ada.ask(await ada.meet(bob.bus), captured) == Answer(1, "accepted")


async def test_an_envelope_for_somebody_else_is_refused(world: World, bob: Listener) -> None:
    said = await answered(world, bob, recipient=name_of(CAROL))
    assert said == Answer(1, "refused", refusal=Refusal("BUS_WRONG_RECIPIENT", False))


async def test_an_envelope_that_another_key_signed_is_refused(world: World, bob: Listener) -> None:
    said = await answered(world, bob, seed=MALLORY)
    assert said == Answer(1, "refused", refusal=Refusal("BUS_ENVELOPE_INVALID", False))


async def test_an_envelope_brings_its_own_chain_which_is_judged_too(world: World, bob: Listener) -> None:
    said = await answered(world, bob, chain=chain_of(ADA, issuer=STRANGER))
    assert said == Answer(1, "refused", refusal=Refusal("BUS_OTHER_USER", False))
    await quiet()
    assert bob.heard == []


async def test_a_certificate_that_expires_on_a_connection_is_refused_from_then_on(world: World, bob: Listener) -> None:
    ada = Caller(world, ADA)
    brief = chain_of(ADA, Caveats(expires_at_ms=world.clock.now_ms() + DAY))
    channel = await ada.meet(bob.bus, brief)
    assert await ada.ask(channel, ada.envelope(bob.bus, HELLO, chain=brief)) == Answer(1, "accepted")
    world.clock.jump(DAY)
    said = await ada.ask(channel, ada.envelope(bob.bus, HELLO, chain=brief))
    assert said == Answer(2, "refused", refusal=Refusal("BUS_EXPIRED", True))


async def test_a_topic_that_the_senders_certificate_does_not_allow_is_refused(world: World, bob: Listener) -> None:
    narrow, wide = chain_of(ADA, Caveats(topics=("alerts",))), chain_of(ADA, Caveats(topics=("alerts", "news")))
    said = await answered(world, bob, meets_with=narrow, chain=narrow)
    assert said == Answer(1, "refused", refusal=Refusal("BUS_TOPIC_REFUSED", False))
    assert await answered(world, bob, meets_with=wide, chain=wide) == Answer(1, "accepted")


async def test_a_topic_that_the_recipients_certificate_does_not_allow_is_refused(world: World) -> None:
    bob = await world.bus(BOB, chain=chain_of(BOB, Caveats(topics=("alerts",))), topics=frozenset({"alerts", "news"}))
    ada = Caller(world, ADA)
    channel = await ada.meet(bob)
    said = await ada.ask(channel, ada.envelope(bob, HELLO))
    assert said == Answer(1, "refused", refusal=Refusal("BUS_TOPIC_REFUSED", False))
    assert await ada.ask(channel, ada.envelope(bob, Publish("alerts", b""))) == Answer(2, "accepted")


async def test_an_agent_may_not_use_topics_that_its_own_certificate_leaves_out(world: World, bob: Listener) -> None:
    ada = await world.bus(ADA, chain=chain_of(ADA, Caveats(topics=("alerts",))))
    for refused in (ada.publish("news", b""), ada.request(bob.bus.fingerprint, "news", b"")):
        with pytest.raises(TopicRefused):
            await refused
    with pytest.raises(TopicRefused):
        ada.subscribe("news")
    ada.subscribe("alerts")


async def test_nothing_is_sent_to_a_peer_that_may_not_listen_on_the_topic(world: World) -> None:
    ada = await world.bus(ADA)
    bob = await world.bus(BOB, chain=chain_of(BOB, Caveats(topics=("alerts",))))
    with pytest.raises(TopicRefused):
        await ada.request(bob.fingerprint, "news", b"secret")
    bob.subscribe("alerts")
    assert (await ada.publish_to(bob.fingerprint, "alerts", b"")).outcome == "delivered"


async def test_calls_are_counted_where_they_can_be_kept(world: World, bob: Listener) -> None:
    counted = chain_of(ADA, Caveats(calls_max=1))
    said = await answered(world, bob, meets_with=counted, chain=counted)
    assert said == Answer(1, "refused", refusal=Refusal("BUS_CALLS_UNCOUNTED", False))
    assert await answered(world, bob) == Answer(1, "accepted")


async def test_a_reply_counts_only_from_the_peer_that_was_asked(world: World) -> None:
    ada = await world.bus(ADA)
    bob = await world.bus(BOB)
    asked: list[bytes] = []

    async def never(message: Message) -> bytes:
        asked.append(message.message_id)
        mallory = Caller(world, MALLORY)
        channel = await mallory.meet(ada)
        said = await mallory.ask(channel, mallory.envelope(ada, Reply(message.message_id, "answered", b"forged")))
        assert said == Answer(1, "refused", refusal=Refusal(ReplyUnasked.code, False))
        return b"genuine"

    bob.handle("news", never)
    assert await ada.request(bob.fingerprint, "news", b"") == b"genuine"
    late = Caller(world, CAROL)
    said = await late.ask(await late.meet(ada), late.envelope(ada, Reply(asked[0], "answered", b"late")))
    assert said == Answer(1, "refused", refusal=Refusal(ReplyUnasked.code, False))


async def test_a_replayed_envelope_and_an_old_sequence_are_told_apart(world: World, bob: Listener) -> None:
    ada = Caller(world, ADA)
    channel = await ada.meet(bob.bus)
    first = ada.envelope(bob.bus, HELLO, sequence=5)
    assert await ada.ask(channel, first) == Answer(5, "accepted")
    assert await ada.ask(channel, first) == Answer(5, "refused", refusal=Refusal("BUS_REPLAYED", False))
    old = ada.envelope(bob.bus, HELLO, sequence=5)
    assert await ada.ask(channel, old) == Answer(5, "bad_sequence", expected=6)
    await quiet()
    assert bob.heard == [b"hello"]


async def test_weakness_17_a_sequence_beyond_what_a_file_can_hold_is_refused_before_the_store(
    world: World, bob: Listener
) -> None:
    assert await answered(world, bob, sequence=2**63) == Answer(2**63, "bad_sequence", expected=1)
    assert await answered(world, bob, sequence=2**63 - 1) == Answer(2**63 - 1, "accepted")


async def test_a_payload_that_is_sealed_to_somebody_else_is_refused(world: World, bob: Listener) -> None:
    message_id = secrets.token_bytes(16)

    def sealed_for(seed: bytes) -> bytes:
        key = public_key(seed)
        plain = encode_message(HELLO)
        return seal_payload(plain, user=USER_NAME, message_id=message_id, sender_seed=ADA, recipient_key=key)

    said = await answered(world, bob, sealed=sealed_for(CAROL), message_id=message_id)
    assert said == Answer(1, "refused", refusal=Refusal("BUS_PAYLOAD_UNREADABLE", False))
    assert await answered(world, bob, sealed=sealed_for(BOB), message_id=message_id) == Answer(1, "accepted")
    await quiet()
    assert bob.heard == [b"hello"]


async def test_a_peer_that_answers_in_the_place_of_another_gets_nothing(world: World) -> None:
    """A spoofed announcement: Bob's name with Mallory's address."""
    ada, mallory = await world.bus(ADA), await world.bus(MALLORY)
    world.resolver.announce(name_of(BOB), mallory.address)
    with pytest.raises(PeerUnreachable):
        await ada.request(name_of(BOB), "echo", b"secret")
    async with echo(world, BOB) as bob:
        world.resolver.announce(bob.fingerprint, mallory.address, bob.address)
        assert await ada.request(bob.fingerprint, "echo", b"secret") == b"secret"


async def test_an_agent_does_not_talk_to_itself_by_mistake(world: World, bob: Listener) -> None:
    with pytest.raises(BusError):
        await bob.bus.request(bob.bus.fingerprint, "news", b"", timeout=1)


async def test_what_is_asked_for_reaches_nobody_who_does_not_subscribe(world: World, bob: Listener) -> None:
    ada = Caller(world, ADA)
    channel = await ada.meet(bob.bus)
    said = await ada.ask(channel, ada.envelope(bob.bus, Publish("weather", b"")))
    assert said == Answer(1, "refused", refusal=Refusal("BUS_NO_SUBSCRIBER", False))
    assert await bob.bus.inbox() == []


async def test_a_request_that_nobody_answers_is_settled(world: World, bob: Listener) -> None:
    ada = Caller(world, ADA)
    channel = await ada.meet(bob.bus)
    assert await ada.ask(channel, ada.envelope(bob.bus, Request("news", b"", 100))) == Answer(1, "accepted")
    await quiet()
    assert await bob.bus.inbox() == []
