"""Rows on their way: taken when due, settled by what became of them, recovered after a crash, dead of age."""

import apsw
import pytest

from parley.core.errors import ConfigInvalid
from parley.daemon.outbox.accept import UNSEALED, Destination, Sealed, Taken, accept, message_fingerprint
from parley.daemon.outbox.prune import _PRUNE, prune  # pyright: ignore[reportPrivateUsage]
from parley.daemon.outbox.recover import BACKOFF_MS_MIN, recover
from parley.daemon.outbox.requeue import drop
from parley.daemon.outbox.rows import OutboxRow, by_client_id, counts, list_rows
from parley.daemon.outbox.sending import (
    RETRY_MS_MAX,
    SEAL_MS,
    BackOff,
    Dead,
    Delay,
    Done,
    Due,
    Hopeless,
    Seal,
    SealAgain,
    Settlement,
    hurry_unsealed,
    settle,
    take_due,
)
from parley.daemon.outbox.terms import DEFAULT_TERMS, HOUR_MS, Terms, max_age_hours, read_terms, write_terms
from tests.daemon.world import ALICE, BOB, DAY, NOW, commit, message, put


def take(
    outbox: apsw.Connection,
    *,
    mesh_id: str = "mesh_1",
    now_ms: int = NOW,
    limit: int = 10,
    seal: Seal | None = None,
) -> Due:
    return commit(outbox, lambda db: take_due(db, mesh_id, now_ms=now_ms, limit=limit, max_age_ms=DAY, seal=seal))


def settled(outbox: apsw.Connection, settlement: Settlement, *, now_ms: int = NOW) -> bool:
    return commit(outbox, lambda db: settle(db, settlement, now_ms=now_ms))


def row(outbox: apsw.Connection, client_id: str = "m-1") -> OutboxRow:
    found = by_client_id(outbox, client_id)
    assert found is not None
    return found


def test_rows_are_taken_in_the_order_of_acceptance_up_to_the_limit(outbox: apsw.Connection) -> None:
    for number in range(5):
        put(outbox, message(f"m-{number}"))
    assert [each.client_message_id for each in take(outbox, limit=3).rows] == ["m-0", "m-1", "m-2"]
    assert [each.client_message_id for each in take(outbox, limit=3).rows] == ["m-3", "m-4"]
    assert row(outbox, "m-0").status == "inflight"
    assert row(outbox, "m-0").attempts == 1


def test_a_row_that_backs_off_does_not_hold_up_those_behind_it(outbox: apsw.Connection) -> None:
    put(outbox, message("m-1"))
    take(outbox)
    settled(outbox, BackOff("m-1", NOW + 4000, "RATE_LIMITED: slow down"))
    put(outbox, message("m-2"))
    due = take(outbox, now_ms=NOW + 1)
    assert [each.client_message_id for each in due.rows] == ["m-2"]
    assert due.next_ms == NOW + 4000
    assert [each.client_message_id for each in take(outbox, now_ms=NOW + 4000).rows] == ["m-1"]
    assert row(outbox).last_error == "RATE_LIMITED: slow down"


def test_one_mesh_takes_nothing_of_another(outbox: apsw.Connection) -> None:
    put(outbox, message("m-1"))
    put(outbox, message("m-2", destination=Destination("mesh_2", "bob", "dm", BOB)))
    assert [each.client_message_id for each in take(outbox, mesh_id="mesh_2").rows] == ["m-2"]


def test_a_clock_that_was_set_back_does_not_hold_a_row_up(outbox: apsw.Connection) -> None:
    put(outbox, message())
    take(outbox)
    settled(outbox, BackOff("m-1", NOW + 1000, "timeout"))
    assert take(outbox, now_ms=NOW - RETRY_MS_MAX - 1).rows != []


def test_what_a_window_left_over_is_still_due_under_a_clock_that_was_set_back(outbox: apsw.Connection) -> None:
    put(outbox, message())
    put(outbox, message("m-2"))
    earlier = NOW - RETRY_MS_MAX - 1
    first = take(outbox, now_ms=earlier, limit=1)
    assert ([each.client_message_id for each in first.rows], first.next_ms) == (["m-1"], earlier)
    second = take(outbox, now_ms=earlier, limit=1)
    assert ([each.client_message_id for each in second.rows], second.next_ms) == (["m-2"], None)


def test_a_broker_that_has_the_message_makes_the_row_done(outbox: apsw.Connection) -> None:
    put(outbox, message())
    take(outbox)
    assert settled(outbox, Done("m-1", "bm_1", 7), now_ms=NOW + 5)
    done = row(outbox)
    assert (done.status, done.broker_message_id, done.history_id, done.delivered_at) == ("done", "bm_1", 7, NOW + 5)
    assert take(outbox, now_ms=NOW + DAY).rows == []


def test_an_answer_that_comes_late_still_counts(outbox: apsw.Connection) -> None:
    """The row was given up on, set back, and even declared dead; yet the broker has the message."""
    put(outbox, message())
    take(outbox)
    settled(outbox, BackOff("m-1", NOW + 1000, "timeout"))
    assert settled(outbox, Done("m-1", "bm_1", 7))
    assert row(outbox).status == "done"
    put(outbox, message("m-2"))
    settled(outbox, Dead("m-2", "expired"))
    assert settled(outbox, Done("m-2", "bm_2", 8))
    assert row(outbox, "m-2").status == "done"


@pytest.mark.parametrize("late", [BackOff("m-1", NOW, "timeout"), Dead("m-1", "refused")])
def test_nothing_undoes_that_the_broker_has_the_message(outbox: apsw.Connection, late: Settlement) -> None:
    put(outbox, message())
    take(outbox)
    settled(outbox, Done("m-1", "bm_1", 7))
    assert not settled(outbox, late)
    assert row(outbox).status == "done"


def test_a_message_that_was_given_up_and_arrived_all_the_same_says_so(outbox: apsw.Connection) -> None:
    put(outbox, message())
    take(outbox)
    commit(outbox, lambda db: drop(db, "out_m-1", by="operator", force=True, now_ms=NOW))
    settled(outbox, Done("m-1", "bm_1", 7))
    assert (row(outbox).status, row(outbox).broker_message_id) == ("aborted", "bm_1")


def test_rows_in_flight_when_the_process_ended_are_sent_again(outbox: apsw.Connection) -> None:
    put(outbox, message())
    take(outbox)
    assert commit(outbox, lambda db: recover(db, now_ms=NOW)) == 1
    assert (row(outbox).status, row(outbox).attempts) == ("pending", 2)
    assert take(outbox, now_ms=NOW).rows == []
    assert take(outbox, now_ms=NOW + BACKOFF_MS_MIN).rows != []


def test_a_row_that_is_too_old_dies_before_it_is_sent(outbox: apsw.Connection) -> None:
    put(outbox, message("old"))
    put(outbox, message("new"), now_ms=NOW + DAY)
    due = take(outbox, now_ms=NOW + DAY + 1)
    assert [each.client_message_id for each in due.rows] == ["new"]
    assert due.expired == ["old"]
    assert row(outbox, "old").status == "dead"
    assert str(row(outbox, "old").last_error).startswith("expired")


def test_no_number_of_tries_kills_a_row(outbox: apsw.Connection) -> None:
    put(outbox, message())
    for attempt in range(100):
        assert take(outbox, now_ms=NOW + attempt).rows != []
        settled(outbox, BackOff("m-1", NOW + attempt + 1, "RATE_LIMITED: slow down"))
    assert (row(outbox).status, row(outbox).attempts) == ("pending", 100)


@pytest.mark.parametrize(("days", "hours"), [(7, 144), (14, 302), (30, 648), (90, 1944), (365, 7884)])
def test_the_age_at_which_rows_die_lies_inside_the_brokers_window(days: int, hours: int) -> None:
    assert max_age_hours(days) == hours
    assert max_age_hours(days, override=days * 24 - 24) == days * 24 - 24
    with pytest.raises(ConfigInvalid) as refusal:
        max_age_hours(days, override=days * 24 - 23)
    assert refusal.value.details["reason"] == "outbox_max_age_above_dedupe_window"


def test_a_broker_that_forgets_nothing_has_a_default_and_a_cap() -> None:
    assert max_age_hours(None) == 168
    assert max_age_hours(None, override=720) == 720
    with pytest.raises(ConfigInvalid):
        max_age_hours(None, override=721)


def test_terms_are_remembered_while_the_broker_is_away(outbox: apsw.Connection) -> None:
    assert read_terms(outbox, "mesh_1") == DEFAULT_TERMS
    for terms in (Terms(2048, 648 * HOUR_MS), Terms(4096, 144 * HOUR_MS)):
        commit(outbox, lambda db, terms=terms: write_terms(db, "mesh_1", terms, now_ms=NOW))
        assert read_terms(outbox, "mesh_1") == terms


def test_pruning_forgets_what_was_said_and_keeps_the_id(outbox: apsw.Connection) -> None:
    for name in ("done", "young", "dead"):
        put(outbox, message(name))
    take(outbox)
    settled(outbox, Done("done", "bm_1", 1))
    settled(outbox, Done("young", "bm_2", 2), now_ms=NOW + DAY)
    settled(outbox, Dead("dead", "refused"))
    assert commit(outbox, lambda db: prune(db, before_ms=NOW + 1, now_ms=NOW + DAY)) == 1
    assert (row(outbox, "done").payload, row(outbox, "done").sealed) == (b"", b"")
    assert row(outbox, "young").payload == b"hello"
    assert row(outbox, "dead").payload == b"hello"
    assert put(outbox, message("done")).status == 200, "the id is still known, and what it stood for"


def test_pruning_goes_in_parts(outbox: apsw.Connection) -> None:
    for number in range(3):
        put(outbox, message(f"m-{number}"))
    take(outbox)
    for number in range(3):
        settled(outbox, Done(f"m-{number}", f"bm_{number}", number + 1))
    assert [commit(outbox, lambda db: prune(db, before_ms=NOW + 1, now_ms=NOW, limit=2)) for _ in range(3)] == [2, 1, 0]


def test_pruning_looks_at_nothing_but_what_is_due(outbox: apsw.Connection) -> None:
    plan = outbox.execute(f"EXPLAIN QUERY PLAN {_PRUNE}", (NOW, NOW, 1)).fetchall()
    assert any("outbox_unpruned" in str(row[3]) for row in plan)


def test_rows_are_listed_and_counted_by_state(outbox: apsw.Connection) -> None:
    for number in range(3):
        put(outbox, message(f"m-{number}"))
    take(outbox, limit=1)
    listed = list_rows(outbox, status="pending", mesh_id=None, limit=10)
    assert [each.client_message_id for each in listed] == ["m-2", "m-1"]
    assert list_rows(outbox, status=None, mesh_id="mesh_2", limit=10) == []
    assert {(mesh, status): number for mesh, status, number in counts(outbox)} == {
        ("mesh_1", "pending"): 2,
        ("mesh_1", "inflight"): 1,
    }


def sealing(row: OutboxRow) -> Sealed:
    return Sealed(ALICE, b"sealed when sent:" + row.payload, 7, b"\7" * 32)


def put_unsealed(db: apsw.Connection, client_id: str, *, in_flight: bool = False, seal: Seal | None = None) -> Taken:
    asked = message(client_id)
    fingerprint = message_fingerprint(asked)
    ids = {"row_id": f"out_{client_id}", "now_ms": NOW}
    return commit(db, lambda tx: accept(tx, asked, fingerprint, UNSEALED, **ids, in_flight=in_flight, seal=seal))


def test_a_row_is_sealed_when_it_is_first_sent_and_repeats_those_bytes(outbox: apsw.Connection) -> None:
    put_unsealed(outbox, "m-1")
    (sent,) = take(outbox, seal=sealing).rows
    assert (sent.sealed, sent.key_epoch, sent.sender_identity) == (b"sealed when sent:hello", 7, ALICE)
    kept = row(outbox)
    assert (kept.sealed, kept.wire_fingerprint, kept.status) == (sent.sealed, b"\7" * 32, "inflight")
    settled(outbox, BackOff("m-1", NOW, "later"))
    (again,) = take(outbox, seal=lambda row: Sealed(ALICE, b"other bytes", 8, b"\7" * 32)).rows
    assert again.sealed == sent.sealed


def test_a_row_that_cannot_be_sealed_yet_waits_and_is_hurried_on(outbox: apsw.Connection) -> None:
    put_unsealed(outbox, "m-1")
    waits = take(outbox, seal=lambda row: Delay("no key yet"))
    assert (waits.rows, waits.next_ms) == ([], NOW + SEAL_MS)
    kept = row(outbox)
    assert (kept.status, kept.last_error, kept.attempts) == ("pending", "no key yet", 0)
    assert take(outbox, seal=sealing).rows == []
    assert commit(outbox, lambda db: hurry_unsealed(db, "mesh_1", now_ms=NOW)) == 1
    assert len(take(outbox, seal=sealing).rows) == 1


def test_a_row_that_can_never_be_sealed_dies_and_is_told_of(outbox: apsw.Connection) -> None:
    put_unsealed(outbox, "m-1")
    found = take(outbox, seal=lambda row: Hopeless("nobody there"))
    assert (found.rows, found.hopeless) == ([], [Dead("m-1", "nobody there")])
    kept = row(outbox)
    assert (kept.status, kept.last_error) == ("dead", "nobody there")


def test_what_the_broker_refused_for_its_key_is_sealed_again(outbox: apsw.Connection) -> None:
    put_unsealed(outbox, "m-1")
    take(outbox, seal=sealing)
    assert settled(outbox, SealAgain("m-1", NOW, "another key"))
    kept = row(outbox)
    assert (kept.status, kept.sealed, kept.sender_identity, kept.key_epoch) == ("pending", b"", "", None)
    (sent,) = take(outbox, seal=lambda row: Sealed(ALICE, b"other bytes", 8, b"\7" * 32)).rows
    assert sent.sealed == b"other bytes"


def test_a_row_that_is_sent_at_once_is_sealed_with_it_unless_it_has_to_wait(outbox: apsw.Connection) -> None:
    taken = put_unsealed(outbox, "m-1", in_flight=True, seal=sealing)
    assert (taken.row.status, taken.row.sealed, taken.state) == ("inflight", b"sealed when sent:hello", "queued")
    waits = put_unsealed(outbox, "m-2", in_flight=True, seal=lambda row: Delay("no key yet"))
    assert (waits.row.status, waits.row.sealed) == ("pending", b"")
    assert row(outbox, "m-2").status == "pending"
