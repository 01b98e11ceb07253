"""The orphan check of a broker's tables: questions in SQL that both of its stores answer alike.

The broker asks them of its live database, the pipeline's audit of one moment of it. Each finding is one that no crash
and no sweep can cause, only a broken disk, a foreign hand or a bug of ours.
"""

from typing import Final, NamedTuple


class Check(NamedTuple):
    """What a finding means, and the query that finds it: a mesh and an id in each row."""

    meaning: str
    sql: str


CHECKS: Final[dict[str, Check]] = {
    "id_without_message": Check(
        "an id says that its message is here, and it is not",
        "SELECT d.mesh_id, d.broker_message_id FROM client_message_dedupe AS d WHERE d.history_available = 1"
        " AND NOT EXISTS (SELECT 1 FROM message AS m WHERE m.broker_message_id = d.broker_message_id)",
    ),
    "id_without_history": Check(
        "an id says that its message is here, and the history does not know it under this number",
        "SELECT d.mesh_id, d.broker_message_id FROM client_message_dedupe AS d WHERE d.history_available = 1"
        " AND NOT EXISTS (SELECT 1 FROM message_history AS h WHERE h.broker_message_id = d.broker_message_id"
        " AND h.history_id = d.history_id AND h.sender_id = d.sender_id"
        " AND h.client_message_id = d.client_message_id)",
    ),
    "message_without_id": Check(
        "a message is in the history and could be accepted a second time, as its id is not known",
        "SELECT h.mesh_id, h.broker_message_id FROM message_history AS h WHERE NOT EXISTS"
        " (SELECT 1 FROM client_message_dedupe AS d WHERE d.broker_message_id = h.broker_message_id)",
    ),
    "history_without_body": Check(
        "a message is in the history, and its body is gone",
        "SELECT h.mesh_id, h.broker_message_id FROM message_history AS h WHERE NOT EXISTS"
        " (SELECT 1 FROM message AS m WHERE m.broker_message_id = h.broker_message_id)",
    ),
    "body_without_history": Check(
        "a body is there, and the history does not know its message",
        "SELECT m.mesh_id, m.broker_message_id FROM message AS m WHERE NOT EXISTS"
        " (SELECT 1 FROM message_history AS h WHERE h.broker_message_id = m.broker_message_id"
        " AND h.mesh_id = m.mesh_id)",
    ),
    "body_size_wrong": Check(
        "a body is longer or shorter than it was when it was accepted",
        "SELECT h.mesh_id, h.broker_message_id FROM message_history AS h JOIN message AS m"
        " ON m.broker_message_id = h.broker_message_id WHERE octet_length(m.body) <> h.body_bytes",
    ),
    "pruned_but_there": Check(
        "an id says that its message was removed, and it is still here",
        "SELECT d.mesh_id, d.broker_message_id FROM client_message_dedupe AS d WHERE d.history_available = 0"
        " AND EXISTS (SELECT 1 FROM message AS m WHERE m.broker_message_id = d.broker_message_id)",
    ),
    "deliveries_missing": Check(
        "a message has fewer or more deliveries than it was accepted with",
        "SELECT h.mesh_id, h.broker_message_id FROM message_history AS h WHERE h.recipients <>"
        " (SELECT count(*) FROM delivery_queue AS d WHERE d.broker_message_id = h.broker_message_id)",
    ),
    "delivery_without_message": Check(
        "a delivery is of a message that is not there",
        "SELECT d.mesh_id, d.broker_message_id FROM delivery_queue AS d WHERE NOT EXISTS"
        " (SELECT 1 FROM message_history AS h WHERE h.broker_message_id = d.broker_message_id"
        " AND h.mesh_id = d.mesh_id)",
    ),
    "delivery_to_stranger": Check(
        "a delivery is for somebody who is no member of its mesh and never was",
        "SELECT d.mesh_id, d.broker_message_id FROM delivery_queue AS d WHERE NOT EXISTS"
        " (SELECT 1 FROM member AS m WHERE m.member_id = d.recipient_id AND m.mesh_id = d.mesh_id)",
    ),
    "mention_without_message": Check(
        "a mention is of a message that is not there, or not in the mesh of whom it mentions",
        "SELECT coalesce(m.mesh_id, ''), x.broker_message_id FROM mention_index AS x LEFT JOIN member AS m"
        " ON m.member_id = x.mentioned_id WHERE NOT EXISTS (SELECT 1 FROM message_history AS h"
        " WHERE h.broker_message_id = x.broker_message_id AND h.mesh_id = m.mesh_id)",
    ),
    "mention_differs": Check(
        "a delivery says that its recipient is mentioned and the index does not, or the other way round",
        "SELECT d.mesh_id, d.broker_message_id FROM delivery_queue AS d LEFT JOIN mention_index AS x"
        " ON x.broker_message_id = d.broker_message_id AND x.mentioned_id = d.recipient_id"
        " WHERE (d.mentioned = 1) <> (x.mentioned_id IS NOT NULL)",
    ),
    "stored_bytes_wrong": Check(
        "a mesh does not hold as many bytes as it counts",
        "SELECT x.mesh_id, x.slug FROM mesh AS x WHERE x.stored_bytes <>"
        " (SELECT coalesce(sum(h.body_bytes), 0) FROM message_history AS h WHERE h.mesh_id = x.mesh_id)",
    ),
}
"""The checks by the names of their findings."""
