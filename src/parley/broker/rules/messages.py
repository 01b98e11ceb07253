"""What a sender can learn of its message, and what a recipient can have again."""

from parley.broker.tx import Tx
from parley.core.clock import iso
from parley.core.errors import NotFound


def message_status(tx: Tx, mesh_id: str, sender_id: str, client_message_id: str) -> dict[str, object]:
    """What became of each delivery of the sender's own message. Raises ``NotFound``."""
    known = tx.one(
        "SELECT broker_message_id, history_id, first_seen_ms, history_available FROM client_message_dedupe"
        " WHERE mesh_id = ? AND sender_id = ? AND client_message_id = ?",
        *(mesh_id, sender_id, client_message_id),
    )
    if known is None:
        raise NotFound("The broker has no message of this id from the sender", client_message_id=client_message_id)
    rows = tx.all(
        "SELECT m.member_id, m.display_name, d.state, d.status, d.reason, d.attempts, d.settled_ms"
        " FROM delivery_queue AS d JOIN member AS m ON m.member_id = d.recipient_id"
        " WHERE d.broker_message_id = ? ORDER BY d.delivery_id",
        known[0],
    )
    return {
        "client_message_id": client_message_id,
        "broker_message_id": known[0],
        "history_id": known[1],
        "accepted_at": iso(known[2]),
        "history_available": bool(known[3]),
        "deliveries": [
            {
                "member_id": member_id,
                "display_name": name,
                "state": state,
                "status": status,
                "reason": reason,
                "attempts": attempts,
                "settled_at": None if settled_ms is None else iso(settled_ms),
            }
            for member_id, name, state, status, reason, attempts, settled_ms in rows
        ],
    }


def messages_reached(tx: Tx, mesh_id: str, sender_id: str, ids: list[str]) -> list[dict[str, object]]:
    """How far the sender's own messages have come, by one query; those that the broker does not have are left out.

    Of a message that was pruned since nothing is known but that it was accepted. Who has a message that no key of its
    own opens is among those it was delivered to.
    """
    if not ids:
        return []
    rows = tx.all(
        "SELECT x.client_message_id, count(d.delivery_id),"
        " sum(CASE WHEN d.state = 'delivered' THEN 1 ELSE 0 END), sum(CASE WHEN d.state = 'dead' THEN 1 ELSE 0 END),"
        " sum(CASE WHEN d.status = 'undecryptable' THEN 1 ELSE 0 END)"
        " FROM client_message_dedupe AS x LEFT JOIN delivery_queue AS d ON d.broker_message_id = x.broker_message_id"
        " WHERE x.mesh_id = ? AND x.sender_id = ? AND x.history_available = 1"
        f" AND x.client_message_id IN ({', '.join('?' * len(ids))}) GROUP BY x.client_message_id",
        *(mesh_id, sender_id, *ids),
    )
    return [
        {
            "client_message_id": name,
            "recipients": recipients,
            "delivered": int(delivered),
            "dead": int(dead),
            "undecryptable": int(undecryptable),
        }
        for name, recipients, delivered, dead, undecryptable in rows
    ]


def redeliver(tx: Tx, member_id: str) -> int:
    """Queues again all that was delivered to the member and is still here; how many."""
    return tx.run(
        "UPDATE delivery_queue SET state = 'queued', status = NULL, settled_ms = NULL"
        " WHERE recipient_id = ? AND state = 'delivered'",
        member_id,
    )
