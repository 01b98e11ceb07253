"""Storing what a broker delivers.

A delivery is acknowledged when it is on disk, whether it is new, known already or cannot be read. A message is known by
its mesh, sender, recipient and the sender's id for it: the same id of another sender is another message. It stays known
when it is thrown away. What cannot be opened keeps its sealed bytes, and is tried again when a key arrives. So does
what is not to be believed, which is not shown as said, and what cannot be judged before more of the roster was read.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from parley.core.daemon_errors import InsufficientStorage
from parley.core.roster.heads import Head
from parley.daemon.inbox.events import DaemonEvent, EventKind, append_event
from parley.daemon.inbox.renewal import was_lost
from parley.wire.broker import CarriedMessage, DeliveryStatus, Push

REOPENED_MAX: Final = 64
"""Messages that are tried again in one transaction, so that no other write waits long for its turn."""
REOPENED_BYTES_MAX: Final = 256 * 1024
"""The same in bytes: what can be read is also indexed for the search, which takes longer than to open it."""
_INSERT: Final = (
    "INSERT INTO inbox (id, mesh_id, client_message_id, broker_message_id, history_id, sender_id, sender_pubkey,"
    " sender_name, recipient_id, destination_kind, destination_ref, priority, reply_to_id, mentioned, body, meta,"
    " sealed, key_epoch, accepted_at, received_at, refused, waiting)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (mesh_id, sender_id, recipient_id, client_message_id) DO NOTHING RETURNING seq"
)
_KEY: Final = "mesh_id = ?1 AND sender_id = ?2 AND recipient_id = ?3 AND client_message_id = ?4"
_KNOWN: Final = (
    f"SELECT sealed IS NOT NULL AND refused IS NULL AND waiting = 0 FROM inbox WHERE {_KEY}"
    f" UNION ALL SELECT 0 FROM forgotten WHERE {_KEY} LIMIT 1"
)
_STATUS: Final = f"SELECT ({_KNOWN}), bytes FROM held"
_NEXT_SEALED: Final = (
    "SELECT seq, octet_length(sealed) FROM inbox WHERE mesh_id = ? AND seq > ? AND sealed IS NOT NULL"
    " AND refused IS NULL ORDER BY seq LIMIT ?"
)
_SEALED: Final = (
    "SELECT id, client_message_id, waiting, sender_name, sender_pubkey, destination_kind, destination_ref,"
    " coalesce(reply_to_id, ''), key_epoch, sealed, sender_id, client_message_id FROM inbox WHERE seq = ?"
)
_OPEN: Final = "UPDATE inbox SET body = ?, meta = ?, sealed = NULL, waiting = 0 WHERE seq = ?"
_REFUSE: Final = "UPDATE inbox SET refused = ?, waiting = 0 WHERE seq = ?"
_SHUT: Final = "UPDATE inbox SET waiting = 0 WHERE seq = ?"


class Opened(NamedTuple):
    """What a sealed body says, and how far its sender had read the roster, if there is one."""

    body: str
    meta: dict[str, Any]
    head: Head | None = None


class TurnedDown(NamedTuple):
    """A message that is not shown as said. ``reason`` is for programs."""

    reason: str


class Waiting(NamedTuple):
    """A message that cannot be judged before more of the roster was read: up to this head, if one is named."""

    head: Head | None


class SealedMessage(NamedTuple):
    """What is needed to open a message."""

    sender_pubkey: str
    kind: str
    ref: str
    reply_to: str
    key_epoch: int | None
    sealed: bytes
    sender_id: str = ""
    client_message_id: str = ""
    again: bool = False
    """Whether it was kept, and all that the broker has of the roster was read since."""


Outcome = Opened | TurnedDown | Waiting | None
Opener = Callable[[SealedMessage], Outcome]
"""Opens a message with the keys of its mesh; None when no key fits or the bytes were tampered with."""


class Received(NamedTuple):
    """What became of a delivery: how to acknowledge it, the event if it was new, and what it said of the roster."""

    delivery_id: int
    status: DeliveryStatus
    event: DaemonEvent | None
    sender_id: str = ""
    head: Head | None = None
    waits: bool = False
    """Whether it is kept until more of the roster was read."""


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
    found = open_sealed(SealedMessage(*parts, message.sender_id, message.client_message_id))
    seq = _insert(db, push, found, sealed, mesh_id=mesh_id, recipient_id=recipient_id, row_id=row_id, now_ms=now_ms)
    if isinstance(found, Waiting):
        return Received(push.delivery_id, "stored", None, message.sender_id, found.head, waits=True)
    data: dict[str, Any] = {"id": row_id, "client_message_id": message.client_message_id}
    if push.attempt > 1 and was_lost(db, message.accepted_at):
        data["refilled"] = True
    kind = _event_of(found, data)
    event = append_event(db, kind, data, now_ms=now_ms, mesh_id=mesh_id, inbox_seq=seq)
    head = found.head if isinstance(found, Opened) else None
    status = "undecryptable" if found is None else "stored"
    return Received(push.delivery_id, status, event, message.sender_id, head)


def _event_of(found: Outcome, data: dict[str, Any]) -> EventKind:
    """What to tell of a message that came; ``data`` is added to."""
    if isinstance(found, TurnedDown):
        data["reason"] = found.reason
        return "message_refused"
    return "decrypt_failed" if found is None else "message"


class Reopened(NamedTuple):
    """One event for each message that can be read now, after which message to go on, None when all were tried, and what
    those that were read said of the roster."""

    events: list[DaemonEvent]
    after_seq: int | None
    heads: Sequence[tuple[str, Head]] = ()


def open_kept(
    db: apsw.Connection,
    open_sealed: Opener,
    *,
    mesh_id: str,
    now_ms: int,
    after_seq: int = 0,
    judged_seq: int = 0,
    limit: int = REOPENED_MAX,
) -> Reopened:
    """Tries the next messages that could not be opened again, after a key arrived or more of the roster was read.

    Those up to ``judged_seq`` were there before the roster was read, so they wait for nothing any more.
    """
    events: list[DaemonEvent] = []
    heads: list[tuple[str, Head]] = []
    rows: list[Any] = db.execute(_NEXT_SEALED, (mesh_id, after_seq, limit)).fetchall()
    more, size = len(rows) == limit, 0
    for seq, sealed_bytes in rows:
        if size > REOPENED_BYTES_MAX:
            more = True
            break
        size, after_seq = size + sealed_bytes, seq
        row: list[Any] = db.execute(_SEALED, (seq,)).fetchall()
        row_id, client_id, waited, name, *parts = row[0]
        found = open_sealed(SealedMessage(*parts, again=seq <= judged_seq))
        if isinstance(found, Waiting):
            heads += [(parts[-2], found.head)] if found.head is not None else []
            continue
        data: dict[str, Any] = {"id": row_id, "client_message_id": client_id} if waited else {"sender_name": name}
        kind = _event_of(found, data)
        if isinstance(found, Opened):
            db.execute(_OPEN, (found.body, msgspec.json.encode(found.meta).decode(), seq))
            heads += [(parts[-2], found.head)] if found.head is not None else []
            kind = "message" if waited else "message_opened"
        elif isinstance(found, TurnedDown):
            db.execute(_REFUSE, (found.reason, seq))
        elif waited:
            db.execute(_SHUT, (seq,))
        else:
            continue
        events.append(append_event(db, kind, data, now_ms=now_ms, mesh_id=mesh_id, inbox_seq=seq))
    return Reopened(events, after_seq if more else None, heads)


def sealed_of(message: CarriedMessage) -> bytes:
    """The sealed bytes. Text that is not base64 is kept as it came: nothing opens it, and nothing is lost."""
    try:
        return base64.b64decode(message.body, validate=True)
    except (binascii.Error, ValueError):
        return message.body.encode("utf-8", "surrogatepass")


def _insert(
    db: apsw.Connection,
    push: Push,
    found: Outcome,
    sealed: bytes,
    *,
    mesh_id: str,
    recipient_id: str,
    row_id: str,
    now_ms: int,
) -> int:
    message = push.message
    opened = found if isinstance(found, Opened) else None
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
        found.reason if isinstance(found, TurnedDown) else None,
        int(isinstance(found, Waiting)),
    )
    return int(str(db.execute(_INSERT, values).fetchall()[0][0]))
