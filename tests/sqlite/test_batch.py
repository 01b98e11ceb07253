"""The batch logic: savepoints, replays, and exactly the acknowledged writes in the file."""

import tempfile
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.core.errors import DatabaseCorrupt, InternalError, NotFound, ServiceUnavailable
from parley.sqlite import Outcome, Write, open_reader, open_writer, run_batch
from tests.faults.vfs import Failure, FaultVFS
from tests.sqlite.rows import SCHEMA, insert, insert_then_refuse, numbers


def values(outcomes: list[Outcome[Any]]) -> list[Any]:
    return [outcome.value if outcome.error is None else type(outcome.error) for outcome in outcomes]


def test_writes_run_in_order_and_each_has_its_outcome(connection: apsw.Connection) -> None:
    assert values(run_batch(connection, [insert(1), insert(2), insert(3)])) == [1, 2, 3]
    assert numbers(connection) == {1, 2, 3}


def test_an_empty_batch_does_nothing(connection: apsw.Connection) -> None:
    assert run_batch(connection, []) == []


def test_a_write_that_fails_is_undone_alone(connection: apsw.Connection) -> None:
    outcomes = run_batch(connection, [insert(1), insert_then_refuse(2), insert(3)])
    assert values(outcomes) == [1, NotFound, 3]
    assert numbers(connection) == {1, 3}


def test_a_single_write_that_fails_leaves_nothing(connection: apsw.Connection) -> None:
    assert values(run_batch(connection, [insert_then_refuse(2)])) == [NotFound]
    assert numbers(connection) == set()
    assert not connection.in_transaction


@pytest.mark.parametrize("companions", [[], [insert(100)]], ids=["alone", "in a batch"])
def test_errors_of_ours_pass_those_of_sqlite_are_typed_and_others_are_kept(
    connection: apsw.Connection, companions: list[Write[int]]
) -> None:
    insert(1)(connection)

    def divide(_: apsw.Connection) -> float:
        return 1 / 0

    assert values(run_batch(connection, [insert_then_refuse(2), *companions]))[0] is NotFound
    (constraint, *_) = run_batch(connection, [insert(1), *companions])
    assert isinstance(constraint.error, InternalError)
    assert isinstance(constraint.error.__cause__, apsw.ConstraintError)
    assert values(run_batch(connection, [divide, *companions]))[0] is ZeroDivisionError


def test_a_constraint_that_fails_only_at_commit_costs_its_own_write(connection: apsw.Connection) -> None:
    connection.execute(
        "CREATE TABLE child(parent INTEGER REFERENCES row(number) DEFERRABLE INITIALLY DEFERRED)",
    )

    def orphan(inside: apsw.Connection) -> None:
        inside.execute("INSERT INTO child VALUES (99)")

    assert values(run_batch(connection, [insert(1), orphan, insert(2)])) == [1, InternalError, 2]
    assert numbers(connection) == {1, 2}


def test_a_batch_shares_one_sync_of_the_disk(path: Path) -> None:
    vfs = FaultVFS()
    connection = open_writer(path, vfs=vfs.name)
    connection.execute(SCHEMA)
    before = vfs.disk.counts["sync"]
    run_batch(connection, [insert(number) for number in range(64)])
    assert vfs.disk.counts["sync"] - before == 1
    for number in range(64, 68):
        run_batch(connection, [insert(number)])
    assert vfs.disk.counts["sync"] - before == 5
    connection.close()


@pytest.mark.parametrize("error", [apsw.FullError, apsw.IOError])
def test_when_the_shared_commit_fails_each_write_runs_again_alone(path: Path, error: type[apsw.Error]) -> None:
    vfs = FaultVFS()
    connection = open_writer(path, vfs=vfs.name)
    connection.execute(SCHEMA)
    vfs.disk.failure = Failure(vfs.disk.operations + 1, error)
    syncs = vfs.disk.counts["sync"]
    outcomes = run_batch(connection, [insert(1), insert_then_refuse(2), insert(3)])
    assert values(outcomes) == [1, NotFound, 3]
    assert vfs.disk.counts["sync"] - syncs == 2
    assert numbers(connection) == {1, 3}
    connection.close()


@pytest.mark.parametrize(("error", "reason"), [(apsw.FullError, "disk_full"), (apsw.IOError, "io_error")])
def test_when_the_disk_stays_broken_every_write_is_refused_with_the_reason(
    path: Path, error: type[apsw.Error], reason: str
) -> None:
    vfs = FaultVFS()
    connection = open_writer(path, vfs=vfs.name)
    connection.execute(SCHEMA)
    vfs.disk.failure = Failure(vfs.disk.operations + 1, error, for_good=True)
    outcomes = run_batch(connection, [insert(1), insert(2)])
    assert [
        outcome.error.details["reason"] for outcome in outcomes if isinstance(outcome.error, ServiceUnavailable)
    ] == [
        reason,
        reason,
    ]
    vfs.disk.failure = None
    assert numbers(connection) == set()
    assert values(run_batch(connection, [insert(1), insert(2)])) == [1, 2], "it works again when the disk does"
    connection.close()


def test_a_write_that_meets_a_fatal_error_does_not_take_the_others_with_it(connection: apsw.Connection) -> None:
    def out_of_memory(inside: apsw.Connection) -> None:
        insert(2)(inside)
        raise apsw.NoMemError("as SQLite would")

    assert values(run_batch(connection, [insert(1), out_of_memory, insert(3)])) == [1, ServiceUnavailable, 3]
    assert numbers(connection) == {1, 3}


def test_a_lock_held_by_another_process_refuses_the_batch_after_one_wait(path: Path) -> None:
    holder = open_writer(path)
    holder.execute(SCHEMA)
    connection = open_writer(path, busy_timeout_ms=0)
    holder.execute("BEGIN IMMEDIATE")
    for writes in ([insert(1)], [insert(1), insert(2)]):
        for outcome in run_batch(connection, writes):
            assert isinstance(outcome.error, ServiceUnavailable)
            assert outcome.error.details["reason"] == "busy"
    holder.execute("ROLLBACK")
    connection.close()
    holder.close()


def test_damage_is_reported_as_damage(path: Path) -> None:
    connection = open_writer(path)
    connection.execute(SCHEMA)
    for number in range(50):
        insert(number, "y" * 500)(connection)
    connection.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096 * 3)
    connection = open_writer(path)
    assert values(run_batch(connection, [insert(100), insert(101)])) == [DatabaseCorrupt, DatabaseCorrupt]
    connection.close()


@pytest.mark.parametrize("companions", [[], [insert(100)]], ids=["alone", "in a batch"])
def test_an_exception_that_ends_the_thread_leaves_no_transaction_behind(
    connection: apsw.Connection, companions: list[Write[int]]
) -> None:
    def leave(inside: apsw.Connection) -> None:
        insert(2)(inside)
        raise SystemExit

    with pytest.raises(SystemExit):
        run_batch(connection, [*companions, leave])
    assert not connection.in_transaction
    assert numbers(connection) == set()


KINDS = ("good", "refuses", "duplicate", "raises", "fatal")


def make_write(kind: str, number: int) -> Write[int]:
    def raises(inside: apsw.Connection) -> int:
        insert(number)(inside)
        raise ValueError

    def fatal(inside: apsw.Connection) -> int:
        insert(number)(inside)
        raise apsw.IOError("as SQLite would")

    return {
        "good": insert(number),
        "refuses": insert_then_refuse(number),
        "duplicate": insert(-1),
        "raises": raises,
        "fatal": fatal,
    }[kind]


batches = st.lists(
    st.tuples(
        st.lists(st.sampled_from(KINDS), max_size=6),
        st.none() | st.tuples(st.integers(1, 12), st.sampled_from([apsw.FullError, apsw.IOError]), st.booleans()),
    ),
    max_size=5,
)


@given(batches)
@settings(max_examples=150)
def test_exactly_the_acknowledged_writes_are_in_the_file(
    plan: list[tuple[list[str], tuple[int, type[apsw.Error], bool] | None]],
) -> None:
    acknowledged: set[Any] = {-1}
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "db.sqlite3"
        vfs = FaultVFS()
        connection = open_writer(path, vfs=vfs.name)
        connection.execute(SCHEMA)
        insert(-1)(connection)
        for kinds, failure in plan:
            if failure is not None:
                vfs.disk.failure = Failure(vfs.disk.operations + failure[0], failure[1], failure[2])
            writes = [make_write(kind, count + index) for index, kind in enumerate(kinds)]
            count += len(kinds)
            outcomes = run_batch(connection, writes)
            vfs.disk.failure = None
            assert len(outcomes) == len(kinds)
            for kind, outcome in zip(kinds, outcomes, strict=True):
                if outcome.error is None:
                    assert kind == "good"
                    acknowledged |= {outcome.value}
            reader = open_reader(path)
            assert numbers(reader) == acknowledged
            reader.close()
        connection.close()
        reader = open_reader(path)
        assert numbers(reader) == acknowledged
        reader.close()


def test_what_runs_before_the_commit_runs_once_a_transaction_and_sees_only_what_will_be_committed(
    connection: apsw.Connection,
) -> None:
    seen: list[set[int]] = []

    def look(connection: apsw.Connection) -> None:
        assert connection.in_transaction
        seen.append(numbers(connection))

    run_batch(connection, [insert(1), insert_then_refuse(2), insert(3)], look)
    run_batch(connection, [insert(4)], look)
    assert seen == [{1, 3}, {1, 3, 4}]


@pytest.mark.parametrize("count", [1, 3])
def test_a_failure_before_the_commit_fails_the_writes_with_it(connection: apsw.Connection, count: int) -> None:
    def fail(connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO nowhere VALUES (1)")

    outcomes = run_batch(connection, [insert(number) for number in range(count)], fail)
    assert values(outcomes) == [InternalError] * count
    assert numbers(connection) == set()
