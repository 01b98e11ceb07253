"""Taking a message to be sent, and recognising one that was taken before.

The id that a caller gives is bound to one request for good. What a caller is told who comes with an id again is a table
over the state of its row and over whether it asks for the same thing; no branch of it changes an existing row::

    no row             queued (202)
    pending   same     queued (202)            other   409 outbox_pending_fingerprint_mismatch
    inflight  same     inflight (202)          other   409 outbox_inflight_fingerprint_mismatch
    done      same     duplicate (200)         other   409 outbox_done_fingerprint_mismatch
    dead      same     409 outbox_dead_fingerprint_match        other   409 outbox_dead_fingerprint_mismatch
    aborted   same     409 outbox_aborted_fingerprint_match     other   409 outbox_aborted_fingerprint_mismatch

The same thing is the same fingerprint in the same mesh: the fingerprint itself does not name the mesh.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

import apsw
import msgspec
from msgspec.structs import replace

from parley.core.canonical import canonical_json
from parley.core.daemon_errors import RowSpent
from parley.core.errors import IdempotencyKeyReused
from parley.core.fingerprint import fingerprint_prefix, request_fingerprint
from parley.daemon.outbox.rows import OutboxRow, by_client_id
from parley.wire.broker import DestinationKind, Priority, Send, wire_fingerprint

_PLAIN: Final = "1"
_WITH_MENTIONS: Final = "1+mentions"
_INSERT: Final = (
    "INSERT INTO outbox (id, client_message_id, request_fingerprint, mesh_id, to_spec, destination_kind,"
    " destination_ref, reply_to_id, priority, meta, mentions, payload, sender_identity, sealed, key_epoch,"
    " wire_fingerprint, enqueued_at, next_attempt_at, attempts, status)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_NEW: Final = f"{_INSERT} ON CONFLICT (client_message_id) DO NOTHING"


class Destination(msgspec.Struct, frozen=True):
    """Where a message goes: what the caller wrote, and what that meant in the mesh when it was accepted."""

    mesh_id: str
    to_spec: str
    kind: DestinationKind
    ref: str


class Message(msgspec.Struct, frozen=True):
    """What a caller asks to be sent."""

    client_message_id: str
    destination: Destination
    payload: bytes
    priority: Priority = "next"
    reply_to_id: str | None = None
    meta: dict[str, Any] = {}
    mentions: list[str] = []


class Sealed(msgspec.Struct, frozen=True):
    """A message as the broker will carry it: made once, so that each try sends the same bytes."""

    sender: str
    body: bytes
    key_epoch: int | None
    fingerprint: bytes


UNSEALED: Final = Sealed("", b"", None, bytes(32))
"""A message that is sealed when it is sent for the first time, for those who are members then."""


class Taken(NamedTuple):
    """What the caller is told: the row as it stands, and the status of the answer."""

    row: OutboxRow
    status: Literal[200, 202]
    state: Literal["queued", "inflight", "done"]
    is_new: bool = False
    """Whether the row was written just now."""


def message_fingerprint(message: Message) -> bytes:
    """The fingerprint over what the caller can read, which stays on this machine. Raises ``InvalidInput``."""
    # The form has no place for mentions; another version of it says that they are there.
    extended: dict[str, Any] = {"meta": message.meta, "mentions": message.mentions}
    return request_fingerprint(
        version=_WITH_MENTIONS if message.mentions else _PLAIN,
        kind=message.destination.kind,
        ref=message.destination.ref,
        reply_to=message.reply_to_id or "",
        priority=message.priority,
        meta=extended if message.mentions else message.meta,
        body=message.payload,
    )


def sealed_fingerprint(message: Message, body: bytes, key_epoch: int | None) -> bytes:
    """The fingerprint that the broker will compute over the sealed message. Raises ``InvalidInput``."""
    frame = Send(
        client_message_id=message.client_message_id,
        kind=message.destination.kind,
        ref=message.destination.ref,
        body="",
        fingerprint="",
        priority=message.priority,
        reply_to=message.reply_to_id,
        mentions=message.mentions,
        key_epoch=key_epoch,
    )
    return wire_fingerprint(frame, body)


def with_seal(row: OutboxRow, sealed: Sealed) -> OutboxRow:
    """The row with what was made of it."""
    return replace(
        row,
        sender_identity=sealed.sender,
        sealed=sealed.body,
        key_epoch=sealed.key_epoch,
        wire_fingerprint=sealed.fingerprint,
    )


def recognise(row: OutboxRow, mesh_id: str, fingerprint: bytes) -> Taken:
    """What a caller is told who comes with the id of this row. Raises ``IdempotencyKeyReused``."""
    same = row.mesh_id == mesh_id and row.request_fingerprint == fingerprint
    if same and row.status == "pending":
        return Taken(row, 202, "queued")
    if same and row.status == "inflight":
        return Taken(row, 202, "inflight")
    if same and row.status == "done":
        return Taken(row, 200, "done")
    details: dict[str, object] = {
        "client_message_id": row.client_message_id,
        "conflict": f"outbox_{row.status}_fingerprint_{'match' if same else 'mismatch'}",
        "daemon_fingerprint_prefix": fingerprint_prefix(row.request_fingerprint),
        "broker_message_id": row.broker_message_id,
    }
    if same and row.status == "dead":
        details["reason"] = row.last_error
        raise RowSpent(f"The message with this id could not be sent: {row.last_error}", **details)
    if same:
        raise RowSpent(f"The message with this id is {row.status}", **details)
    raise IdempotencyKeyReused(f"The id belongs to a message that is {row.status}", **details)


def accept(
    db: apsw.Connection,
    message: Message,
    fingerprint: bytes,
    sealed: Sealed,
    *,
    row_id: str,
    now_ms: int,
    in_flight: bool = False,
    seal: Callable[[OutboxRow], object] | None = None,
) -> Taken:
    """Inside the writer's transaction: the new row, or what the id means already. Raises ``IdempotencyKeyReused``.

    A row that is to be sent as soon as it is on disk is ``in_flight`` from the start. With ``seal`` it is sealed here
    then; if it cannot be yet, it waits like any other.
    """
    row = _row(message, fingerprint, sealed, row_id, now_ms)
    if in_flight and seal is not None and not row.sender_identity:
        made = seal(row)
        in_flight = isinstance(made, Sealed)
        row = with_seal(row, made) if isinstance(made, Sealed) else row
    db.execute(_INSERT_NEW, _values(row, in_flight))
    if db.changes() == 0:
        known = by_client_id(db, message.client_message_id)
        assert known is not None
        return recognise(known, message.destination.mesh_id, fingerprint)
    row = replace(row, seq=db.last_insert_rowid(), status="inflight" if in_flight else "pending")
    return Taken(row, 202, "queued", True)


def insert(
    db: apsw.Connection, message: Message, fingerprint: bytes, sealed: Sealed, *, row_id: str, now_ms: int
) -> None:
    """Writes a row that is due at once."""
    db.execute(_INSERT, _values(_row(message, fingerprint, sealed, row_id, now_ms), False))


def _row(message: Message, fingerprint: bytes, sealed: Sealed, row_id: str, now_ms: int) -> OutboxRow:
    """The row as it will be, but for its number, which the outbox gives."""
    where = message.destination
    return OutboxRow(
        seq=0,
        id=row_id,
        client_message_id=message.client_message_id,
        request_fingerprint=fingerprint,
        mesh_id=where.mesh_id,
        to_spec=where.to_spec,
        destination_kind=where.kind,
        destination_ref=where.ref,
        reply_to_id=message.reply_to_id,
        priority=message.priority,
        meta=canonical_json(message.meta).decode(),
        mentions=canonical_json(message.mentions).decode(),
        payload=message.payload,
        sender_identity=sealed.sender,
        sealed=sealed.body,
        key_epoch=sealed.key_epoch,
        wire_fingerprint=sealed.fingerprint,
        enqueued_at=now_ms,
        next_attempt_at=now_ms,
    )


def _values(row: OutboxRow, in_flight: bool) -> tuple[str | bytes | int | None, ...]:
    return (
        row.id,
        row.client_message_id,
        row.request_fingerprint,
        row.mesh_id,
        row.to_spec,
        row.destination_kind,
        row.destination_ref,
        row.reply_to_id,
        row.priority,
        row.meta,
        row.mentions,
        row.payload,
        row.sender_identity,
        row.sealed,
        row.key_epoch,
        row.wire_fingerprint,
        row.enqueued_at,
        row.next_attempt_at,
        int(in_flight),
        "inflight" if in_flight else "pending",
    )


def settle_destination(
    row: OutboxRow | None, to_spec: str, mesh_id: str | None, resolve: Callable[[], Destination]
) -> Destination:
    """Where a message goes. A retry of a known id means what it meant at first, also while the mesh cannot be asked.

    ``resolve`` looks the name up in the mesh's roster, and raises when it cannot.
    """
    if row is not None and row.to_spec == to_spec and mesh_id in (None, row.mesh_id):
        return Destination(row.mesh_id, row.to_spec, row.destination_kind, row.destination_ref)
    return resolve()
