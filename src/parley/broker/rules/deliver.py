"""Deliveries: leased to a connection of their recipient, and done when the recipient says that it has them.

A lease ends with its connection or with its time, and then the delivery is anybody's again who is its recipient. An
acknowledgement counts whoever holds the lease by then: what is on the recipient's disk is delivered.
"""

import base64
from collections.abc import Sequence
from typing import Final

import msgspec

from parley.broker.tx import Row, Tx
from parley.core.clock import iso
from parley.wire.broker import CarriedMessage, DeliveryAcked, Push

_RANK_MAX: Final = {"idle": 2, "working": 0, "dnd": 0}
"""The last rank of priority that a member in this state gets."""
_DUE: Final = (
    "SELECT delivery_id FROM delivery_queue WHERE recipient_id = ? AND state IN ('queued', 'leased')"
    # A lease that ends later than any that is given now was given before the clock was set back.
    " AND priority_rank <= ? AND (state = 'queued' OR lease_until_ms <= ? OR lease_until_ms > ?)"
    " ORDER BY priority_rank, delivery_id LIMIT ?"
)
_PUSHES: Final = (
    "SELECT d.delivery_id, d.attempts, d.mentioned, h.broker_message_id, h.history_id, h.client_message_id,"
    " h.sender_key, h.sender_id, h.sender_name, h.kind, h.ref, h.priority, b.body, h.accepted_ms, h.reply_to, h.meta,"
    " h.key_epoch FROM delivery_queue AS d JOIN message_history AS h ON h.broker_message_id = d.broker_message_id"
    " JOIN message AS b ON b.broker_message_id = d.broker_message_id WHERE d.delivery_id IN ({marks})"
    " ORDER BY d.priority_rank, d.delivery_id"
)
_QUEUED: Final = "SET state = 'queued', leased_by = NULL, lease_until_ms = NULL"


def claim(tx: Tx, member_id: str, connection_id: str, count: int, lease_ms: int) -> list[Push]:
    """Leases up to ``count`` deliveries that are due to the member, the most urgent and oldest first."""
    rank_max = _RANK_MAX[presence_of(tx, member_id)]
    until = tx.now_ms + lease_ms
    due = tx.all(_DUE + tx.skip_locked, member_id, rank_max, tx.now_ms, until, count)
    if not due:
        return []
    marks = ", ".join("?" * len(due))
    ids = [row[0] for row in due]
    tx.run(
        "UPDATE delivery_queue SET state = 'leased', leased_by = ?, lease_until_ms = ?, attempts = attempts + 1"
        f" WHERE delivery_id IN ({marks})",
        *(connection_id, until, *ids),
    )
    return [_push(row) for row in tx.all(_PUSHES.format(marks=marks), *ids)]


def acknowledge(tx: Tx, member_id: str, deliveries: Sequence[DeliveryAcked]) -> int:
    """Marks the member's own deliveries as delivered; how many were not so before. Others' are left alone."""
    changed = 0
    for status in ("stored", "undecryptable"):
        ids = sorted({each.delivery_id for each in deliveries if each.status == status})
        if ids:
            changed += tx.run(
                "UPDATE delivery_queue SET state = 'delivered', status = ?, settled_ms = ?, reason = NULL,"
                " leased_by = NULL, lease_until_ms = NULL WHERE recipient_id = ? AND state <> 'delivered'"
                f" AND delivery_id IN ({', '.join('?' * len(ids))})",
                *(status, tx.now_ms, member_id, *ids),
            )
    return changed


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


def end_deliveries(tx: Tx, recipient_id: str, reason: str) -> int:
    """What the recipient has not got by now it never will."""
    return tx.run(
        "UPDATE delivery_queue SET state = 'dead', reason = ?, settled_ms = ?, leased_by = NULL, lease_until_ms = NULL"
        " WHERE recipient_id = ? AND state IN ('queued', 'leased')",
        *(reason, tx.now_ms, recipient_id),
    )


def presence_of(tx: Tx, member_id: str) -> str:
    """What the member said it is doing, unless that is over."""
    found = tx.one("SELECT status, until_ms FROM presence WHERE member_id = ?", member_id)
    if found is None or (found[1] is not None and found[1] <= tx.now_ms):
        return "idle"
    return found[0]


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
        meta=msgspec.json.decode(row[15]),
        key_epoch=row[16],
    )
    return Push(row[0], row[1], bool(row[2]), message)
