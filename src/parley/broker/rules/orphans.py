"""The orphan check: whether the tables still say of every message the same thing.

Each finding is one that no crash and no sweep can cause, only a broken disk, a foreign hand or a bug of ours.
"""

from typing import Final, NamedTuple

from parley.broker.tx import Tx

_SHOWN_MAX: Final = 20


class Check(NamedTuple):
    """What a finding means, and the query that finds it."""

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
    "stored_bytes_wrong": Check(
        "a mesh does not hold as many bytes as it counts",
        "SELECT x.mesh_id, x.slug FROM mesh AS x WHERE x.stored_bytes <>"
        " (SELECT coalesce(sum(h.body_bytes), 0) FROM message_history AS h WHERE h.mesh_id = x.mesh_id)",
    ),
}
"""The checks by the names of their findings."""


class Finding(NamedTuple):
    """What one check found: how many times, and the first few."""

    check: str
    meaning: str
    times: int
    examples: tuple[tuple[str, str], ...]


def find_orphans(tx: Tx) -> list[Finding]:
    """All findings, of the checks that found something."""
    findings: list[Finding] = []
    for name, check in CHECKS.items():
        rows = tx.all(check.sql)
        if rows:
            shown = tuple((str(mesh), str(message)) for mesh, message in rows[:_SHOWN_MAX])
            findings.append(Finding(name, check.meaning, len(rows), shown))
    return findings
