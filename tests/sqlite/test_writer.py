"""The writer's thread: bounds, states, draining, and an end that is never silent."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from parley.core.errors import DatabaseCorrupt, InternalError, NotFound, ServiceUnavailable, ShuttingDown
from parley.sqlite import Batch, Write, Writer, open_writer
from tests.sqlite.rows import SCHEMA, insert, insert_then_refuse, numbers

DEADLINE_SECONDS = 60.0


class Held:
    """A write that holds the thread until it is let go, so that a test knows what waits behind it."""

    def __init__(self) -> None:
        self.running = threading.Event()
        self.release = threading.Event()

    def __call__(self, _: apsw.Connection) -> None:
        self.running.set()
        assert self.release.wait(DEADLINE_SECONDS)


@contextmanager
def writing(
    connection: apsw.Connection, on_committed: Callable[[Batch], None] = lambda _: None, **options: Any
) -> Iterator[Writer]:
    writer = Writer(connection, on_committed=on_committed, **options)
    writer.start()
    try:
        yield writer
    finally:
        assert writer.stop(timeout=DEADLINE_SECONDS)


def hold(writer: Writer) -> Held:
    held = Held()
    writer.submit(held)
    assert held.running.wait(DEADLINE_SECONDS)
    return held


def test_a_thread_can_wait_for_its_own_write(connection: apsw.Connection) -> None:
    with writing(connection) as writer:
        assert writer.run_sync(insert(5)) == 5
        with pytest.raises(NotFound):
            writer.run_sync(insert_then_refuse(6))
    assert numbers(connection) == {5}


def test_what_waits_is_committed_together_and_handed_back_in_one_call(connection: apsw.Connection) -> None:
    batches: list[Batch] = []
    with writing(connection, batches.append) as writer:
        held = hold(writer)
        for number in range(10):
            writer.submit(insert(number), f"waiter {number}")
        assert writer.waiting == 10
        held.release.set()
    assert [len(batch) for batch in batches] == [1, 10]
    assert [outcome.value for outcome in batches[1]] == list(range(10))
    assert [outcome.waiter for outcome in batches[1]] == [f"waiter {number}" for number in range(10)]
    assert writer.commits == 2


def test_a_batch_is_bounded(connection: apsw.Connection) -> None:
    batches: list[Batch] = []
    with writing(connection, batches.append, batch_max=4) as writer:
        held = hold(writer)
        for number in range(10):
            writer.submit(insert(number))
        held.release.set()
    assert [len(batch) for batch in batches] == [1, 4, 4, 2]


def test_a_full_queue_refuses_and_what_it_accepted_is_written(connection: apsw.Connection) -> None:
    with writing(connection, queue_max=3) as writer:
        held = hold(writer)
        for number in range(3):
            writer.submit(insert(number))
        with pytest.raises(ServiceUnavailable) as caught:
            writer.submit(insert(3))
        assert caught.value.details["reason"] == "queue_full"
        held.release.set()
    assert numbers(connection) == {0, 1, 2}


def test_a_closed_gate_refuses_with_its_reason_until_it_opens(connection: apsw.Connection) -> None:
    with writing(connection) as writer:
        writer.refuse_with = ServiceUnavailable("The log is too large", reason="wal_too_large")
        depths: set[int] = set()
        for _ in range(3):
            with pytest.raises(ServiceUnavailable, match="log is too large") as caught:
                writer.submit(insert(1))
            depths.add(len(caught.traceback))
        assert len(depths) == 1, "the shared refusal does not collect a traceback per caller"
        writer.refuse_with = None
        writer.run_sync(insert(2))
    assert numbers(connection) == {2}


def test_stopping_finishes_what_was_accepted_and_takes_nothing_new(connection: apsw.Connection) -> None:
    writer = Writer(connection, on_committed=lambda _: None)
    writer.start()
    held = hold(writer)
    writer.submit(insert(1))
    assert writer.state == "open"
    assert not writer.stop(timeout=0)
    assert writer.state == "stopping"
    with pytest.raises(ShuttingDown):
        writer.submit(insert(2))
    held.release.set()
    assert writer.stop(timeout=DEADLINE_SECONDS)
    assert writer.state == "stopped"
    assert numbers(connection) == {1}
    with pytest.raises(ShuttingDown):
        writer.submit(insert(3))


def test_stopping_without_draining_refuses_what_waits(connection: apsw.Connection) -> None:
    batches: list[Batch] = []
    writer = Writer(connection, on_committed=batches.append)
    writer.start()
    held = hold(writer)
    writer.submit(insert(1))
    assert not writer.stop(drain=False, timeout=0)
    held.release.set()
    assert writer.stop(timeout=DEADLINE_SECONDS)
    assert isinstance(batches[-1][0].error, ShuttingDown)
    assert numbers(connection) == set()


def test_a_writer_that_was_never_started_still_settles_what_it_accepted(connection: apsw.Connection) -> None:
    batches: list[Batch] = []
    writer = Writer(connection, on_committed=batches.append)
    writer.submit(insert(1))
    assert writer.stop(timeout=DEADLINE_SECONDS)
    assert [outcome.value for batch in batches for outcome in batch] == [1]


def leave(_: apsw.Connection) -> None:
    raise SystemExit("the thread is told to end")


def test_the_death_of_the_thread_is_never_silent(connection: apsw.Connection) -> None:
    deaths: list[BaseException] = []
    batches: list[Batch] = []
    writer = Writer(connection, on_committed=batches.append, on_death=deaths.append)
    writer.start()
    held = hold(writer)
    writer.submit(leave)
    refused: list[Exception] = []

    def wait_for_it(write: Write[int]) -> None:
        with pytest.raises(InternalError) as caught:
            writer.run_sync(write)
        refused.append(caught.value)

    waiting = threading.Thread(target=wait_for_it, args=(insert(1),))
    waiting.start()
    while writer.waiting < 2:
        assert waiting.is_alive()
    held.release.set()
    waiting.join(DEADLINE_SECONDS)
    assert writer.stop(timeout=DEADLINE_SECONDS)
    assert [type(death) for death in deaths] == [SystemExit]
    assert isinstance(writer.death, SystemExit)
    assert len(refused) == 1
    assert all(isinstance(outcome.error, InternalError) for outcome in batches[-1])
    with pytest.raises(InternalError, match="writer has died"):
        writer.submit(insert(2))
    assert numbers(connection) == set()


def test_damage_found_by_a_write_is_reported(path: Path) -> None:
    connection = open_writer(path)
    connection.execute(SCHEMA)
    for number in range(50):
        insert(number, "y" * 500)(connection)
    connection.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096 * 3)
    connection = open_writer(path)
    damage: list[DatabaseCorrupt] = []
    with writing(connection, on_corrupt=damage.append) as writer:
        held = hold(writer)
        for number in range(100, 103):
            writer.submit(insert(number))
        held.release.set()
    assert len(damage) == 1, "once a batch"
    connection.close()


def test_a_callback_that_fails_ends_the_writer_and_leaves_no_thread_waiting(connection: apsw.Connection) -> None:
    bugs = iter([RuntimeError("a bug in the callback")])

    def on_committed(_: Batch) -> None:
        if (bug := next(bugs, None)) is not None:
            raise bug

    writer = Writer(connection, on_committed=on_committed)
    writer.start()
    assert writer.run_sync(insert(1)) == 1
    assert writer.stop(timeout=DEADLINE_SECONDS)
    assert isinstance(writer.death, RuntimeError)


def test_many_threads_can_submit_at_once(connection: apsw.Connection) -> None:
    with writing(connection) as writer:
        threads = [
            threading.Thread(target=lambda start=start: [writer.run_sync(insert(start + n)) for n in range(20)])
            for start in range(0, 200, 20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_SECONDS)
    assert numbers(connection) == set(range(200))
    assert writer.commits <= 200


def test_an_errand_runs_on_the_writers_thread_between_two_commits(connection: apsw.Connection) -> None:
    seen: list[tuple[str, bool, set[int]]] = []

    def errand() -> str:
        seen.append((threading.current_thread().name, connection.in_transaction, numbers(connection)))
        return "done"

    with writing(connection) as writer:
        assert writer.between_commits(errand) == "done"  # also when there is nothing to commit
        held = hold(writer)
        writer.submit(insert(1))
        asking = threading.Thread(target=writer.between_commits, args=(errand,))
        asking.start()
        held.release.set()
        asking.join(DEADLINE_SECONDS)
        writer.run_sync(insert(2))
    assert seen[0] == ("parley-writer", False, set())
    assert seen[1][:2] == ("parley-writer", False)
    assert numbers(connection) == {1, 2}


def test_the_error_of_an_errand_is_its_callers_own(connection: apsw.Connection) -> None:
    def fail() -> None:
        raise NotFound("nothing there")

    with writing(connection) as writer:
        with pytest.raises(NotFound):
            writer.between_commits(fail)
        assert writer.run_sync(insert(1)) == 1


def test_a_writer_that_stops_takes_no_errand(connection: apsw.Connection) -> None:
    with writing(connection) as writer:
        pass
    with pytest.raises(ShuttingDown):
        writer.between_commits(lambda: None)
