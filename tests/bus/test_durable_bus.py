"""Buses on files: what they remember when they start again, and what a kill between any two steps leaves."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from parley.bus import Bus, Caveats, Message
from parley.bus.link_frames import Answer, Refusal
from parley.bus.message import Publish, Request
from parley.bus.sqlite_store import SqliteMeshStore
from parley.bus.store_file import StoreIdentity
from parley.core.bus_errors import StoreUnavailable
from tests.bus.agents import ADA, BOB, CAROL, USER_NAME, chain_of
from tests.bus.world import Caller, World, name_of
from tests.faults.vfs import Failure, FaultVFS

REAL_TIME = True


class Files:
    """A store for each agent, opened again and again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, seed: bytes, kind: Callable[..., SqliteMeshStore] = SqliteMeshStore, **more: Any) -> SqliteMeshStore:
        name = name_of(seed)
        return kind(self._folder / f"{name.hex()}.db", StoreIdentity(name, USER_NAME), **more)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


class Heard:
    """A handler that tells when it was called."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._called = asyncio.Condition()

    async def __call__(self, message: Message) -> bytes:
        async with self._called:
            self.messages.append(message)
            self._called.notify_all()
        return message.body

    async def times(self, count: int) -> list[Message]:
        async with self._called:
            await self._called.wait_for(lambda: len(self.messages) >= count)
        return self.messages


def on_topic(heard: Heard) -> Callable[[Message], Any]:
    async def hear(message: Message) -> None:
        await heard(message)

    return hear


async def test_case_57_a_bus_that_starts_again_resumes_its_sequences_and_peers_accept(
    world: World, files: Files
) -> None:
    bob = await world.bus(BOB, store=files.open(BOB))
    heard = Heard()
    bob.handle("echo", heard)
    for round_ in range(3):
        ada = await world.bus(ADA, store=files.open(ADA))
        assert await ada.request(bob.fingerprint, "echo", b"%d" % round_) == b"%d" % round_
        await world.crash(ada)
    store = files.open(ADA)
    assert await store.next_out_seq() > 3 * 1024
    await store.close()


async def test_case_58_a_captured_envelope_is_refused_after_a_restart(world: World, files: Files) -> None:
    bob = await world.bus(BOB, store=files.open(BOB), topics=frozenset({"news"}))
    ada = Caller(world, ADA)
    captured = ada.envelope(bob, Publish("news", b"hello"))
    assert await ada.ask(await ada.meet(bob), captured) == Answer(1, "accepted")
    await world.crash(bob)
    bob = await world.bus(BOB, store=files.open(BOB), topics=frozenset({"news"}))
    channel = await ada.meet(bob)
    assert await ada.ask(channel, captured) == Answer(1, "refused", refusal=Refusal("BUS_REPLAYED", False))
    assert await ada.ask(channel, ada.envelope(bob, Publish("news", b"next"))) == Answer(2, "accepted")


async def test_weakness_1_a_bus_is_the_same_agent_after_a_restart_and_is_known_with_what_it_wants(
    world: World, files: Files
) -> None:
    ada = await world.bus(ADA, store=files.open(ADA))
    bob = await world.bus(BOB, store=files.open(BOB))
    heard = Heard()
    bob.subscribe("news", on_topic(heard))
    await bob.connect(ada.fingerprint)
    await until(lambda: knows_what_somebody_wants(ada))
    await world.crash(bob)
    await world.crash(ada)
    ada = await world.bus(ADA, store=files.open(ADA))
    (delivery,) = await ada.publish("news", b"hello")
    assert (delivery.peer, delivery.outcome) == (name_of(BOB), "spooled")
    await world.crash(ada)
    bob = await world.bus(BOB, store=files.open(BOB))
    bob.subscribe("news", on_topic(heard))
    ada = await world.bus(ADA, store=files.open(ADA))
    assert [each.body for each in await heard.times(1)] == [b"hello"]


class NeverRemoves(SqliteMeshStore):
    """Its process is killed after each acknowledgement, before the message is taken out of the outbox."""

    async def remove_outbox(self, outbox_id: int) -> bool:
        raise await killed()


class NeverAdmits(SqliteMeshStore):
    """Its process is killed before anything is admitted."""

    async def admit(self, *args: Any, **more: Any) -> Any:
        raise await killed()


class NeverDispatched(SqliteMeshStore):
    """Its process is killed after the handler has returned, before that is written down."""

    async def dispatched(self, inbox_id: int) -> bool:
        raise await killed()


class NeverSends(SqliteMeshStore):
    """Its process is killed before a sequence is drawn."""

    async def next_out_seq(self) -> int:
        raise await killed()


async def killed() -> BaseException:
    """Nothing more happens here."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError


async def spooled(world: World, files: Files) -> None:
    """Leaves one message for Bob in Ada's outbox."""
    ada = await world.bus(ADA, store=files.open(ADA))
    bob = await world.bus(BOB, store=files.open(BOB), topics=frozenset({"news"}))
    await ada.connect(bob.fingerprint)
    await world.crash(bob)
    assert (await ada.publish_to(name_of(BOB), "news", b"hello")).outcome == "spooled"
    await world.crash(ada)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():  # noqa: ASYNC110 - a store tells nobody that it has changed
        await asyncio.sleep(0)


async def settled(ada: Bus, bob: Bus) -> bool:
    return not (await ada.outbox()).waiting and not await bob.inbox()


async def wedged(bus: Bus) -> bool:
    return all(each.wedged for each in await bus.inbox())


async def knows_what_somebody_wants(bus: Bus) -> bool:
    return any(each.topics for each in bus.peers())


@pytest.mark.parametrize("killed_in", [NeverSends, NeverRemoves])
async def test_case_60_a_sender_killed_between_any_two_steps_has_its_message_handled_once(
    world: World, files: Files, killed_in: type[SqliteMeshStore]
) -> None:
    await spooled(world, files)
    heard = Heard()
    bob = await world.bus(BOB, store=files.open(BOB))
    bob.subscribe("news", on_topic(heard))
    ada = await world.bus(ADA, store=files.open(ADA, killed_in))
    if killed_in is NeverRemoves:
        await heard.times(1)
    await world.crash(ada)
    ada = await world.bus(ADA, store=files.open(ADA))
    await heard.times(1)
    await until(lambda: settled(ada, bob))
    assert [each.body for each in heard.messages] == [b"hello"]
    assert not heard.messages[0].redelivered


@pytest.mark.parametrize(("killed_in", "runs"), [(NeverAdmits, 0), (NeverDispatched, 1)])
async def test_a_recipient_killed_between_any_two_steps_loses_nothing_and_repeats_only_what_it_says(
    world: World, files: Files, killed_in: type[SqliteMeshStore], runs: int
) -> None:
    """Weakness 24: what was admitted and not handled is dispatched when the handler is back."""
    await spooled(world, files)
    heard = Heard()
    bob = await world.bus(BOB, store=files.open(BOB, killed_in), topics=frozenset({"news"}))
    bob.subscribe("news", on_topic(heard))
    ada = await world.bus(ADA, store=files.open(ADA))
    await heard.times(runs)
    await world.crash(bob)
    bob = await world.bus(BOB, store=files.open(BOB), topics=frozenset({"news"}))
    bob.subscribe("news", on_topic(heard))
    await heard.times(runs + 1)
    await until(lambda: settled(ada, bob))
    assert [each.body for each in heard.messages] == [b"hello"] * (runs + 1)
    assert [each.redelivered for each in heard.messages] == [False] * min(runs, 1) + [runs > 0]


async def test_a_message_whose_handler_never_returns_is_wedged_after_five_runs(world: World, files: Files) -> None:
    ada = Caller(world, ADA)
    began = asyncio.Event()

    async def never(message: Message) -> None:
        began.set()
        await killed()

    bob = await world.bus(BOB, store=files.open(BOB))
    bob.subscribe("news", never)
    channel = await ada.meet(bob)
    await ada.ask(channel, ada.envelope(bob, Publish("news", b"poison")))
    for _ in range(4):
        await began.wait()
        await world.crash(bob)
        began.clear()
        bob = await world.bus(BOB, store=files.open(BOB))
        bob.subscribe("news", never)
    await began.wait()
    await world.crash(bob)
    heard = Heard()
    bob = await world.bus(BOB, store=files.open(BOB))
    bob.subscribe("news", on_topic(heard))
    await until(lambda: wedged(bob))
    assert heard.messages == []
    assert await bob.unwedge_inbox((await bob.inbox())[0].id)
    assert [each.body for each in await heard.times(1)] == [b"poison"]


async def test_weakness_21_a_store_that_cannot_write_lets_nothing_in_and_tells_whoever_sends(
    world: World, files: Files
) -> None:
    vfs = FaultVFS()
    bob = await world.bus(BOB, store=files.open(BOB, vfs=vfs.name), topics=frozenset({"news"}))
    ada = Caller(world, ADA)
    channel = await ada.meet(bob)
    heard = Heard()
    bob.subscribe("news", on_topic(heard))
    envelope = ada.envelope(bob, Publish("news", b"hello"))
    vfs.disk.failure = Failure(vfs.disk.operations + 1, apsw.FullError, for_good=True)
    assert await ada.ask(channel, envelope) == Answer(1, "refused", refusal=Refusal("BUS_PEER_BUSY", True))
    carol = await world.bus(CAROL, topics=frozenset({"news"}))
    with pytest.raises(StoreUnavailable):
        await bob.publish_to(carol.fingerprint, "news", b"hello")
    assert heard.messages == []
    vfs.disk.failure = None
    assert await ada.ask(channel, envelope) == Answer(1, "accepted")
    assert [each.body for each in await heard.times(1)] == [b"hello"]


async def test_calls_are_counted_across_restarts(world: World, files: Files) -> None:
    counted = chain_of(ADA, Caveats(calls_max=2))
    ada = Caller(world, ADA)
    answers: list[object] = []
    for _ in range(3):
        bob = await world.bus(BOB, store=files.open(BOB), topics=frozenset({"news"}))
        channel = await ada.meet(bob, counted)
        answers.append(await ada.ask(channel, ada.envelope(bob, Publish("news", b""), chain=counted)))
        await world.crash(bob)
    exhausted = Refusal("BUS_CALLS_EXHAUSTED", False)
    assert answers == [Answer(1, "accepted"), Answer(2, "accepted"), Answer(3, "refused", refusal=exhausted)]


async def test_case_61_fifty_parallel_sends_all_arrive_and_are_committed_together(world: World, files: Files) -> None:
    ada = await world.bus(ADA, store=files.open(ADA))
    bob = await world.bus(BOB, store=files.open(BOB))
    bob.handle("echo", Heard())
    bodies = [b"%d" % number for number in range(50)]
    assert await asyncio.gather(*(ada.request(bob.fingerprint, "echo", body) for body in bodies)) == bodies


async def test_a_reply_that_nobody_waits_for_any_more_is_given_up_at_the_start(world: World, files: Files) -> None:
    ada = await world.bus(ADA, store=files.open(ADA, NeverDispatched))
    bob = await world.bus(BOB)
    bob.handle("echo", Heard())
    assert await ada.request(bob.fingerprint, "echo", b"hello") == b"hello"
    await world.crash(ada)
    ada = await world.bus(ADA, store=files.open(ADA))
    assert await ada.inbox() == []


async def test_a_request_that_was_left_undone_is_handled_after_the_restart(world: World, files: Files) -> None:
    bob = await world.bus(BOB, store=files.open(BOB))
    began = asyncio.Event()

    async def never(message: Message) -> bytes:
        began.set()
        raise await killed()

    bob.handle("work", never)
    ada = Caller(world, ADA)
    await ada.ask(await ada.meet(bob), ada.envelope(bob, Request("work", b"job", 1)))
    await began.wait()
    await world.crash(bob)
    heard = Heard()
    bob = await world.bus(BOB, store=files.open(BOB))
    bob.handle("work", heard)
    (message,) = await heard.times(1)
    assert message.redelivered
