"""What others can have a bus do or keep is bounded, however much they say: who announces, who tells, who asks."""

import asyncio
from typing import Any

import pytest

from parley.bus import Address, Fingerprint, KnownPeer, MemoryMeshStore
from parley.bus.bus import Bus
from parley.bus.envelope import Envelope
from parley.bus.link_frames import Answer, Topics, decode_frame, encode_frame
from parley.bus.memory_transport import MemoryChannel, MemoryTransport
from parley.bus.message import Request
from parley.bus.transport import Channel
from parley.bus.trust import Identity
from parley.core import limits
from parley.core.bus_errors import ChannelClosed
from tests.bus.agents import ADA, BOB, CAROL, chain_of
from tests.bus.world import Caller, World, echo, name_of, quiet

NOWHERE = Address("nowhere", 1)
MINUTE_MS = 60_000


class Patient(MemoryTransport):
    """Counts the addresses that are tried at the same time. Where nobody is, nobody says so."""

    def __init__(self, world: World) -> None:
        super().__init__(world.network, name_of(ADA))
        self.trying = 0
        self.most = 0
        self.tried: set[Fingerprint] = set()

    async def dial(self, address: Address, *, peer: Fingerprint) -> MemoryChannel:
        self.tried.add(peer)
        self.trying += 1
        self.most = max(self.most, self.trying)
        try:
            if address == NOWHERE:
                await asyncio.sleep(limits.BUS_DIAL_SECONDS * 2)
            return await super().dial(address, peer=peer)
        finally:
            self.trying -= 1


async def patient(world: World, **more: Any) -> tuple[Bus, Patient]:
    transport = Patient(world)
    identity = Identity(ADA, chain_of(ADA))
    return await Bus.bind(identity, resolver=world.resolver, transport=transport, clock=world.clock, **more), transport


def made_up(number: int) -> Fingerprint:
    return Fingerprint(number.to_bytes(32))


async def test_of_agents_that_are_announced_by_the_thousand_few_are_looked_for_at_a_time(world: World) -> None:
    ada, transport = await patient(world)
    async with ada:
        for number in range(3_000):
            world.resolver.announce(made_up(number), NOWHERE)
        await quiet()
        assert transport.most == limits.BUS_STRANGERS_GREETED
        await asyncio.sleep(2 * limits.BUS_ANNOUNCEMENTS_MAX * limits.BUS_DIAL_SECONDS)
        assert transport.most == limits.BUS_STRANGERS_GREETED
        assert transport.trying == 0
        assert len(transport.tried) == limits.BUS_ANNOUNCEMENTS_MAX, "those that were too many are passed over"


async def test_an_agent_that_was_met_before_waits_behind_no_strangers(world: World) -> None:
    ada, transport = await patient(world)
    async with ada, await world.bus(BOB) as bob:
        await ada.connect(bob.fingerprint)
        world.network.sever(ada.fingerprint, bob.fingerprint)
        world.network.mend(ada.fingerprint, bob.fingerprint)
        await quiet()
        for number in range(3_000):
            world.resolver.announce(made_up(number), NOWHERE)
        world.resolver.announce(bob.fingerprint, bob.address)
        await quiet()
        assert transport.trying == limits.BUS_STRANGERS_GREETED
        assert world.network.connections(ada.fingerprint, bob.fingerprint) == 1


async def test_an_agent_that_is_announced_elsewhere_while_it_is_looked_for_is_found(world: World) -> None:
    ada, _ = await patient(world)
    async with ada, await world.bus(BOB, announced=False) as bob:
        world.resolver.announce(bob.fingerprint, NOWHERE)
        await quiet()
        world.resolver.announce(bob.fingerprint, bob.address)
        await asyncio.sleep(limits.BUS_DIAL_SECONDS)
        await quiet()
        assert world.network.connections(ada.fingerprint, bob.fingerprint) == 1


class Slow(MemoryMeshStore):
    """A store in which writing down a peer takes as long as the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = asyncio.Event()
        self.writing = 0
        self.written: list[tuple[str, ...]] = []

    async def remember_peer(self, peer: KnownPeer) -> None:
        self.writing += 1
        await self.may_write.wait()
        self.written.append(peer.topics)
        await super().remember_peer(peer)


async def test_topics_that_are_told_faster_than_they_are_written_down_do_not_pile_up(world: World) -> None:
    store = Slow()
    channel = await Caller(world, CAROL).meet(await world.bus(BOB, store=store))
    for number in range(1_000):
        await channel.send(encode_frame(Topics((f"topic {number}",))))
    await quiet()
    assert store.writing == 1
    store.may_write.set()
    await quiet()
    assert store.written[-1] == ("topic 999",)
    assert len(store.written) == 2


async def asked(world: World, bob: Bus, count: int, *, acknowledges: bool) -> set[bytes]:
    """The answers to so many requests, from one who acknowledges them or does not."""
    carol = Caller(world, CAROL)
    channel = await carol.meet(bob)
    found: set[bytes] = set()
    listening = asyncio.ensure_future(_listen(channel, found, acknowledges=acknowledges))
    for _ in range(count):
        await channel.send(carol.envelope(bob, Request("echo", b"x" * 100, MINUTE_MS)))
        await quiet()
    listening.cancel()
    return found


async def _listen(channel: Channel, found: set[bytes], *, acknowledges: bool) -> None:
    while True:
        try:
            said = decode_frame(await channel.receive())
        except ChannelClosed:
            return
        if isinstance(said, Envelope):
            found.add(said.head.message_id)
            if acknowledges:
                await channel.send(encode_frame(Answer(said.head.sequence, "accepted")))


@pytest.mark.parametrize(("bound", "most"), [("BUS_UNTAKEN_MAX", 8), ("BUS_UNTAKEN_BYTES_MAX", 8 * 200 + 100)])
async def test_answers_that_nobody_takes_are_not_kept_without_end(
    world: World, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    """Whoever takes them is answered all the time, and is the control."""
    monkeypatch.setattr(limits, bound, most)
    async with echo(world, BOB) as bob:
        assert len(await asked(world, bob, 30, acknowledges=False)) == 8
    async with echo(world, ADA) as ada:
        assert len(await asked(world, ada, 30, acknowledges=True)) == 30


async def test_requests_that_nothing_answers_are_bounded_alike(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BUS_UNTAKEN_MAX", 8)
    assert len(await asked(world, await world.bus(BOB), 30, acknowledges=False)) == 8
