"""The eleven rows of the accept table, and what an id is bound to."""

from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from parley.core.daemon_errors import MeshUnreachable
from parley.core.errors import IdempotencyKeyReused
from parley.core.fingerprint import fingerprint_prefix
from parley.daemon.outbox.accept import Destination, Message, message_fingerprint, settle_destination
from parley.daemon.outbox.requeue import drop
from parley.daemon.outbox.rows import OutboxRow, by_client_id, send_frame
from parley.daemon.outbox.sending import Dead, Done, settle, take_due
from parley.wire.broker import body_bytes, wire_fingerprint
from tests.daemon.world import ALICE, BOB, DAY, NOW, commit, message, put, sealed

OTHER = replace(message(), payload=b"something else")


def in_state(outbox: apsw.Connection, status: str) -> OutboxRow:
    """A row of ``message()`` in this state."""
    row_id = put(outbox, message()).row.id
    if status != "pending":
        commit(outbox, lambda db: take_due(db, "mesh_1", now_ms=NOW, limit=10, max_age_ms=DAY))
    if status == "done":
        commit(outbox, lambda db: settle(db, Done("m-1", "bm_1", 7), now_ms=NOW))
    if status in ("dead", "aborted"):
        commit(outbox, lambda db: settle(db, Dead("m-1", "PAYLOAD_TOO_LARGE: too large"), now_ms=NOW))
    if status == "aborted":
        commit(outbox, lambda db: drop(db, row_id, by="operator", force=False, now_ms=NOW))
    row = by_client_id(outbox, "m-1")
    assert row is not None
    assert row.status == status
    return row


def test_row_1_no_row_a_pending_one_is_written_and_the_answer_is_queued(outbox: apsw.Connection) -> None:
    taken = put(outbox, message())
    assert (taken.status, taken.state, taken.row.status) == (202, "queued", "pending")
    assert by_client_id(outbox, "m-1") == taken.row


@pytest.mark.parametrize(
    ("table_row", "status", "code", "state"),
    [(2, "pending", 202, "queued"), (4, "inflight", 202, "inflight"), (6, "done", 200, "done")],
)
def test_the_same_message_again_is_answered_from_its_row(
    outbox: apsw.Connection, table_row: int, status: str, code: int, state: str
) -> None:
    before = in_state(outbox, status)
    taken = put(outbox, message(), now_ms=NOW + 1)
    assert (taken.status, taken.state) == (code, state)
    assert taken.row == before, "no branch of the table changes the row"


def test_row_6_a_done_row_is_answered_with_what_the_broker_gave_it(outbox: apsw.Connection) -> None:
    in_state(outbox, "done")
    row = put(outbox, message()).row
    assert (row.broker_message_id, row.history_id) == ("bm_1", 7)


@pytest.mark.parametrize(
    ("table_row", "status", "asked", "conflict"),
    [
        (3, "pending", OTHER, "outbox_pending_fingerprint_mismatch"),
        (5, "inflight", OTHER, "outbox_inflight_fingerprint_mismatch"),
        (7, "done", OTHER, "outbox_done_fingerprint_mismatch"),
        (8, "dead", message(), "outbox_dead_fingerprint_match"),
        (9, "dead", OTHER, "outbox_dead_fingerprint_mismatch"),
        (10, "aborted", message(), "outbox_aborted_fingerprint_match"),
        (11, "aborted", OTHER, "outbox_aborted_fingerprint_mismatch"),
    ],
)
def test_a_row_that_refuses_says_why_and_does_not_change(
    outbox: apsw.Connection, table_row: int, status: str, asked: Message, conflict: str
) -> None:
    before = in_state(outbox, status)
    with pytest.raises(IdempotencyKeyReused) as refusal:
        put(outbox, asked, now_ms=NOW + 1)
    details = refusal.value.details
    assert details["conflict"] == conflict
    assert details["daemon_fingerprint_prefix"] == fingerprint_prefix(message_fingerprint(message()))
    assert details["broker_message_id"] == ("bm_1" if status == "done" else None)
    assert details.get("reason") == ("PAYLOAD_TOO_LARGE: too large" if table_row == 8 else None)
    assert by_client_id(outbox, "m-1") == before


@pytest.mark.parametrize(
    "changes",
    [
        {"priority": "now"},
        {"reply_to_id": "bm_9"},
        {"meta": {"a": 1}},
        {"mentions": [BOB]},
        {"destination": Destination("mesh_1", "bob", "dm", ALICE)},
        {"destination": Destination("mesh_2", "bob", "dm", BOB)},
    ],
    ids=str,
)
def test_each_part_of_a_message_makes_it_another_one(outbox: apsw.Connection, changes: dict[str, Any]) -> None:
    put(outbox, message())
    with pytest.raises(IdempotencyKeyReused):
        put(outbox, message(**changes))


def test_the_order_of_metadata_does_not_matter(outbox: apsw.Connection) -> None:
    put(outbox, message(meta={"a": 1, "b": 2}))
    assert put(outbox, message(meta={"b": 2, "a": 1})).state == "queued"


def test_mentions_cannot_be_imitated_by_metadata() -> None:
    mentioning = message(mentions=[BOB], meta={"a": 1})
    imitating = message(meta={"meta": {"a": 1}, "mentions": [BOB]})
    assert message_fingerprint(mentioning) != message_fingerprint(imitating)


def test_a_retry_means_what_it_meant_at_first_also_while_the_roster_cannot_be_reached(outbox: apsw.Connection) -> None:
    put(outbox, message())
    row = by_client_id(outbox, "m-1")

    def unreachable() -> Destination:
        raise MeshUnreachable("The broker is away")

    assert settle_destination(row, "bob", None, unreachable) == message().destination
    assert settle_destination(row, "bob", "mesh_1", unreachable) == message().destination
    for to_spec, mesh_id in (("carol", None), ("bob", "mesh_2")):
        with pytest.raises(MeshUnreachable):
            settle_destination(row, to_spec, mesh_id, unreachable)
    with pytest.raises(MeshUnreachable):
        settle_destination(None, "bob", None, unreachable)


def test_what_is_sent_is_the_frozen_row_whole(outbox: apsw.Connection) -> None:
    asked = message(reply_to_id="bm_9", priority="now", mentions=[BOB], meta={"a": 1})
    frame = send_frame(put(outbox, asked).row)
    assert body_bytes(frame) == sealed(asked).body
    assert wire_fingerprint(frame).hex() == frame.fingerprint
    assert (frame.reply_to, frame.priority, frame.mentions, frame.key_epoch) == ("bm_9", "now", [BOB], 3)
    assert frame.meta == {}, "metadata travels sealed with the body"


def test_what_a_caller_is_told_of_a_new_row_is_the_row_that_was_written(outbox: apsw.Connection) -> None:
    put(outbox, message("m-0"))
    asked = message(reply_to_id="bm_9", priority="now", mentions=[BOB], meta={"b": 2, "a": 1})
    taken = put(outbox, asked)
    assert taken.is_new
    assert taken.row == by_client_id(outbox, "m-1")
    again = put(outbox, asked)
    assert (again.row, again.is_new) == (taken.row, False)
