"""The columns of a broker's messages and deliveries, and the questions that they answer.

A message's body is not among them. It is sealed, so nobody who has the lake could read it; and it is gone from the
broker after some weeks, which a copy here would undo. Its size and the fingerprint of the request tell as much of it
as can be told.
"""

from typing import Final

import pyarrow as pa

_NUMBERS: Final = frozenset(
    {
        "epoch",
        "history_id",
        "key_epoch",
        "body_bytes",
        "recipients",
        "accepted_ms",
        "delivery_id",
        "priority_rank",
        "mentioned",
        "attempts",
        "lease_until_ms",
        "queued_ms",
        "settled_ms",
        "joined_ms",
        "ended_ms",
    }
)
_BYTES: Final = frozenset({"request_fingerprint"})


def _schema(*columns: str) -> pa.Schema:
    return pa.schema(
        [(name, pa.int64() if name in _NUMBERS else pa.binary() if name in _BYTES else pa.string()) for name in columns]
    )


STORED_MESSAGES: Final = _schema(
    "history_id",
    "mesh_id",
    "mesh",
    "broker_message_id",
    "client_message_id",
    "sender_id",
    "sender_key",
    "sender_name",
    "kind",
    "ref",
    "priority",
    "reply_to",
    "meta",
    "key_epoch",
    "body_bytes",
    "recipients",
    "accepted_ms",
    "request_fingerprint",
)
"""A message as its store holds it."""
MESSAGE_SCHEMA: Final = pa.schema([*_schema("broker_id", "epoch"), *STORED_MESSAGES])
MESSAGE_DDL: Final = ", ".join(
    f"{field.name} {'bigint' if field.type == pa.int64() else 'binary' if field.type == pa.binary() else 'string'}"
    for field in MESSAGE_SCHEMA
)
STORED_DELIVERIES: Final = _schema(
    "delivery_id",
    "mesh_id",
    "broker_message_id",
    "recipient_id",
    "priority_rank",
    "mentioned",
    "state",
    "status",
    "reason",
    "attempts",
    "lease_until_ms",
    "queued_ms",
    "settled_ms",
)
"""A delivery as its store holds it. Which connection has leased it belongs to the moment."""

BOUNDS: Final = (
    "SELECT m.mesh_id, coalesce((SELECT max(h.history_id) FROM message_history AS h WHERE h.mesh_id = m.mesh_id), 0)"
    " FROM mesh AS m ORDER BY m.mesh_id"
)
"""The last number of each mesh. An index answers it, however long the history is."""
MESSAGES: Final = (
    "SELECT h.history_id, h.mesh_id, m.slug, h.broker_message_id, h.client_message_id, h.sender_id, h.sender_key,"
    " h.sender_name, h.kind, h.ref, h.priority, h.reply_to, h.meta, h.key_epoch, h.body_bytes, h.recipients,"
    " h.accepted_ms, d.request_fingerprint FROM message_history AS h JOIN mesh AS m ON m.mesh_id = h.mesh_id"
    " LEFT JOIN client_message_dedupe AS d ON d.broker_message_id = h.broker_message_id"
    " WHERE h.mesh_id = {mesh} AND h.history_id > {lo} AND h.history_id <= {hi} ORDER BY h.history_id"
)
DELIVERY_BOUNDS: Final = "SELECT coalesce(min(delivery_id), 0), coalesce(max(delivery_id), 0) FROM delivery_queue"
DELIVERIES: Final = (
    f"SELECT {', '.join(STORED_DELIVERIES.names)} FROM delivery_queue"
    " WHERE delivery_id > {lo} AND delivery_id <= {hi} ORDER BY delivery_id"
)
STORED_IDENTITIES: Final = _schema("history_id", "broker_message_id")
IDENTITIES: Final = (
    "SELECT history_id, broker_message_id FROM message_history WHERE mesh_id = {mesh} ORDER BY history_id"
)
"""Which message has which number, for a mesh."""
STORED_MEMBERS: Final = _schema(
    "mesh_id", "mesh", "member_id", "display_name", "role", "state", "joined_ms", "ended_ms"
)
"""A member as its store holds it. When it was last connected belongs to the moment."""
MEMBERS: Final = (
    "SELECT m.mesh_id, x.slug, m.member_id, m.display_name, m.role, m.state, m.joined_ms, m.ended_ms"
    " FROM member AS m JOIN mesh AS x ON x.mesh_id = m.mesh_id ORDER BY m.mesh_id, m.member_id"
)
