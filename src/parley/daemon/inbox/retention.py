"""Forgetting what arrived long ago, and what a person throws away.

That it was there is remembered for a year: a broker that delivers it again, by bad luck or ill will, brings no news.
"""

from typing import Final

import apsw

from parley.core.daemon_errors import RowNotFound

REMEMBERED_MS: Final = 366 * 86_400_000
_PRUNE: Final = "DELETE FROM inbox WHERE received_at < ?"
_PRUNE_FORGOTTEN: Final = "DELETE FROM forgotten WHERE received_at < ?"
_REMOVE: Final = "DELETE FROM inbox WHERE id = ?"
_FLUSH: Final = "DELETE FROM inbox WHERE (?1 IS NULL OR mesh_id = ?1) AND (?2 IS NULL OR received_at < ?2)"


def prune_inbox(db: apsw.Connection, *, before_ms: int, now_ms: int) -> int:
    """Forgets messages that arrived before the time. How many."""
    db.execute(_PRUNE, (before_ms,))
    forgotten = db.changes()
    db.execute(_PRUNE_FORGOTTEN, (min(before_ms, now_ms - REMEMBERED_MS),))
    return forgotten


def remove(db: apsw.Connection, row_id: str) -> None:
    """Throws one message away. Raises ``RowNotFound``."""
    db.execute(_REMOVE, (row_id,))
    if db.changes() == 0:
        raise RowNotFound(f"No such message in the inbox: {row_id}", id=row_id)


def flush(db: apsw.Connection, *, mesh_id: str | None, before_ms: int | None) -> int:
    """Throws away what arrived in a mesh, before a time, or altogether. How many."""
    db.execute(_FLUSH, (mesh_id, before_ms))
    return db.changes()
