"""One effect per idempotency key.

The key is kept beside the write it belongs to, in the same transaction. A second request with the key is the same
request iff its fingerprint is equal; it then gets the first one's result again. Any other request with that key is
refused: it is a mistake that would otherwise lose a write in silence.
"""

from typing import NamedTuple

from parley.core.errors import IdempotencyKeyReused
from parley.core.fingerprint import fingerprint_prefix
from parley.hub.transaction import Tx


class Once(NamedTuple):
    """The key of a request and what the request says."""

    key: str
    fingerprint: bytes


class Earlier(NamedTuple):
    """What the first request with this key did."""

    entity_id: str
    event_id: int | None
    move_id: int | None


def earlier(tx: Tx, once: Once | None) -> Earlier | None:
    """The first request with this key, or None. Raises ``IdempotencyKeyReused`` if it was a different request."""
    if once is None:
        return None
    row = tx.db.execute(
        "SELECT fingerprint, entity_id, event_id, move_id FROM idempotency_keys WHERE key = ?", (once.key,)
    ).fetchone()
    if row is None:
        return None
    fingerprint, entity_id, event_id, move_id = row
    if fingerprint != once.fingerprint:
        raise IdempotencyKeyReused(
            "This idempotency key belongs to a different request", fingerprint_prefix=fingerprint_prefix(fingerprint)
        )
    return Earlier(entity_id, event_id, move_id)


def remember(
    tx: Tx, once: Once | None, operation: str, entity_id: str, event_id: int | None, move_id: int | None = None
) -> None:
    """Keeps what this request did, if it carries a key."""
    if once is not None:
        tx.db.execute(
            "INSERT INTO idempotency_keys (key, fingerprint, operation, entity_id, event_id, move_id, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (once.key, once.fingerprint, operation, entity_id, event_id, move_id, tx.ts),
        )


def forget_before(tx: Tx, ts: str, limit: int) -> int:
    """Drops up to ``limit`` keys older than ``ts`` and returns how many there were."""
    tx.db.execute(
        "DELETE FROM idempotency_keys WHERE key IN"
        " (SELECT key FROM idempotency_keys WHERE created_at < ? ORDER BY created_at LIMIT ?)",
        (ts, limit),
    )
    return tx.db.changes()
