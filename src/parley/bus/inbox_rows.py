"""Admission and dispatch as rules over a transaction: what the store of a file does where another has a dictionary."""

from collections.abc import Sequence
from typing import Any, Final

import apsw

from parley.bus.admission import Facts, judge
from parley.bus.chain import CallLimit
from parley.bus.mesh_store import Admission, Bounds, Held, Undispatched
from parley.bus.rows import changed, row, rows
from parley.core.limits import BUS_DISPATCHES_MAX, BUS_MESSAGE_ID_MS, BUS_NONCES_KEPT

_OUTDATED_AT_ONCE: Final = 2
"""Twice what one admission adds, so that ids that are too old come to an end."""
_KNOWN_NONCE: Final = "SELECT 1 FROM nonce WHERE nonce = ?"
_PEER: Final = "SELECT mark, inbox_items FROM peer WHERE fingerprint = ?"
_SEEN_AT: Final = "SELECT seen_at FROM message_id WHERE peer = ? AND message_id = ?"
_CALLS: Final = "SELECT calls FROM calls WHERE certificate = ?"
_HELD: Final = "SELECT inbox_items, inbox_bytes FROM held"
_PUT_NONCE: Final = "INSERT INTO nonce (nonce) VALUES (?)"
_EVICT_NONCES: Final = "DELETE FROM nonce WHERE id <= ?"
_PUT_MARK: Final = (
    "INSERT INTO peer (fingerprint, mark) VALUES (?, ?)"
    " ON CONFLICT (fingerprint) DO UPDATE SET mark = excluded.mark WHERE excluded.mark > mark"
)
_PUT_MESSAGE_ID: Final = (
    "INSERT INTO message_id VALUES (?, ?, ?) ON CONFLICT (peer, message_id) DO UPDATE SET seen_at = excluded.seen_at"
)
_PRUNE_MESSAGE_IDS: Final = (
    "DELETE FROM message_id WHERE (peer, message_id) IN"
    " (SELECT peer, message_id FROM message_id WHERE seen_at <= ? ORDER BY seen_at LIMIT ?)"
)
_COUNT_CALL: Final = "INSERT INTO calls VALUES (?, 1) ON CONFLICT (certificate) DO UPDATE SET calls = calls + 1"
_PUT: Final = "INSERT INTO inbox (peer, message_id, payload, admitted_at, dispatches) VALUES (?, ?, ?, ?, ?)"
_COLUMNS: Final = "id, peer, message_id, payload, admitted_at, dispatches, wedged"
_GET: Final = f"SELECT {_COLUMNS} FROM inbox WHERE id = ?"
_PAGE: Final = f"SELECT {_COLUMNS} FROM inbox WHERE id > ? ORDER BY id LIMIT ?"
_TAKE: Final = "DELETE FROM inbox WHERE id = ?"
_WEDGE: Final = "UPDATE inbox SET wedged = 1 WHERE id = ?"
_COUNT_DISPATCH: Final = "UPDATE inbox SET dispatches = dispatches + 1 WHERE id = ?"
_UNWEDGE: Final = "UPDATE inbox SET wedged = 0, dispatches = 0 WHERE id = ? AND wedged"


def admit(
    db: apsw.Connection,
    peer: bytes,
    nonce: bytes,
    sequence: int,
    message_id: bytes,
    payload: bytes,
    *,
    now: int,
    call_limits: Sequence[CallLimit],
    dispatching: bool,
    kept: bool,
    bounds: Bounds,
) -> Admission:
    """As ``MeshStore.admit``."""
    facts = _facts(db, peer, nonce, message_id, call_limits)
    verdict = judge(facts, sequence, len(payload) if kept else None, call_limits, bounds, now)
    if verdict in ("accepted", "duplicate", "bad_sequence"):
        db.execute(_PUT_NONCE, (nonce,))
        db.execute(_EVICT_NONCES, (db.last_insert_rowid() - BUS_NONCES_KEPT,))
    if verdict == "bad_sequence":
        return Admission(verdict, expected=facts.mark + 1)
    if verdict in ("accepted", "duplicate"):
        db.execute(_PUT_MARK, (peer, sequence))
    if verdict != "accepted":
        return Admission(verdict)
    db.execute(_PUT_MESSAGE_ID, (peer, message_id, now))
    db.execute(_PRUNE_MESSAGE_IDS, (now - BUS_MESSAGE_ID_MS, _OUTDATED_AT_ONCE))
    for limit in call_limits:
        db.execute(_COUNT_CALL, (limit.certificate,))
    if not kept:
        return Admission(verdict)
    db.execute(_PUT, (peer, message_id, payload, now, int(dispatching)))
    return Admission(verdict, db.last_insert_rowid())


def last_seq(db: apsw.Connection, peer: bytes) -> int | None:
    """As ``MeshStore.last_seq``. A peer that something is only kept for has no mark."""
    known = row(db, _PEER, peer)
    return None if known is None or known[0] == 0 else known[0]


def nonce_seen(db: apsw.Connection, nonce: bytes) -> bool:
    """As ``MeshStore.nonce_seen``."""
    return row(db, _KNOWN_NONCE, nonce) is not None


def undispatched(db: apsw.Connection, after: int, limit: int) -> list[Undispatched]:
    """As ``MeshStore.undispatched``."""
    return [_message(values) for values in rows(db, _PAGE, after, limit)]


def start_dispatch(db: apsw.Connection, inbox_id: int) -> Undispatched | None:
    """As ``MeshStore.start_dispatch``."""
    values = row(db, _GET, inbox_id)
    if values is None:
        return None
    message = _message(values)
    if message.wedged:
        return message
    if message.dispatches >= BUS_DISPATCHES_MAX:
        db.execute(_WEDGE, (inbox_id,))
        return message._replace(wedged=True)
    db.execute(_COUNT_DISPATCH, (inbox_id,))
    return message._replace(dispatches=message.dispatches + 1)


def dispatched(db: apsw.Connection, inbox_id: int) -> bool:
    """As ``MeshStore.dispatched``."""
    return changed(db, _TAKE, inbox_id)


def unwedge(db: apsw.Connection, inbox_id: int) -> bool:
    """As ``MeshStore.unwedge_undispatched``."""
    return changed(db, _UNWEDGE, inbox_id)


def _facts(
    db: apsw.Connection, peer: bytes, nonce: bytes, message_id: bytes, call_limits: Sequence[CallLimit]
) -> Facts:
    mark, items_of_peer = row(db, _PEER, peer) or (0, 0)
    seen = row(db, _SEEN_AT, peer, message_id)
    counted = [row(db, _CALLS, limit.certificate) for limit in call_limits]
    ((items, size),) = rows(db, _HELD)
    return Facts(
        nonce_is_known=nonce_seen(db, nonce),
        mark=mark,
        seen_at=None if seen is None else seen[0],
        calls=[0 if each is None else each[0] for each in counted],
        held=Held(items, size, items_of_peer),
    )


def _message(values: tuple[Any, ...]) -> Undispatched:
    *most, wedged = values
    return Undispatched(*most, wedged=bool(wedged))
