"""Forgetting what arrived long ago, and what a person throws away.

A message that arrives again after it was forgotten would be new. Brokers repeat a delivery only until it is
acknowledged, which was before anything here could be old.
"""

from typing import Final

import apsw

from parley.core.daemon_errors import RowNotFound

_PRUNE: Final = "DELETE FROM inbox WHERE received_at < ?"
_REMOVE: Final = "DELETE FROM inbox WHERE id = ?"
_FLUSH: Final = "DELETE FROM inbox WHERE (?1 IS NULL OR mesh_id = ?1) AND (?2 IS NULL OR received_at < ?2)"


def prune_inbox(db: apsw.Connection, *, before_ms: int) -> int:
    """Forgets messages that arrived before the time. How many."""
    db.execute(_PRUNE, (before_ms,))
    return db.changes()


def remove(db: apsw.Connection, row_id: str) -> None:
    """Throws one message away. Raises ``RowNotFound``."""
    db.execute(_REMOVE, (row_id,))
    if db.changes() == 0:
        raise RowNotFound(f"No such message in the inbox: {row_id}", id=row_id)


def flush(db: apsw.Connection, *, mesh_id: str | None, before_ms: int | None) -> int:
    """Throws away what arrived in a mesh, before a time, or altogether. How many."""
    db.execute(_FLUSH, (mesh_id, before_ms))
    return db.changes()
