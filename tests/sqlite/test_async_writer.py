"""The writer as an event loop sees it: one callback a commit, events before answers, everything in commit order."""

import asyncio
import threading
from collections.abc import AsyncIterator

import apsw
import pytest

from parley.core.errors import DatabaseCorrupt, InternalError, NotFound, ServiceUnavailable, ShuttingDown
from parley.sqlite import Batch, async_writer
from parley.sqlite.async_writer import AsyncWriter
from tests.sqlite.rows import insert, insert_then_refuse, numbers
from tests.sqlite.test_writer import DEADLINE_SECONDS, Held, leave


@pytest.fixture
async def writer(connection: apsw.Connection) -> AsyncIterator[AsyncWriter]:
    writer = AsyncWriter(connection)
    yield writer
    assert await writer.stop(timeout=DEADLINE_SECONDS)


async def test_a_write_is_awaited(writer: AsyncWriter, connection: apsw.Connection) -> None:
    assert await writer.run(insert(1)) == 1
    with pytest.raises(NotFound):
        await writer.run(insert_then_refuse(2))
    assert numbers(connection) == {1}


async def test_the_hook_sees_each_batch_on_the_loop_before_its_futures_resolve(connection: apsw.Connection) -> None:
    seen: list[tuple[int, bool, bool]] = []
    loop_thread = threading.get_ident()

    def after_commit(batch: Batch) -> None:
        settled = any(outcome.waiter.done() for outcome in batch)
        seen.append((len(batch), settled, threading.get_ident() == loop_thread))

    writer = AsyncWriter(connection, after_commit=after_commit)
    held = Held()
    first = writer.run(held)
    await asyncio.to_thread(held.running.wait, DEADLINE_SECONDS)
    rest = [writer.run(insert(number)) for number in range(8)]
    order: list[int] = []
    for number, future in enumerate(rest):
        future.add_done_callback(lambda _, number=number: order.append(number))
    held.release.set()
    assert await asyncio.gather(*rest) == list(range(8))
    await first
    assert seen == [(1, False, True), (8, False, True)]
    assert order == list(range(8))
    await writer.stop()


async def test_a_hook_that_fails_leaves_nobody_waiting(connection: apsw.Connection) -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))

    def after_commit(_: Batch) -> None:
        raise RuntimeError("a bug in the hook")

    writer = AsyncWriter(connection, after_commit=after_commit)
    assert await writer.run(insert(1)) == 1
    assert [type(error) for error in reported] == [RuntimeError]
    await writer.stop()


async def test_a_write_that_nobody_waits_for_is_committed_with_the_next(
    connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_writer, "LATER_SECONDS", 3600.0)
    sizes: list[int] = []
    writer = AsyncWriter(connection, after_commit=lambda batch: sizes.append(len(batch)))
    later = [writer.run_later(insert(number)) for number in range(3)]
    assert await writer.run(insert(3)) == 3
    assert await asyncio.gather(*later) == [0, 1, 2]
    assert sizes == [4]
    await writer.stop()


async def test_a_write_that_nobody_waits_for_is_committed_alone_in_the_end(writer: AsyncWriter) -> None:
    assert await writer.run_later(insert(1)) == 1
    with pytest.raises(NotFound):
        await writer.run_later(insert_then_refuse(2))


async def test_a_writer_that_stops_leaves_out_no_write_that_could_wait(connection: apsw.Connection) -> None:
    writer = AsyncWriter(connection)
    later = writer.run_later(insert(1))
    assert await writer.stop(timeout=DEADLINE_SECONDS)
    assert await later == 1
    assert numbers(connection) == {1}


async def test_a_caller_that_went_away_does_not_undo_its_write(
    writer: AsyncWriter, connection: apsw.Connection
) -> None:
    held = Held()
    first = writer.run(held)
    await asyncio.to_thread(held.running.wait, DEADLINE_SECONDS)
    second = writer.run(insert(1))
    second.cancel()
    held.release.set()
    await first
    await writer.run(insert(2))
    assert numbers(connection) == {1, 2}


async def test_a_refusal_is_raised_at_once(writer: AsyncWriter) -> None:
    writer.refuse_with = ServiceUnavailable("The disk is nearly full", reason="disk_low")
    assert writer.refuse_with is not None
    with pytest.raises(ServiceUnavailable):
        writer.run(insert(1))
    writer.refuse_with = None
    await writer.run(insert(1))


async def test_after_stop_every_future_is_settled_and_new_ones_are_refused(connection: apsw.Connection) -> None:
    writer = AsyncWriter(connection)
    futures = [writer.run(insert(number)) for number in range(50)]
    assert await writer.stop(timeout=DEADLINE_SECONDS)
    assert writer.state == "stopped"
    assert all(future.done() for future in futures)
    assert numbers(connection) == set(range(50))
    with pytest.raises(ShuttingDown):
        writer.run(insert(50))


async def test_death_and_damage_are_told_on_the_loop(connection: apsw.Connection) -> None:
    loop_thread = threading.get_ident()
    told: list[tuple[type[BaseException], bool]] = []

    def note(error: BaseException) -> None:
        told.append((type(error), threading.get_ident() == loop_thread))

    def damaged(_: apsw.Connection) -> None:
        raise apsw.CorruptError("as SQLite would")

    writer = AsyncWriter(connection, on_corrupt=note, on_death=note)
    with pytest.raises(DatabaseCorrupt):
        await writer.run(damaged)
    with pytest.raises(InternalError):
        await writer.run(leave)
    assert told == [(DatabaseCorrupt, True), (SystemExit, True)]
    assert await writer.stop()


async def test_callers_who_come_back_after_a_commit_share_the_next_one(connection: apsw.Connection) -> None:
    """Half of them come back a little later than the others; the others wait for them."""
    sizes: list[int] = []
    writer = AsyncWriter(connection, after_commit=lambda batch: sizes.append(len(batch)))
    numbers_left = iter(range(1000))

    async def caller(turns_late: int) -> None:
        for _ in range(20):
            await writer.run(insert(next(numbers_left)))
            for _ in range(turns_late):
                await asyncio.sleep(0)

    await asyncio.gather(*(caller(number % 4) for number in range(8)))
    await writer.stop()
    assert sum(sizes) == 160
    assert sizes.count(8) >= 15, sizes


async def test_a_write_that_nobody_follows_is_committed_after_the_patience_is_over(writer: AsyncWriter) -> None:
    await asyncio.gather(*(writer.run(insert(number)) for number in range(8)))
    assert await writer.run(insert(8)) == 8
    assert await writer.run(insert(9)) == 9


async def test_what_waits_when_the_writer_stops_is_committed_at_once(connection: apsw.Connection) -> None:
    writer = AsyncWriter(connection)
    await asyncio.gather(*(writer.run(insert(number)) for number in range(8)))
    last = writer.run(insert(8))
    assert await writer.stop(timeout=DEADLINE_SECONDS)
    assert await last == 8


async def test_a_write_that_nobody_waits_for_does_not_have_the_next_commit_to_itself(
    connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_writer, "LATER_SECONDS", 3600.0)
    monkeypatch.setattr(async_writer, "PATIENCE_SECONDS", 0.0)
    sizes: list[int] = []
    writer = AsyncWriter(connection, after_commit=lambda batch: sizes.append(len(batch)))
    held = Held()
    first = writer.run(held)
    await asyncio.to_thread(held.running.wait, DEADLINE_SECONDS)
    later = writer.run_later(insert(1))
    held.release.set()
    await first
    await asyncio.sleep(0)
    await asyncio.to_thread(writer.writer.between_commits, lambda: None)
    assert not later.done()
    assert await writer.run(insert(2)) == 2
    assert await later == 1
    assert sizes == [1, 2]
    await writer.stop()
