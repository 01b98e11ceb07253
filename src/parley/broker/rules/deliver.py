"""Deliveries: leased to a connection of their recipient, and done when the recipient says that it has them.

A lease ends with its connection or with its time, and then the delivery is anybody's again who is its recipient. An
acknowledgement counts whoever holds the lease by then: what is on the recipient's disk is delivered.
"""

import base64
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from parley.broker.rules.parts import parts_without_repetition
from parley.broker.tx import Row, Tx
from parley.core import untrusted_json
from parley.core.clock import iso
from parley.core.limits import JSON_DEPTH_MAX
from parley.core.untrusted_json import is_deeper
from parley.wire.broker import CarriedMessage, DeliveryAcked, Push

_RANK_MAX: Final = {"idle": 2, "working": 0, "dnd": 0}
"""The last rank of priority that a member in this state gets."""
_DUE: Final = (
    "SELECT delivery_id FROM delivery_queue WHERE recipient_id = ? AND state IN ('queued', 'leased')"
    # A lease that ends later than any that is given now was given before the clock was set back.
    " AND priority_rank <= ? AND (state = 'queued' OR lease_until_ms <= ? OR lease_until_ms > ?)"
    " ORDER BY priority_rank, delivery_id LIMIT ?"
)
_LEASE: Final = (
    "UPDATE delivery_queue SET state = 'leased', leased_by = ?, lease_until_ms = ?, attempts = attempts + 1"
    " WHERE delivery_id = ?"
)
_PUSH: Final = (
    "SELECT d.delivery_id, d.attempts, d.mentioned, h.broker_message_id, h.history_id, h.client_message_id,"
    " h.sender_key, h.sender_id, h.sender_name, h.kind, h.ref, h.priority, b.body, h.accepted_ms, h.reply_to, h.meta,"
    " h.key_epoch FROM delivery_queue AS d JOIN message_history AS h ON h.broker_message_id = d.broker_message_id"
    " JOIN message AS b ON b.broker_message_id = d.broker_message_id WHERE d.delivery_id = ?"
)
_DELIVERED: Final = (
    "UPDATE delivery_queue SET state = 'delivered', status = ?, settled_ms = ?, reason = NULL, leased_by = NULL,"
    " lease_until_ms = NULL WHERE recipient_id = ? AND state <> 'delivered' AND delivery_id = ?"
    " RETURNING delivery_id, recipient_id"
)
_PRESENCE: Final = "SELECT status, until_ms FROM presence WHERE member_id = ?"
_END: Final = (
    "UPDATE delivery_queue SET state = 'dead', reason = ?, settled_ms = ?, leased_by = NULL, lease_until_ms = NULL"
    " WHERE state IN ('queued', 'leased')"
)
_QUEUED: Final = "SET state = 'queued', leased_by = NULL, lease_until_ms = NULL"


class Claim(NamedTuple):
    """A connection of a member has room for so many deliveries."""

    member_id: str
    connection_id: str
    room: int


class Acknowledgement(NamedTuple):
    """A member has these on its disk."""

    member_id: str
    deliveries: tuple[DeliveryAcked, ...]


def claim(tx: Tx, claims: Sequence[Claim], lease_ms: int) -> list[list[Push]]:
    """Leases to each connection what is due to its member, the most urgent and oldest first."""
    pushes: list[list[Push]] = []
    for part in parts_without_repetition(claims, lambda each: each.member_id):
        pushes += _claim(tx, part, lease_ms)
    return pushes


def _claim(tx: Tx, claims: Sequence[Claim], lease_ms: int) -> list[list[Push]]:
    now, until = tx.now_ms, tx.now_ms + lease_ms
    states = presences(tx, [each.member_id for each in claims])
    asked = [(each.member_id, _RANK_MAX[states[each.member_id]], now, until, each.room) for each in claims]
    due = tx.each(_DUE + tx.skip_locked, asked)
    leased = [(each.connection_id, until, *row) for each, rows in zip(claims, due, strict=True) for row in rows]
    tx.many(_LEASE, leased)
    carried = iter(tx.each(_PUSH, [(delivery_id,) for *_, delivery_id in leased]))
    return [[_push(row) for _ in rows for row in next(carried)] for rows in due]


def acknowledge(tx: Tx, acknowledgements: Sequence[Acknowledgement]) -> list[int]:
    """Marks members' own deliveries as delivered; how many of each were not so before. Others' are left alone."""
    stated = {
        (acked.member_id, each.delivery_id): each.status for acked in acknowledgements for each in acked.deliveries
    }
    rows = [(status, tx.now_ms, member_id, delivery_id) for (member_id, delivery_id), status in sorted(stated.items())]
    changed = {(member_id, delivery_id) for delivery_id, member_id in tx.many(_DELIVERED, rows)}
    counts: list[int] = []
    for acked in acknowledgements:
        own = {(acked.member_id, each.delivery_id) for each in acked.deliveries} & changed
        changed -= own
        counts.append(len(own))
    return counts


def release(tx: Tx, connection_id: str) -> tuple[str, ...]:
    """Queues again what an ended connection had leased; whom it is for."""
    found = tx.all(
        "SELECT DISTINCT recipient_id FROM delivery_queue WHERE state = 'leased' AND leased_by = ?", connection_id
    )
    tx.run(f"UPDATE delivery_queue {_QUEUED} WHERE state = 'leased' AND leased_by = ?", connection_id)
    return tuple(row[0] for row in found)


def expire(tx: Tx, lease_ms: int) -> tuple[str, ...]:
    """Queues again whatever was leased for too long; whom it is for."""
    over = "state = 'leased' AND (lease_until_ms <= ? OR lease_until_ms > ?)"
    times = (tx.now_ms, tx.now_ms + lease_ms)
    found = tx.all(f"SELECT DISTINCT recipient_id FROM delivery_queue WHERE {over}", *times)
    tx.run(f"UPDATE delivery_queue {_QUEUED} WHERE {over}", *times)
    return tuple(sorted(row[0] for row in found))


def end_deliveries_to(tx: Tx, member_id: str) -> int:
    """What the member has not got by now it never will."""
    return tx.run(f"{_END} AND recipient_id = ?", *("recipient_gone", tx.now_ms, member_id))


def end_deliveries_from(tx: Tx, mesh_id: str, member_id: str) -> int:
    """What nobody has got of the member by now nobody ever will. Recipients are named, as their index holds them."""
    return tx.run(
        f"{_END} AND recipient_id IN (SELECT member_id FROM member WHERE mesh_id = ?) AND EXISTS (SELECT 1 FROM"
        " message_history AS h WHERE h.broker_message_id = delivery_queue.broker_message_id AND h.sender_id = ?)",
        *("sender_gone", tx.now_ms, mesh_id, member_id),
    )


def presences(tx: Tx, member_ids: Sequence[str]) -> dict[str, str]:
    """What each member said it is doing, unless that is over."""
    rows = tx.each(_PRESENCE, [(member_id,) for member_id in member_ids])
    return {member_id: _status(found, tx.now_ms) for member_id, found in zip(member_ids, rows, strict=True)}


def _status(found: list[Row], now_ms: int) -> str:
    if not found or (found[0][1] is not None and found[0][1] <= now_ms):
        return "idle"
    return found[0][0]


def _push(row: Row) -> Push:
    message = CarriedMessage(
        broker_message_id=row[3],
        history_id=row[4],
        client_message_id=row[5],
        sender=row[6],
        sender_id=row[7],
        sender_name=row[8],
        kind=row[9],
        ref=row[10],
        priority=row[11],
        body=base64.b64encode(row[12]).decode(),
        accepted_at=iso(row[13]),
        reply_to=row[14],
        meta=_meta(row[15]),
        key_epoch=row[16],
    )
    return Push(row[0], row[1], bool(row[2]), message)


def _meta(text: str) -> dict[str, Any]:
    """Accepted before its depth was looked at, it may be more than a daemon takes: the message goes without it."""
    return {} if is_deeper(text.encode(), JSON_DEPTH_MAX) else untrusted_json.decode(text, dict[str, Any])
