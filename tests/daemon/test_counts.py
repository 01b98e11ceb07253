"""What a daemon counts as it goes is what a full count finds, whatever is done, undone, or cut short."""

import shutil
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.core.daemon_errors import OutboxConflict, RowNotFound, RowSpent
from parley.core.errors import IdempotencyKeyReused
from parley.daemon.databases import PARTS, open_inbox, open_outbox
from parley.daemon.held import held_bytes
from parley.daemon.inbox.reading import mark_seen, unseen_and_sealed
from parley.daemon.inbox.receive import open_kept, receive
from parley.daemon.inbox.retention import ROW_BYTES, flush, make_room, prune_inbox
from parley.daemon.outbox.accept import Destination, accept, message_fingerprint
from parley.daemon.outbox.prune import prune
from parley.daemon.outbox.recover import recover
from parley.daemon.outbox.requeue import drop, requeue
from parley.daemon.outbox.rows import counts, oldest_waiting, waiting_rows
from parley.daemon.outbox.sending import BackOff, Dead, Done, settle, take_due
from parley.daemon.salvage import salvage
from parley.sqlite import run_batch
from tests.daemon.test_migration import make_old
from tests.daemon.world import BOB, DAY, NOW, message, opens, opens_nothing, push, put, sealed

OUTBOX_STEPS = (
    "accept",
    "accept_in_flight",
    "take",
    "done",
    "back",
    "dead",
    "requeue",
    "drop",
    "prune",
    "recover",
    "age",
)
INBOX_STEPS = ("receive", "receive_sealed", "seen", "open", "prune", "room", "flush")
ENDS = ("kept", "kept", "undone", "crash")
"""What becomes of a step."""


def steps_of(names: tuple[str, ...]) -> st.SearchStrategy[list[tuple[str, int, str]]]:
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 9), st.sampled_from(ENDS)), max_size=40)


ANY = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Undone(Exception):
    """Raised at the end of a rule, so that what it did is taken back."""


def counted(db: apsw.Connection) -> tuple[Any, ...]:
    return (
        Counter({(mesh, status): number for mesh, status, number in counts(db)}),
        waiting_rows(db),
        oldest_waiting(db),
        held_bytes(db),
    )


def full_count(db: apsw.Connection) -> tuple[Any, ...]:
    rows: list[Any] = db.execute("SELECT mesh_id, status, count(*) FROM outbox GROUP BY mesh_id, status").fetchall()
    waits = "FROM outbox WHERE status IN ('pending', 'inflight')"
    waiting: list[Any] = db.execute(f"SELECT count(*), min(enqueued_at) {waits}").fetchall()
    held = "SELECT coalesce(sum(octet_length(payload) + octet_length(sealed) + octet_length(meta)), 0) FROM outbox"
    return (
        Counter({(mesh, status): number for mesh, status, number in rows}),
        *waiting[0],
        *db.execute(held).fetchall()[0],
    )


def inbox_counted(db: apsw.Connection) -> tuple[Any, ...]:
    return (*unseen_and_sealed(db), held_bytes(db))


def full_inbox_count(db: apsw.Connection) -> tuple[Any, ...]:
    held = f"coalesce(sum(octet_length(coalesce(body, sealed)) + octet_length(meta) + {ROW_BYTES}), 0)"
    return db.execute(f"SELECT count(*) - count(seen_at), count(sealed), {held} FROM inbox").fetchall()[0]


def outbox_step(db: apsw.Connection, step: str, number: int, clock: int) -> None:
    """One thing that a daemon does to its outbox, as far as there is something to do it to."""
    name, mesh_id = f"m{number}", f"mesh_{number % 2}"
    match step:
        case "accept" | "accept_in_flight":
            asked = message(name, destination=Destination(mesh_id, "bob", "dm", BOB))
            fingerprint, made = message_fingerprint(asked), sealed(asked)
            in_flight = step == "accept_in_flight"
            with suppress(IdempotencyKeyReused, RowSpent):
                accept(db, asked, fingerprint, made, row_id=f"out_{name}", now_ms=clock, in_flight=in_flight)
        case "take" | "age":
            take_due(db, mesh_id, now_ms=clock, limit=number, max_age_ms=5 if step == "age" else DAY)
        case "done":
            settle(db, Done(name, f"bm_{name}", number), now_ms=clock)
        case "back":
            settle(db, BackOff(name, clock, "later"), now_ms=clock)
        case "dead":
            settle(db, Dead(name, "no"), now_ms=clock)
        case "prune":
            prune(db, before_ms=clock, now_ms=clock)
        case "recover":
            recover(db, now_ms=clock)
        case _:
            with suppress(OutboxConflict, RowNotFound):
                retire(db, f"out_{name}", clock, again=step == "requeue")


def retire(db: apsw.Connection, row_id: str, clock: int, *, again: bool) -> None:
    if not again:
        drop(db, row_id, by="operator", force=True, now_ms=clock)
        return
    asked = message(f"again-{clock}")
    ends = {"new_id": f"out_again-{clock}", "by": "operator", "force": True, "now_ms": clock}
    requeue(db, row_id, asked, message_fingerprint(asked), sealed(asked), **ends)


def inbox_step(db: apsw.Connection, step: str, number: int, clock: int) -> None:
    if step in ("receive", "receive_sealed"):
        opener = opens if step == "receive" else opens_nothing
        ids: dict[str, Any] = {"mesh_id": "mesh_1", "recipient_id": "mem_b", "row_id": f"in_{number}"}
        receive(db, push(number, f"m-{number}"), opener, **ids, now_ms=clock)
    elif step == "seen":
        mark_seen(db, [f"in_{number}", f"in_{number + 1}"], now_ms=clock)
    elif step == "open":
        open_kept(db, opens, mesh_id="mesh_1", now_ms=clock)
    elif step == "prune":
        prune_inbox(db, before_ms=clock - number)
    elif step == "room":
        make_room(db, bytes_max=20 * number)
    else:
        flush(db, mesh_id="mesh_1", before_ms=None)


def carry_out(db: apsw.Connection, path: Path, do: Any, how: str, check: Any) -> None:
    """Has a step done as the writer would; undone at its end; or cut short by a crash, whose files are looked at."""

    def rule(tx: apsw.Connection) -> None:
        do(tx)
        if how == "crash":
            crashed = path.with_name("crashed.db")
            for part in PARTS[:2]:
                shutil.copyfile(f"{path}{part}", f"{crashed}{part}")
            check(crashed)
        if how != "kept":
            raise Undone

    outcome = run_batch(db, [rule])[0]
    if outcome.error is not None and not isinstance(outcome.error, Undone):
        raise outcome.error


@given(steps_of(OUTBOX_STEPS))
@ANY
def test_the_outbox_counts_what_a_full_count_finds(tmp_path: Path, steps: list[tuple[str, int, str]]) -> None:
    path = tmp_path / "outbox.db"

    def check(crashed: Path) -> None:
        with closing(open_outbox(crashed)) as left:
            assert counted(left) == full_count(left)
        _remove(crashed)

    with closing(open_outbox(path)) as db:
        for clock, (step, number, how) in enumerate(steps, NOW):
            carry_out(db, path, lambda tx, s=step, n=number, at=clock: outbox_step(tx, s, n, at), how, check)
            assert counted(db) == full_count(db)
    _remove(path)


@given(steps_of(INBOX_STEPS))
@ANY
def test_the_inbox_counts_what_a_full_count_finds(tmp_path: Path, steps: list[tuple[str, int, str]]) -> None:
    path = tmp_path / "inbox.db"

    def check(crashed: Path) -> None:
        with closing(open_inbox(crashed).connection) as left:
            assert inbox_counted(left) == full_inbox_count(left)
        _remove(crashed)

    with closing(open_inbox(path).connection) as db:
        for clock, (step, number, how) in enumerate(steps, NOW):
            carry_out(db, path, lambda tx, s=step, n=number, at=clock: inbox_step(tx, s, n, at), how, check)
            assert inbox_counted(db) == full_inbox_count(db)
    _remove(path)


def _remove(path: Path) -> None:
    for part in PARTS:
        Path(f"{path}{part}").unlink(missing_ok=True)


@pytest.mark.parametrize("version", [1, 2])
def test_an_outbox_of_an_older_schema_comes_over_with_its_counts(tmp_path: Path, version: int) -> None:
    make_old(tmp_path / "outbox.db", "outbox", version)
    with closing(open_outbox(tmp_path / "outbox.db")) as db:
        assert counted(db) == full_count(db)
        assert waiting_rows(db) == 3
        put(db, message("new"))
        assert counted(db) == full_count(db)


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_an_inbox_of_an_older_schema_comes_over_with_its_counts(tmp_path: Path, version: int) -> None:
    make_old(tmp_path / "inbox.db", "inbox", version)
    with closing(open_inbox(tmp_path / "inbox.db").connection) as db:
        assert inbox_counted(db) == full_inbox_count(db) == (2, 1, 31 + 3 * ROW_BYTES)


def test_an_outbox_that_was_salvaged_has_counted_what_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    with closing(open_outbox(path)) as db:
        for number in range(20):
            put(db, message(f"m{number}"))
    assert salvage(path, now_ms=NOW) is not None
    with closing(open_outbox(path)) as db:
        assert counted(db) == full_count(db)
        assert waiting_rows(db) == 20
