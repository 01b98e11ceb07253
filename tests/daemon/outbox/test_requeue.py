"""What an operator does to a row: everything of it goes on under the new id, and the old one stays bound."""

import apsw
import pytest
from msgspec.structs import replace

from parley.core.daemon_errors import OutboxConflict
from parley.core.errors import IdempotencyKeyReused, NotFound
from parley.daemon.outbox.accept import Message, message_fingerprint
from parley.daemon.outbox.prune import prune
from parley.daemon.outbox.requeue import drop, requeue
from parley.daemon.outbox.rows import OutboxRow, by_client_id, by_id, chain, find, send_frame
from parley.daemon.outbox.sending import Dead, Done, settle, take_due
from tests.daemon.world import DAY, NOW, commit, message, put, sealed

ASKED = message(reply_to_id="bm_9", priority="now", meta={"a": 1})


def again(
    outbox: apsw.Connection, row_id: str, asked: Message, *, new_id: str = "out_new", force: bool = False
) -> OutboxRow:
    fingerprint = message_fingerprint(asked)
    return commit(
        outbox,
        lambda db: requeue(
            db, row_id, asked, fingerprint, sealed(asked), new_id=new_id, by="operator", force=force, now_ms=NOW
        ),
    )


def dead(outbox: apsw.Connection) -> OutboxRow:
    put(outbox, ASKED)
    commit(outbox, lambda db: settle(db, Dead("m-1", "refused"), now_ms=NOW))
    return find(outbox, "m-1")


def test_a_requeued_message_keeps_its_destination_and_its_secrecy(outbox: apsw.Connection) -> None:
    old = dead(outbox)
    new = again(outbox, old.id, replace(ASKED, client_message_id="m-2"))
    kept = ("mesh_id", "to_spec", "destination_kind", "destination_ref", "reply_to_id", "priority", "meta", "payload")
    assert [getattr(new, name) for name in kept] == [getattr(old, name) for name in kept]
    assert send_frame(new).body == send_frame(old).body
    assert (new.status, new.attempts, new.request_fingerprint) == ("pending", 0, old.request_fingerprint)


def test_the_old_row_is_retired_and_names_its_successor(outbox: apsw.Connection) -> None:
    old = dead(outbox)
    new = again(outbox, old.id, replace(ASKED, client_message_id="m-2"))
    retired = by_id(outbox, old.id)
    assert (retired.status, retired.aborted_at, retired.aborted_by) == ("aborted", NOW, "operator")
    assert retired.superseded_by == new.id
    with pytest.raises(IdempotencyKeyReused) as refusal:
        put(outbox, ASKED)
    assert refusal.value.details["conflict"] == "outbox_aborted_fingerprint_match"


def test_the_chain_shows_every_successor_from_any_of_them(outbox: apsw.Connection) -> None:
    first = dead(outbox)
    second = again(outbox, first.id, replace(ASKED, client_message_id="m-2"), new_id="out_2")
    third = again(outbox, second.id, replace(ASKED, client_message_id="m-3"), new_id="out_3")
    for name in (first.id, "m-2", third.id):
        assert [each.id for each in chain(outbox, find(outbox, name))] == [first.id, "out_2", "out_3"]


def test_a_patched_message_is_sealed_anew(outbox: apsw.Connection) -> None:
    old = dead(outbox)
    new = again(outbox, old.id, replace(ASKED, client_message_id="m-2", payload=b"patched"))
    assert new.payload == b"patched"
    assert new.request_fingerprint != old.request_fingerprint
    assert new.wire_fingerprint != old.wire_fingerprint


def test_an_id_that_is_taken_is_refused_and_nothing_changes(outbox: apsw.Connection) -> None:
    old = dead(outbox)
    with pytest.raises(OutboxConflict) as refusal:
        again(outbox, old.id, ASKED)
    assert refusal.value.details["reason"] == "client_message_id_taken"
    assert by_id(outbox, old.id) == old


@pytest.mark.parametrize("status", ["done", "aborted", "inflight"])
def test_what_has_arrived_or_is_retired_or_in_flight_is_not_sent_again(outbox: apsw.Connection, status: str) -> None:
    put(outbox, ASKED)
    commit(outbox, lambda db: take_due(db, "mesh_1", now_ms=NOW, limit=1, max_age_ms=DAY))
    if status == "done":
        commit(outbox, lambda db: settle(db, Done("m-1", "bm_1", 7), now_ms=NOW))
    if status == "aborted":
        commit(outbox, lambda db: drop(db, "out_m-1", by="operator", force=True, now_ms=NOW))
    with pytest.raises(OutboxConflict) as refusal:
        again(outbox, "out_m-1", replace(ASKED, client_message_id="m-2"))
    assert refusal.value.details["reason"] == status
    assert by_client_id(outbox, "m-2") is None
    if status == "inflight":
        assert again(outbox, "out_m-1", replace(ASKED, client_message_id="m-2"), force=True).status == "pending"


def test_what_was_pruned_cannot_be_sent_again(outbox: apsw.Connection) -> None:
    put(outbox, ASKED)
    commit(outbox, lambda db: drop(db, "out_m-1", by="operator", force=False, now_ms=NOW))
    assert commit(outbox, lambda db: prune(db, before_ms=NOW + 1, now_ms=NOW)) == 1
    with pytest.raises(OutboxConflict):
        again(outbox, "out_m-1", replace(ASKED, client_message_id="m-2"))


def test_a_dropped_message_is_not_sent_and_its_id_stays_bound(outbox: apsw.Connection) -> None:
    put(outbox, ASKED)
    dropped = commit(outbox, lambda db: drop(db, "out_m-1", by="operator", force=False, now_ms=NOW))
    assert (dropped.status, dropped.superseded_by) == ("aborted", None)
    due = commit(outbox, lambda db: take_due(db, "mesh_1", now_ms=NOW, limit=1, max_age_ms=DAY))
    assert due.rows == []


def test_a_row_that_does_not_exist_is_not_found(outbox: apsw.Connection) -> None:
    with pytest.raises(NotFound):
        find(outbox, "nothing")
