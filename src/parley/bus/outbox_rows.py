"""The counter and the outbox as rules over a transaction."""

from typing import Final, NamedTuple

import apsw

from parley.bus.admission import check_end, check_room, latest_expiry, latest_wait, note_of
from parley.bus.mesh_store import Bounds, ExpiredItem, Held, NewOutboxItem, OutboxItem
from parley.bus.rows import changed, row, rows
from parley.core.bus_errors import MessageIdReused
from parley.core.limits import BUS_EXPIRED_KEPT, BUS_SEQUENCE_BLOCK, BUS_SEQUENCE_MAX

_UPCOMING: Final = "SELECT upcoming FROM counter"
_RESERVE: Final = "UPDATE counter SET upcoming = ?"
_COLUMNS: Final = (
    "id, peer, message_id, payload, digest, attempts, created_at, not_before, expires_at, wedged, last_error"
)
_BY_MESSAGE_ID: Final = "SELECT id, peer, digest FROM outbox WHERE message_id = ?"
_HELD: Final = "SELECT outbox_items, outbox_bytes FROM held"
_HELD_FOR: Final = "SELECT outbox_items FROM peer WHERE fingerprint = ?"
_PUT: Final = (
    "INSERT INTO outbox (peer, message_id, payload, digest, created_at, not_before, expires_at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_LIVE: Final = "wedged IS NULL AND expires_at > ?1"
_DUE: Final = (
    f"WITH waiting AS (SELECT peer, min(id) AS first FROM outbox WHERE {_LIVE} AND not_before > ?1 GROUP BY peer)"
    f" SELECT {_COLUMNS} FROM outbox LEFT JOIN waiting USING (peer)"
    f" WHERE {_LIVE} AND not_before <= ?1 AND (first IS NULL OR id < first) AND (?2 IS NULL OR peer = ?2)"
    " ORDER BY id LIMIT ?3"
)
_NEXT: Final = (
    f"SELECT min(at) FROM (SELECT not_before AS at FROM outbox WHERE id IN"
    f" (SELECT min(id) FROM outbox WHERE {_LIVE} GROUP BY peer)"
    " UNION ALL SELECT min(expires_at) FROM outbox)"
)
_PAGE: Final = f"SELECT {_COLUMNS} FROM outbox WHERE id > ? ORDER BY id LIMIT ?"
_REMOVE: Final = "DELETE FROM outbox WHERE id = ?"
_RESCHEDULE: Final = "UPDATE outbox SET attempts = attempts + 1, not_before = ?, last_error = ? WHERE id = ?"
_HASTEN: Final = "UPDATE outbox SET not_before = ?2 WHERE peer = ?1 AND not_before > ?2"
_WEDGE: Final = "UPDATE outbox SET attempts = attempts + 1, wedged = ? WHERE id = ? AND wedged IS NULL"
_UNWEDGE: Final = "UPDATE outbox SET wedged = NULL, not_before = ? WHERE id = ? AND wedged IS NOT NULL"
_EXPIRED: Final = f"SELECT {_COLUMNS} FROM outbox WHERE expires_at <= ? ORDER BY id"
_NOTE: Final = (
    "INSERT INTO expired (id, peer, message_id, attempts, created_at, expired_at, why) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_FORGET_NOTES: Final = "DELETE FROM expired WHERE number <= (SELECT max(number) FROM expired) - ?"
_NOTES: Final = (
    "SELECT id, peer, message_id, attempts, created_at, expired_at, why FROM expired ORDER BY number DESC LIMIT ?"
)
_NEARER_WAIT: Final = "UPDATE outbox SET not_before = ?1 WHERE not_before > ?1"
_NEARER_EXPIRY: Final = "UPDATE outbox SET expires_at = ?1 WHERE expires_at > ?1"


class Block(NamedTuple):
    """Sequences that may be used: from the first up to, and without, the end."""

    first: int
    end: int


def reserve(db: apsw.Connection, floor: int = 0) -> Block:
    """The next block, which begins at ``floor`` at least. Raises ``SequenceRefused`` when there is none."""
    ((upcoming,),) = rows(db, _UPCOMING)
    first = max(upcoming, floor)
    check_end(first)
    end = min(first + BUS_SEQUENCE_BLOCK, BUS_SEQUENCE_MAX)
    db.execute(_RESERVE, (end,))
    return Block(first, end)


def enqueue(db: apsw.Connection, item: NewOutboxItem, now: int, bounds: Bounds) -> int:
    """As ``MeshStore.enqueue_outbox``."""
    known = row(db, _BY_MESSAGE_ID, item.message_id)
    if known is not None:
        outbox_id, peer, digest = known
        if (peer, digest) != (item.peer, item.digest):
            raise MessageIdReused("The outbox holds another message under this id", outbox_id=outbox_id)
        return outbox_id
    ((items, size),) = rows(db, _HELD)
    (items_of_peer,) = row(db, _HELD_FOR, item.peer) or (0,)
    check_room(bounds, Held(items, size, items_of_peer), len(item.payload))
    not_before = min(item.not_before, latest_wait(now))
    db.execute(_PUT, (item.peer, item.message_id, item.payload, item.digest, now, not_before, item.expires_at))
    return db.last_insert_rowid()


def due(db: apsw.Connection, now: int, limit: int, peer: bytes | None) -> list[OutboxItem]:
    """As ``MeshStore.due_outbox``."""
    _draw_nearer(db, now)
    return _items(db, _DUE, now, peer, limit)


def next_due_at(db: apsw.Connection, now: int) -> int | None:
    """As ``MeshStore.next_due_at``."""
    _draw_nearer(db, now)
    ((at,),) = rows(db, _NEXT, now)
    return at


def page(db: apsw.Connection, after: int, limit: int) -> list[OutboxItem]:
    """As ``MeshStore.list_outbox``."""
    return _items(db, _PAGE, after, limit)


def remove(db: apsw.Connection, outbox_id: int) -> bool:
    """As ``MeshStore.remove_outbox``."""
    return changed(db, _REMOVE, outbox_id)


def reschedule(db: apsw.Connection, outbox_id: int, now: int, not_before: int, error: str) -> bool:
    """As ``MeshStore.reschedule_outbox``."""
    return changed(db, _RESCHEDULE, min(not_before, latest_wait(now)), error, outbox_id)


def hasten(db: apsw.Connection, peer: bytes, now: int) -> bool:
    """As ``MeshStore.hasten_outbox``."""
    return changed(db, _HASTEN, peer, now)


def wedge(db: apsw.Connection, outbox_id: int, reason: str) -> bool:
    """As ``MeshStore.wedge_outbox``."""
    return changed(db, _WEDGE, reason, outbox_id)


def unwedge(db: apsw.Connection, outbox_id: int, now: int) -> bool:
    """As ``MeshStore.unwedge_outbox``."""
    return changed(db, _UNWEDGE, now, outbox_id)


def expire(db: apsw.Connection, now: int) -> list[OutboxItem]:
    """As ``MeshStore.expire_outbox``."""
    _draw_nearer(db, now)
    expired = _items(db, _EXPIRED, now)
    for item in expired:
        db.execute(_NOTE, note_of(item, now))
        db.execute(_REMOVE, (item.id,))
    if expired:
        db.execute(_FORGET_NOTES, (BUS_EXPIRED_KEPT,))
    return expired


def notes(db: apsw.Connection, limit: int) -> list[ExpiredItem]:
    """As ``MeshStore.expired_outbox``."""
    return [ExpiredItem(*values) for values in rows(db, _NOTES, limit)]


def _draw_nearer(db: apsw.Connection, now: int) -> None:
    """What was written under a later clock waits and lives no longer than what is written now."""
    db.execute(_NEARER_WAIT, (latest_wait(now),))
    db.execute(_NEARER_EXPIRY, (latest_expiry(now),))


def _items(db: apsw.Connection, statement: str, *values: bytes | int | None) -> list[OutboxItem]:
    return [OutboxItem(*each) for each in rows(db, statement, *values)]
