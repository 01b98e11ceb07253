"""What an operator may do to a row: send its message anew under another id, or give it up.

The old row is retired and never deleted, and its id never comes free. The new row takes over everything: a private
message stays private, and goes where the old one went.
"""

from typing import Final

import apsw

from parley.core.daemon_errors import OutboxConflict
from parley.daemon.outbox.accept import Message, Sealed, insert
from parley.daemon.outbox.rows import OutboxRow, by_client_id, by_id

_ABORT: Final = "UPDATE outbox SET status = 'aborted', aborted_at = ?, aborted_by = ?, superseded_by = ? WHERE id = ?"


def requeue(
    db: apsw.Connection,
    row_id: str,
    message: Message,
    fingerprint: bytes,
    sealed: Sealed,
    *,
    new_id: str,
    by: str,
    force: bool,
    now_ms: int,
) -> OutboxRow:
    """Retires the row and writes its successor, in the caller's one transaction.

    Raises ``NotFound``, and ``OutboxConflict`` for a row that must not be sent again or a new id that is taken. A row
    in flight needs ``force``: its old id may still arrive, and then both do.
    """
    _may_retire(by_id(db, row_id), force)
    taken = by_client_id(db, message.client_message_id)
    if taken is not None:
        raise OutboxConflict(
            "The new id is taken already", reason="client_message_id_taken", client_message_id=message.client_message_id
        )
    db.execute(_ABORT, (now_ms, by, new_id, row_id))
    insert(db, message, fingerprint, sealed, row_id=new_id, now_ms=now_ms)
    return by_id(db, new_id)


def drop(db: apsw.Connection, row_id: str, *, by: str, force: bool, now_ms: int) -> OutboxRow:
    """Gives the message up: it is not sent, and its id stays bound. Raises as ``requeue`` does."""
    _may_retire(by_id(db, row_id), force)
    db.execute(_ABORT, (now_ms, by, None, row_id))
    return by_id(db, row_id)


def _may_retire(row: OutboxRow, force: bool) -> None:
    if row.status in ("done", "aborted"):
        raise OutboxConflict(f"The row is {row.status}", reason=row.status, id=row.id)
    if row.status == "inflight" and not force:
        raise OutboxConflict("The row is in flight and may still arrive", reason="inflight", id=row.id)
