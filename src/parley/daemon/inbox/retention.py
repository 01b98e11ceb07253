"""Forgetting what arrived long ago, what a person throws away, and what was seen where there is no room for more.

That it was there is remembered for a year: a broker that delivers it again, by bad luck or ill will, brings no news.
Each rule forgets some rows in its transaction and is called again until nothing is left to be done.
"""

from typing import Any, Final, NamedTuple

import apsw

from parley.core.daemon_errors import RowNotFound
from parley.daemon.held import ROWS_AT_ONCE, held_bytes

ROW_BYTES: Final = 1024
"""What a message takes besides what it says, as the triggers count it."""
REMEMBERED_MS: Final = 366 * 86_400_000
_KEY: Final = "mesh_id, sender_id, recipient_id, client_message_id"
_PRUNE: Final = "DELETE FROM inbox WHERE seq IN (SELECT seq FROM inbox WHERE received_at < ? LIMIT ?)"
_PRUNE_FORGOTTEN: Final = (
    f"DELETE FROM forgotten WHERE ({_KEY}) IN (SELECT {_KEY} FROM forgotten WHERE received_at < ? LIMIT ?)"
)
_REMOVE: Final = "DELETE FROM inbox WHERE id = ?"
_FLUSH: Final = (
    "DELETE FROM inbox WHERE seq IN (SELECT seq FROM inbox WHERE seq > ?3 AND (?1 IS NULL OR mesh_id = ?1)"
    " AND (?2 IS NULL OR received_at < ?2) ORDER BY seq LIMIT ?4) RETURNING seq"
)
_OLDEST_SEEN: Final = (
    f"SELECT seq, octet_length(coalesce(body, sealed)) + octet_length(meta) + {ROW_BYTES} FROM inbox"
    " WHERE seq > ? AND seen_at IS NOT NULL ORDER BY seq LIMIT ?"
)
_FORGET: Final = "DELETE FROM inbox WHERE seq = ?"


class Forgotten(NamedTuple):
    """How many messages were forgotten, and after which one to go on; None when nothing is left to be done."""

    number: int
    after_seq: int | None


def prune_inbox(db: apsw.Connection, *, before_ms: int, limit: int = ROWS_AT_ONCE) -> int:
    """Forgets messages that arrived before the time, up to so many. How many."""
    db.execute(_PRUNE, (before_ms, limit))
    return db.changes()


def prune_forgotten(db: apsw.Connection, *, before_ms: int, now_ms: int, limit: int = ROWS_AT_ONCE) -> int:
    """Forgets for good what was forgotten a year ago and longer, up to so many. How many."""
    db.execute(_PRUNE_FORGOTTEN, (min(before_ms, now_ms - REMEMBERED_MS), limit))
    return db.changes()


def make_room(db: apsw.Connection, *, bytes_max: int, after_seq: int = 0, limit: int = ROWS_AT_ONCE) -> Forgotten:
    """Forgets the oldest messages that somebody has seen, as long as the inbox holds more than this."""
    excess = held_bytes(db) - bytes_max
    rows: list[Any] = db.execute(_OLDEST_SEEN, (after_seq, limit)).fetchall() if excess > 0 else []
    forgotten = 0
    for seq, size in rows:
        if excess <= 0:
            break
        db.execute(_FORGET, (seq,))
        excess -= size
        forgotten += 1
    more = excess > 0 and len(rows) == limit
    return Forgotten(forgotten, int(rows[-1][0]) if more else None)


def remove(db: apsw.Connection, row_id: str) -> None:
    """Throws one message away. Raises ``RowNotFound``."""
    db.execute(_REMOVE, (row_id,))
    if db.changes() == 0:
        raise RowNotFound(f"No such message in the inbox: {row_id}", id=row_id)


def flush(
    db: apsw.Connection,
    *,
    mesh_id: str | None,
    before_ms: int | None,
    after_seq: int = 0,
    limit: int = ROWS_AT_ONCE,
) -> Forgotten:
    """Throws away what arrived in a mesh, before a time, or altogether, up to so many."""
    seqs: list[Any] = [seq for (seq,) in db.execute(_FLUSH, (mesh_id, before_ms, after_seq, limit)).fetchall()]
    return Forgotten(len(seqs), max(seqs) if len(seqs) == limit else None)
