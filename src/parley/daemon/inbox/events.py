"""The log of what the daemon saw, which its readers resume from a cursor: the number of the last event they had."""

from typing import Any, Final, Literal

import apsw
import msgspec

from parley.core import untrusted_json
from parley.daemon.held import ROWS_AT_ONCE

EventKind = Literal[
    "message",
    "decrypt_failed",
    "message_opened",
    "message_refused",
    "outbox_done",
    "outbox_dead",
    "peer_join",
    "peer_leave",
    "broker_status",
    "roster_status",
    "outbox_pressure_high",
    "inbox_pressure_high",
    "disk_low",
    "disk_freed",
    "inbox_corruption_recovered",
    "feature_negotiation_failed",
    "hook_executed",
    "system",
]

_APPEND: Final = "INSERT INTO event (at, kind, mesh_id, inbox_seq, data) VALUES (?, ?, ?, ?, ?) RETURNING event_id"
_AFTER: Final = (
    "SELECT event_id, at, kind, mesh_id, inbox_seq, data FROM event WHERE event_id > ? ORDER BY event_id LIMIT ?"
)
_NEWEST: Final = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'event'), 0)"
_OLDEST: Final = "SELECT min(event_id) FROM event"
_PRUNE: Final = (  # the log is in the order of time, so only its beginning is looked at
    "DELETE FROM event WHERE event_id IN (SELECT event_id FROM (SELECT event_id, at FROM event ORDER BY event_id"
    " LIMIT ?2) WHERE at < ?1)"
)


class DaemonEvent(msgspec.Struct, frozen=True):
    """One entry of the log."""

    event_id: int
    at: int
    kind: EventKind
    mesh_id: str | None
    inbox_seq: int | None
    data: dict[str, Any]


def append_event(
    db: apsw.Connection,
    kind: EventKind,
    data: dict[str, Any],
    *,
    now_ms: int,
    mesh_id: str | None = None,
    inbox_seq: int | None = None,
) -> DaemonEvent:
    """The one door to the log."""
    text = msgspec.json.encode(data).decode()
    rows = db.execute(_APPEND, (now_ms, kind, mesh_id, inbox_seq, text)).fetchall()
    return DaemonEvent(int(str(rows[0][0])), now_ms, kind, mesh_id, inbox_seq, data)


def events_after(db: apsw.Connection, cursor: int, limit: int) -> list[DaemonEvent]:
    """Events after the cursor, in order."""
    rows: list[Any] = db.execute(_AFTER, (cursor, limit)).fetchall()
    return [_event(row) for row in rows]


def newest_event(db: apsw.Connection) -> int:
    """The number of the newest event there ever was; 0 before the first."""
    return int(str(db.execute(_NEWEST).fetchall()[0][0]))


def oldest_event(db: apsw.Connection) -> int | None:
    """The number of the oldest event that is still there."""
    value = db.execute(_OLDEST).fetchall()[0][0]
    return None if value is None else int(str(value))


def prune_events(db: apsw.Connection, *, before_ms: int, limit: int = ROWS_AT_ONCE) -> int:
    """Forgets events from before the time, up to so many. How many."""
    db.execute(_PRUNE, (before_ms, limit))
    return db.changes()


def _event(row: tuple[Any, ...]) -> DaemonEvent:
    try:
        data = untrusted_json.decode(row[5], dict[str, Any])
    except msgspec.DecodeError:
        data = {"unreadable": True}  # a notice that a broker nested too deep, from before that was looked at
    values: tuple[Any, ...] = (*row[:5], data)
    return DaemonEvent(*values)
