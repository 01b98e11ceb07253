"""The order of things: nothing is acknowledged or handled before the store has kept it."""

import asyncio
from typing import Any

import msgspec

from parley.bus import Admission, Envelope, MemoryMeshStore
from parley.bus.link_frames import Answer, decode_frame
from parley.bus.message import Publish, Reply
from parley.bus.transport import Channel
from parley.core import limits
from tests.bus.agents import ADA, BOB, CAROL, HOLDS, chain_of
from tests.bus.test_publishing import Heard
from tests.bus.world import Caller, World, echo, name_of, quiet


class Slow(MemoryMeshStore):
    """Admits nothing before it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.admitting = 0
        self.may_commit = asyncio.Event()

    async def admit(self, *args: Any, **more: Any) -> Admission:
        self.admitting += 1
        await self.may_commit.wait()
        return await super().admit(*args, **more)


class SlowAndCounting(Slow):
    """One that says that it can count calls."""

    durable = True


class NeverRemoved(MemoryMeshStore):
    """Its disk does not come to remove what was handled."""

    async def dispatched(self, inbox_id: int) -> bool:
        return await asyncio.get_running_loop().create_future()


async def test_nothing_is_acknowledged_or_handled_before_it_is_kept(world: World) -> None:
    store, heard = Slow(), Heard()
    bob = await world.bus(BOB, store=store)
    bob.subscribe("news", heard)
    ada = Caller(world, ADA)
    channel = await ada.meet(bob)
    for body in (b"one", b"two"):
        await channel.send(ada.envelope(bob, Publish("news", body)))
    reading = asyncio.ensure_future(answers(channel, 2))
    await quiet()
    assert store.admitting == 2
    assert not reading.done()
    assert heard.bodies == []
    store.may_commit.set()
    assert await reading == [Answer(1, "accepted"), Answer(2, "accepted")]
    await quiet()
    assert heard.bodies == [b"one", b"two"]


async def test_while_the_store_is_behind_no_more_is_read_than_may_wait_and_others_are_served(world: World) -> None:
    store = Slow()
    bob = await world.bus(BOB, store=store, topics=frozenset({"news"}))
    flooding = Caller(world, ADA)
    channel = await flooding.meet(bob)
    sending = asyncio.ensure_future(flood(flooding, channel, bob))
    await quiet()
    assert store.admitting == limits.BUS_UNANSWERED_MAX
    assert not sending.done()
    async with echo(world, CAROL, topic="news") as carol:
        await bob.connect(carol.fingerprint)
        store.may_commit.set()
        assert await bob.request(carol.fingerprint, "news", b"hello") == b"hello"
    sending.cancel()


async def test_large_payloads_are_bounded_by_their_bytes(world: World) -> None:
    store = Slow()
    bob = await world.bus(BOB, store=store, topics=frozenset({"news"}))
    ada = Caller(world, ADA)
    channel = await ada.meet(bob)
    large = bytes(limits.BUS_ADMITTING_BYTES_MAX // 4)
    for _ in range(8):
        await channel.send(ada.envelope(bob, Publish("news", large)))
    await quiet()
    assert store.admitting == 4
    store.may_commit.set()
    assert len(await answers(channel, 8)) == 8


async def flood(caller: Caller, channel: Channel, bus: Any) -> None:
    while True:
        await channel.send(caller.envelope(bus, Publish("news", b"x")))


async def answers(channel: Channel, count: int) -> list[Answer]:
    found: list[Answer] = []
    while len(found) < count:
        said = decode_frame(await channel.receive())
        if isinstance(said, Answer):
            found.append(said)
    return found


async def test_a_reply_is_handed_over_before_its_commit_and_acknowledged_after(world: World) -> None:
    store = Slow()
    ada, bob = await world.bus(ADA, store=store), Caller(world, BOB)
    channel = await bob.meet(ada)
    asking = asyncio.ensure_future(ada.request(name_of(BOB), "news", b"?"))
    asked = await envelope_on(channel)
    reply = bob.envelope(ada, Reply(asked.head.message_id, "answered", b"!"))
    await channel.send(reply)
    assert await asking == b"!"
    assert store.admitting == 1
    await quiet()
    store.may_commit.set()
    assert await answers(channel, 1) == [Answer(1, "accepted")]


async def test_where_calls_are_counted_a_reply_is_handed_over_after_its_commit(world: World) -> None:
    store = SlowAndCounting()
    ada, bob = await world.bus(ADA, store=store), Caller(world, BOB)
    chain = chain_of(BOB, msgspec.structs.replace(HOLDS, calls_max=1))
    channel = await bob.meet(ada, chain)
    asking = asyncio.ensure_future(ada.request(name_of(BOB), "news", b"?"))
    asked = await envelope_on(channel)
    await channel.send(bob.envelope(ada, Reply(asked.head.message_id, "answered", b"!"), chain=chain))
    await quiet()
    assert not asking.done()
    store.may_commit.set()
    assert await asking == b"!"


async def test_the_next_message_does_not_wait_until_the_one_before_was_removed(world: World) -> None:
    bob, ada, heard = await world.bus(BOB, store=NeverRemoved()), Caller(world, ADA), Heard()
    bob.subscribe("news", heard)
    asked = bob.subscribe("more")
    channel = await ada.meet(bob)
    for topic in ("news", "more"):
        for body in (b"one", b"two"):
            await ada.ask(channel, ada.envelope(bob, Publish(topic, body)))
    assert [(await anext(asked)).body for _ in range(2)] == [b"one", b"two"]
    assert heard.bodies == [b"one", b"two"]


async def envelope_on(channel: Channel) -> Envelope:
    while not isinstance(said := decode_frame(await channel.receive()), Envelope):
        pass
    return said
