"""Checkpoints: when each kind is due, what stands in the way, and that no commit does the work."""

import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from parley.core.clock import ManualClock
from parley.core.errors import ServiceUnavailable
from parley.sqlite import Checkpointer, CheckpointResult, Writer, checkpoint_once, open_reader, open_writer, wal_bytes
from parley.sqlite.checkpoint import BLOATED, OVER_LIMIT_SECONDS, OVERGROWN
from tests.faults.vfs import Failure, FaultVFS
from tests.sqlite.rows import SCHEMA, insert, numbers

STEP_BYTES = 100_000
ENOUGH = "y" * STEP_BYTES


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def checkpointer(path: Path, connection: apsw.Connection, clock: ManualClock) -> Iterator[Checkpointer]:
    made = Checkpointer(path, connection, clock, interval_seconds=10, wal_bytes_step=STEP_BYTES, idle_seconds=30)
    yield made
    assert made.stop(timeout=60)


@pytest.fixture
def reader(path: Path, connection: apsw.Connection) -> Iterator[apsw.Connection]:
    """Somebody in the middle of reading."""
    opened = open_reader(path)
    opened.execute("BEGIN")
    numbers(opened)
    yield opened
    opened.close()


def test_a_commit_never_checkpoints_however_long_the_log(path: Path, connection: apsw.Connection) -> None:
    size = path.stat().st_size
    for number in range(1500):
        insert(number, "y" * 3000)(connection)
    assert wal_bytes(path) > 4 * 1024 * 1024
    assert path.stat().st_size == size


def test_one_passive_checkpoint_moves_the_whole_log(path: Path, connection: apsw.Connection) -> None:
    insert(1, ENOUGH)(connection)
    result = checkpoint_once(connection, "passive")
    assert result.complete
    assert result.log_frames > 20
    assert path.stat().st_size > STEP_BYTES
    assert wal_bytes(path) > 0


def test_truncation_empties_the_file_of_the_log(path: Path, connection: apsw.Connection) -> None:
    insert(1)(connection)
    assert checkpoint_once(connection, "truncate").complete
    assert wal_bytes(path) == 0


def test_a_file_without_a_log_has_no_log_bytes(tmp_path: Path) -> None:
    assert wal_bytes(tmp_path / "none") == 0


@pytest.mark.usefixtures("reader")
def test_a_reader_in_the_way_is_no_error(path: Path, connection: apsw.Connection) -> None:
    insert(1)(connection)
    other = open_writer(path, busy_timeout_ms=0)
    passive = checkpoint_once(other, "passive")
    assert not passive.complete
    assert passive.error is None
    truncate = checkpoint_once(other, "truncate")
    assert (truncate.complete, truncate.error) == (False, None)
    other.close()


def test_nothing_is_due_while_nothing_was_written(checkpointer: Checkpointer, clock: ManualClock) -> None:
    checkpointer.poll()
    clock.advance(9)
    assert checkpointer.poll() is None


def test_the_timer_makes_a_passive_one(
    checkpointer: Checkpointer, connection: apsw.Connection, clock: ManualClock
) -> None:
    insert(1)(connection)
    assert checkpointer.poll() is None
    clock.advance(10)
    result = checkpointer.poll()
    assert result is not None
    assert (result.mode, result.complete) == ("passive", True)
    clock.advance(10)
    assert checkpointer.poll() is None, "everything was moved already"


def test_commits_wait_from_when_they_were_made_and_nothing_waits_in_an_idle_log(
    checkpointer: Checkpointer, connection: apsw.Connection, clock: ManualClock
) -> None:
    clock.advance(10)
    checkpointer.poll()
    insert(1)(connection)
    checkpointer.poll()
    clock.advance(4)
    assert checkpointer.waiting_seconds == 4
    clock.advance(6)
    checkpointer.poll()
    assert checkpointer.waiting_seconds == 0
    clock.advance(5_000)
    checkpointer.poll()
    assert checkpointer.waiting_seconds == 0


def test_a_log_above_its_limit_is_emptied_as_soon_as_its_reader_has_gone(
    path: Path, connection: apsw.Connection, clock: ManualClock, reader: apsw.Connection
) -> None:
    checkpointer = Checkpointer(path, connection, clock, wal_bytes_max=STEP_BYTES)
    insert(1, ENOUGH)(connection)
    clock.advance(OVER_LIMIT_SECONDS)
    held = checkpointer.poll()
    assert held is not None
    assert not held.complete
    assert checkpointer.poll() is None, "not again at once"
    reader.execute("COMMIT")
    clock.advance(OVER_LIMIT_SECONDS)
    checkpointer.poll()
    assert wal_bytes(path) == 0
    assert checkpointer.stop(timeout=60)


def test_growth_by_the_set_size_makes_one_at_once(checkpointer: Checkpointer, connection: apsw.Connection) -> None:
    insert(1, ENOUGH)(connection)
    result = checkpointer.poll()
    assert result is not None
    assert result.mode == "passive"
    assert checkpointer.poll() is None


def test_the_log_starts_over_in_its_file_once_all_was_moved(
    path: Path, checkpointer: Checkpointer, connection: apsw.Connection
) -> None:
    for number in range(20):
        insert(number, ENOUGH)(connection)
        assert checkpointer.poll() is not None
    assert wal_bytes(path) < 2 * STEP_BYTES


@pytest.mark.usefixtures("reader")
def test_an_overgrown_log_is_started_over_when_the_readers_let_it(
    path: Path, checkpointer: Checkpointer, connection: apsw.Connection, reader: apsw.Connection
) -> None:
    modes: list[str] = []
    for number in range(OVERGROWN + 1):
        insert(number, ENOUGH)(connection)
        result = checkpointer.poll()
        assert result is not None
        modes.append(result.mode)
        assert not result.complete
    assert modes == ["passive"] * (OVERGROWN - 1) + ["restart"] * 2
    reader.execute("COMMIT")
    insert(100, ENOUGH)(connection)
    result = checkpointer.poll()
    assert result is not None
    assert (result.mode, result.complete) == ("restart", True)
    size = wal_bytes(path)
    insert(101, ENOUGH)(connection)
    assert wal_bytes(path) == size


def test_when_idle_the_log_is_emptied_once(
    path: Path, checkpointer: Checkpointer, connection: apsw.Connection, clock: ManualClock
) -> None:
    insert(1)(connection)
    checkpointer.poll()
    clock.advance(30)
    result = checkpointer.poll()
    assert result is not None
    assert (result.mode, result.complete) == ("truncate", True)
    assert checkpointer.wal_bytes == wal_bytes(path) == 0
    clock.advance(1000)
    assert checkpointer.poll() is None


def test_an_idle_log_that_a_reader_holds_is_tried_again_after_the_interval(
    checkpointer: Checkpointer, connection: apsw.Connection, clock: ManualClock, reader: apsw.Connection
) -> None:
    insert(1)(connection)
    checkpointer.poll()
    clock.advance(30)
    first = checkpointer.poll()
    assert first is not None
    assert not first.complete
    clock.advance(9)
    assert checkpointer.poll() is None
    reader.execute("COMMIT")
    clock.advance(1)
    second = checkpointer.poll()
    assert second is not None
    assert second.complete


def test_what_a_crash_left_in_the_log_is_moved_by_the_timer(path: Path, clock: ManualClock) -> None:
    connection = open_writer(path)
    connection.execute(SCHEMA)
    checkpointer = Checkpointer(path, connection, clock, interval_seconds=10)
    clock.advance(10)
    result = checkpointer.poll()
    assert result is not None
    assert result.complete
    checkpointer.stop()
    connection.close()


def test_faults_are_counted_until_one_works(path: Path, clock: ManualClock) -> None:
    vfs = FaultVFS()
    connection = open_writer(path, vfs=vfs.name)
    connection.execute(SCHEMA)
    checkpointer = Checkpointer(path, connection, clock, interval_seconds=10, vfs=vfs.name)
    vfs.disk.failure = Failure(vfs.disk.operations + 1, apsw.IOError, for_good=True)
    for failures in (1, 2):
        clock.advance(10)
        result = checkpointer.poll()
        assert result is not None
        assert isinstance(result.error, ServiceUnavailable)
        assert checkpointer.failures_in_a_row == failures
    assert checkpointer.waiting_seconds > 0
    vfs.disk.failure = None
    clock.advance(10)
    checkpointer.poll()
    assert (checkpointer.failures_in_a_row, checkpointer.failures_total) == (0, 2)
    assert checkpointer.last is not None
    assert checkpointer.last.complete
    checkpointer.stop()
    connection.close()


def test_the_thread_checkpoints_until_it_is_stopped(path: Path, connection: apsw.Connection) -> None:
    ran = threading.Event()

    class Telling(Checkpointer):
        """Tells when a checkpoint has run."""

        def poll(self) -> CheckpointResult | None:
            result = super().poll()
            if result is not None:
                ran.set()
            return result

    checkpointer = Telling(path, connection, ManualClock(), wal_bytes_step=STEP_BYTES)
    checkpointer.start()
    insert(1, ENOUGH)(connection)
    assert ran.wait(60)
    assert checkpointer.stop(timeout=60)
    assert checkpointer.last is not None
    assert checkpointer.last.complete


def test_a_file_that_became_very_large_is_emptied_even_under_load(
    path: Path, checkpointer: Checkpointer, connection: apsw.Connection, reader: apsw.Connection
) -> None:
    for number in range(BLOATED + 1):
        insert(number, ENOUGH)(connection)
    reader.execute("COMMIT")
    result = checkpointer.poll()
    assert result is not None
    assert (result.mode, result.complete) == ("truncate", True)
    assert wal_bytes(path) == 0


def test_a_writer_without_a_pause_does_not_keep_the_log_from_starting_over(
    path: Path, checkpointer: Checkpointer, connection: apsw.Connection
) -> None:
    """The writer runs what needs its lock; asked for by another connection the lock may never come."""
    writer = Writer(connection, on_committed=lambda _: None)
    writer.start()
    checkpointer.writer = writer
    writing = threading.Event()
    writing.set()
    number = iter(range(1_000_000))

    def keep_busy() -> None:
        while writing.is_set():
            writer.run_sync(insert(next(number), "y" * 5_000))

    busy = [threading.Thread(target=keep_busy) for _ in range(4)]
    for thread in busy:
        thread.start()
    started_over = 0
    while started_over < 3:
        result = checkpointer.poll()
        started_over += result is not None and result.mode != "passive" and result.complete
    writing.clear()
    for thread in busy:
        thread.join(60)
    assert writer.stop(timeout=60)
    assert wal_bytes(path) < 3 * BLOATED * STEP_BYTES
