"""Forgetting what old messages said, but not that they were sent.

The bytes of a row that is done or retired can go; its id, its fingerprint and what became of it stay, since an id is
never released.
"""

from typing import Final

import apsw

from parley.daemon.held import ROWS_AT_ONCE

_PRUNE: Final = (
    "UPDATE outbox SET payload = x'', sealed = x'', meta = '{}', pruned_at = ?1"
    " WHERE seq IN (SELECT seq FROM outbox INDEXED BY outbox_unpruned"
    " WHERE status IN ('done', 'aborted') AND pruned_at IS NULL"
    " AND coalesce(delivered_at, aborted_at) < ?2 LIMIT ?3) RETURNING seq"
)


def prune(db: apsw.Connection, *, before_ms: int, now_ms: int, limit: int = ROWS_AT_ONCE) -> int:
    """Empties rows that were done or retired before the time, up to so many. How many."""
    return len(db.execute(_PRUNE, (now_ms, before_ms, limit)).fetchall())
