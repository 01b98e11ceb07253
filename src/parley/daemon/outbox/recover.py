"""What a start does about rows that were in flight when the process ended.

Nobody knows whether the broker has them. They are sent again; the broker recognises those that it has.
"""

from typing import Final

import apsw

BACKOFF_MS_MIN: Final = 500
_RECOVER: Final = (
    "UPDATE outbox SET status = 'pending', attempts = attempts + 1, next_attempt_at = ?,"
    " last_error = 'the daemon ended before the broker answered' WHERE status = 'inflight'"
)


def recover(db: apsw.Connection, *, now_ms: int) -> int:
    """Sets rows in flight back to pending, due shortly. How many there were."""
    db.execute(_RECOVER, (now_ms + BACKOFF_MS_MIN,))
    return db.changes()
