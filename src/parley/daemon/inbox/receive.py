"""Storing what a broker delivers.

A delivery is acknowledged when it is on disk, whether it is new, known already or cannot be read. A message is known by
its mesh, sender, recipient and the sender's id for it: the same id of another sender is another message. It stays known
when it is thrown away. What cannot be opened keeps its sealed bytes, and is tried again when a key arrives.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from parley.core.daemon_errors import InsufficientStorage
from parley.daemon.inbox.events import DaemonEvent, append_event
from parley.daemon.inbox.renewal import was_lost
from parley.wire.broker import CarriedMessage, DeliveryStatus, Push

REOPENED_MAX: Final = 64
"""Messages that are tried again in one transaction, so that no other write waits long for its turn."""
REOPENED_BYTES_MAX: Final = 256 * 1024
"""The same in bytes: what can be read is also indexed for the search, which takes longer than to open it."""
_INSERT: Final = (
    "INSERT INTO inbox (id, mesh_id, client_message_id, broker_message_id, history_id, sender_id, sender_pubkey,"
    " sender_name, recipient_id, destination_kind, destination_ref, priority, reply_to_id, mentioned, body, meta,"
    " sealed, key_epoch, accepted_at, received_at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (mesh_id, sender_id, recipient_id, client_message_id) DO NOTHING RETURNING seq"
)
_KEY: Final = "mesh_id = ?1 AND sender_id = ?2 AND recipient_id = ?3 AND client_message_id = ?4"
_KNOWN: Final = (
    f"SELECT sealed IS NOT NULL FROM inbox WHERE {_KEY} UNION ALL SELECT 0 FROM forgotten WHERE {_KEY} LIMIT 1"
)
_STATUS: Final = f"SELECT ({_KNOWN}), bytes FROM held"
_NEXT_SEALED: Final = (
    "SELECT seq, octet_length(sealed) FROM inbox WHERE mesh_id = ? AND seq > ? AND sealed IS NOT NULL"
    " ORDER BY seq LIMIT ?"
)
_SEALED: Final = (
    "SELECT sender_name, sender_pubkey, destination_kind, destination_ref, coalesce(reply_to_id, ''),"
    " key_epoch, sealed FROM inbox WHERE seq = ?"
)
_OPEN: Final = "UPDATE inbox SET body = ?, meta = ?, sealed = NULL WHERE seq = ?"


class Opened(NamedTuple):
    """What a sealed body says."""

    body: str
    meta: dict[str, Any]


class SealedMessage(NamedTuple):
    """What is needed to open a message."""

    sender_pubkey: str
    kind: str
    ref: str
    reply_to: str
    key_epoch: int | None
    sealed: bytes


Opener = Callable[[SealedMessage], Opened | None]
"""Opens a message with the keys of its mesh; None when no key fits or the bytes were tampered with."""


class Received(NamedTuple):
    """What became of a delivery: how to acknowledge it, and the event if it was new."""

    delivery_id: int
    status: DeliveryStatus
    event: DaemonEvent | None


def receive(
    db: apsw.Connection,
    push: Push,
    open_sealed: Opener,
    *,
    mesh_id: str,
    recipient_id: str,
    row_id: str,
    now_ms: int,
    bytes_max: int | None = None,
) -> Received:
    """Inside the writer's transaction: stores the delivery unless it is known. Raises ``InsufficientStorage`` while the
    inbox holds ``bytes_max`` or more: what is not acknowledged comes again."""
    message = push.message
    key = (mesh_id, message.sender_id, recipient_id, message.client_message_id)
    found: Any = db.execute(_STATUS, key).fetchone()
    is_sealed, held = found
    if is_sealed is not None:
        return Received(push.delivery_id, "undecryptable" if is_sealed else "stored", None)
    if bytes_max is not None and held >= bytes_max:
        raise InsufficientStorage("The inbox is full", reason="inbox_full")
    sealed = sealed_of(message)
    parts = (message.sender, message.kind, message.ref, message.reply_to or "", message.key_epoch, sealed)
    opened = open_sealed(SealedMessage(*parts))
    seq = _insert(db, push, opened, sealed, mesh_id=mesh_id, recipient_id=recipient_id, row_id=row_id, now_ms=now_ms)
    data: dict[str, Any] = {"id": row_id, "client_message_id": message.client_message_id}
    if push.attempt > 1 and was_lost(db, message.accepted_at):
        data["refilled"] = True
    event = append_event(
        db,
        "decrypt_failed" if opened is None else "message",
        data,
        now_ms=now_ms,
        mesh_id=mesh_id,
        inbox_seq=seq,
    )
    return Received(push.delivery_id, "undecryptable" if opened is None else "stored", event)


class Reopened(NamedTuple):
    """One event for each message that can be read now, and after which message to go on; None when all were tried."""

    events: list[DaemonEvent]
    after_seq: int | None


def open_kept(
    db: apsw.Connection,
    open_sealed: Opener,
    *,
    mesh_id: str,
    now_ms: int,
    after_seq: int = 0,
    limit: int = REOPENED_MAX,
) -> Reopened:
    """Tries the next messages that could not be opened again, after a key arrived."""
    events: list[DaemonEvent] = []
    rows: list[Any] = db.execute(_NEXT_SEALED, (mesh_id, after_seq, limit)).fetchall()
    more, size = len(rows) == limit, 0
    for seq, sealed_bytes in rows:
        if size > REOPENED_BYTES_MAX:
            more = True
            break
        size, after_seq = size + sealed_bytes, seq
        found: list[Any] = db.execute(_SEALED, (seq,)).fetchall()
        name, *parts = found[0]
        opened = open_sealed(SealedMessage(*parts))
        if opened is not None:
            db.execute(_OPEN, (opened.body, msgspec.json.encode(opened.meta).decode(), seq))
            data = {"sender_name": name}
            events.append(append_event(db, "message_opened", data, now_ms=now_ms, mesh_id=mesh_id, inbox_seq=seq))
    return Reopened(events, after_seq if more else None)


def sealed_of(message: CarriedMessage) -> bytes:
    """The sealed bytes. Text that is not base64 is kept as it came: nothing opens it, and nothing is lost."""
    try:
        return base64.b64decode(message.body, validate=True)
    except (binascii.Error, ValueError):
        return message.body.encode("utf-8", "surrogatepass")


def _insert(
    db: apsw.Connection,
    push: Push,
    opened: Opened | None,
    sealed: bytes,
    *,
    mesh_id: str,
    recipient_id: str,
    row_id: str,
    now_ms: int,
) -> int:
    message = push.message
    values = (
        row_id,
        mesh_id,
        message.client_message_id,
        message.broker_message_id,
        message.history_id,
        message.sender_id,
        message.sender,
        message.sender_name,
        recipient_id,
        message.kind,
        message.ref,
        message.priority,
        message.reply_to,
        int(push.mentioned),
        None if opened is None else opened.body,
        "{}" if opened is None else msgspec.json.encode(opened.meta).decode(),
        sealed if opened is None else None,
        message.key_epoch,
        message.accepted_at,
        now_ms,
    )
    return int(str(db.execute(_INSERT, values).fetchall()[0][0]))
