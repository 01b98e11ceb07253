"""What the drain does to rows: take those that are due, and write down what became of each.

An answer is written down by the message's own id, whenever it comes: a row whose answer was given up on may have been
set back, taken again or declared dead meanwhile. That the broker has a message is the one fact that nothing later
changes; all else holds only for a row that is still waiting for its answer.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import apsw

from parley.daemon.outbox.accept import Sealed, with_seal
from parley.daemon.outbox.rows import COLUMNS, OutboxRow, row_of

SEAL_MS: Final = 2_000
"""When to look again whether a row can be sealed; what it waits for has it looked at sooner."""
RETRY_MS_MAX: Final = 300_000
"""No wait between two tries is longer. A row that waits longer was written before the clock was set back."""

_DUE: Final = (
    f"SELECT {COLUMNS} FROM outbox WHERE mesh_id = ?1 AND status = 'pending'"
    f" AND (next_attempt_at <= ?2 OR next_attempt_at > ?2 + {RETRY_MS_MAX}) ORDER BY seq LIMIT ?3"
)
_WAITING: Final = "FROM outbox WHERE mesh_id = ?1 AND status = 'pending'"
_NEXT: Final = f"SELECT (SELECT min(next_attempt_at) {_WAITING}), (SELECT max(next_attempt_at) {_WAITING})"
_TAKE: Final = "UPDATE outbox SET status = 'inflight', attempts = attempts + 1 WHERE seq = ?"
_DONE: Final = (
    "UPDATE outbox SET status = 'done', delivered_at = ?2, broker_message_id = ?3, history_id = ?4, last_error = NULL"
    " WHERE client_message_id = ?1 AND status IN ('pending', 'inflight', 'dead')"
)
_DONE_ABORTED: Final = (
    "UPDATE outbox SET broker_message_id = ?2, history_id = ?3 WHERE client_message_id = ?1 AND status = 'aborted'"
)
_BACK: Final = (
    "UPDATE outbox SET status = 'pending', next_attempt_at = ?2, last_error = ?3"
    " WHERE client_message_id = ?1 AND status = 'inflight'"
)
_DEAD: Final = (
    "UPDATE outbox SET status = 'dead', last_error = ?2"
    " WHERE client_message_id = ?1 AND status IN ('pending', 'inflight')"
)
_SEAL: Final = (
    "UPDATE outbox SET sender_identity = ?2, sealed = ?3, key_epoch = ?4, wire_fingerprint = ?5 WHERE seq = ?1"
)
_UNSEAL: Final = (
    "UPDATE outbox SET status = 'pending', next_attempt_at = ?2, last_error = ?3, sender_identity = '', sealed = x'',"
    " key_epoch = NULL, wire_fingerprint = zeroblob(32) WHERE client_message_id = ?1 AND status = 'inflight'"
)
_DELAY: Final = "UPDATE outbox SET next_attempt_at = ?2, last_error = ?3 WHERE seq = ?1"
_HURRY: Final = (
    "UPDATE outbox SET next_attempt_at = ?2 WHERE mesh_id = ?1 AND status = 'pending' AND sender_identity = ''"
    " AND next_attempt_at > ?2"
)
_AGE: Final = (
    "UPDATE outbox SET status = 'dead', last_error = ?3"
    " WHERE mesh_id = ?1 AND status = 'pending' AND enqueued_at < ?2 RETURNING client_message_id"
)
EXPIRED: Final = "expired: older than the broker is sure to recognise a repeated message"


class Done(NamedTuple):
    """The broker has the message."""

    client_message_id: str
    broker_message_id: str
    history_id: int


class BackOff(NamedTuple):
    """Try again later; ``at_ms`` is wall-clock time, since it outlives the process."""

    client_message_id: str
    at_ms: int
    error: str


class Dead(NamedTuple):
    """Trying again cannot help."""

    client_message_id: str
    error: str


class SealAgain(NamedTuple):
    """The broker takes nothing under this key epoch any more, and kept no trace of the id: other bytes may go."""

    client_message_id: str
    at_ms: int
    error: str


Settlement = Done | BackOff | Dead | SealAgain


class Delay(NamedTuple):
    """A row cannot be sealed yet."""

    error: str


class Hopeless(NamedTuple):
    """A row can never be sealed."""

    error: str


Seal = Callable[[OutboxRow], Sealed | Delay | Hopeless]
"""Seals a row that is to be sent for the first time."""


class Due(NamedTuple):
    """Rows that are on their way now, and when the next one is due, if one waits; and those that will never be sent,
    because they were too old or for the reason beside them."""

    rows: list[OutboxRow]
    next_ms: int | None
    expired: list[str]
    hopeless: Sequence[Dead] = ()


def take_due(
    db: apsw.Connection, mesh_id: str, *, now_ms: int, limit: int, max_age_ms: int, seal: Seal | None = None
) -> Due:
    """Marks up to ``limit`` rows as in flight, the oldest first. Rows that are too old to be sent safely die first.

    Those that were never sent are sealed here, so that their bytes are on disk before they leave.
    """
    expired = [str(row[0]) for row in db.execute(_AGE, (mesh_id, now_ms - max_age_ms, EXPIRED)).fetchall()]
    rows: list[OutboxRow] = []
    hopeless: list[Dead] = []
    for values in db.execute(_DUE, (mesh_id, now_ms, limit)).fetchall():
        row = row_of(values)
        if seal is not None and not row.sender_identity:
            made = seal(row)
            if isinstance(made, Delay):
                db.execute(_DELAY, (row.seq, now_ms + SEAL_MS, made.error))
                continue
            if isinstance(made, Hopeless):
                db.execute(_DEAD, (row.client_message_id, made.error))
                hopeless.append(Dead(row.client_message_id, made.error))
                continue
            db.execute(_SEAL, (row.seq, made.sender, made.body, made.key_epoch, made.fingerprint))
            row = with_seal(row, made)
        rows.append(row)
        db.execute(_TAKE, (row.seq,))
    first, last = db.execute(_NEXT, (mesh_id,)).fetchall()[0]
    if first is None:
        return Due(rows, None, expired, hopeless)
    is_beyond_the_clock = int(str(last)) > now_ms + RETRY_MS_MAX
    return Due(rows, now_ms if is_beyond_the_clock else int(str(first)), expired, hopeless)


def hurry_unsealed(db: apsw.Connection, mesh_id: str, *, now_ms: int) -> int:
    """Rows that waited to be sealed are due now. How many."""
    db.execute(_HURRY, (mesh_id, now_ms))
    return db.changes()


def settle(db: apsw.Connection, settlement: Settlement, *, now_ms: int) -> bool:
    """Writes down what became of a try. False if the row has moved on and it no longer matters."""
    if isinstance(settlement, Done):
        name, broker_id, history_id = settlement
        db.execute(_DONE, (name, now_ms, broker_id, history_id))
        if db.changes() == 0:
            db.execute(_DONE_ABORTED, (name, broker_id, history_id))
    elif isinstance(settlement, BackOff):
        db.execute(_BACK, (settlement.client_message_id, settlement.at_ms, settlement.error))
    elif isinstance(settlement, SealAgain):
        db.execute(_UNSEAL, (settlement.client_message_id, settlement.at_ms, settlement.error))
    else:
        db.execute(_DEAD, (settlement.client_message_id, settlement.error))
    return db.changes() > 0
