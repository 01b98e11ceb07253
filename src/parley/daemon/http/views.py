"""How rows, messages and events look in the local API."""

from typing import Any

import msgspec

from parley.core.clock import iso
from parley.daemon.inbox.events import DaemonEvent
from parley.daemon.inbox.reading import InboxMessage
from parley.daemon.outbox.rows import OutboxRow
from parley.daemon.sessions import MARK, mark_of
from parley.wire.daemon_answers import InboxItem, OutboxItem, SenderSession


def row_view(row: OutboxRow, slug: str) -> OutboxItem:
    """A row of the outbox, without what it says."""
    return OutboxItem(
        id=row.id,
        client_message_id=row.client_message_id,
        mesh=slug,
        to=row.to_spec,
        destination_kind=row.destination_kind,
        destination_ref=row.destination_ref,
        priority=row.priority,
        status=row.status,
        attempts=row.attempts,
        enqueued_at=iso(row.enqueued_at),
        next_attempt_at=iso(row.next_attempt_at),
        delivered_at=_time(row.delivered_at),
        broker_message_id=row.broker_message_id,
        history_id=row.history_id,
        last_error=row.last_error,
        aborted_at=_time(row.aborted_at),
        aborted_by=row.aborted_by,
        superseded_by=row.superseded_by,
        payload_bytes=len(row.payload),
        pruned=row.pruned_at is not None,
    )


def message_view(message: InboxMessage, slug: str) -> InboxItem:
    """A message that arrived."""
    mark = mark_of(message.meta)
    return InboxItem(
        id=message.id,
        seq=message.seq,
        mesh=slug,
        client_message_id=message.client_message_id,
        broker_message_id=message.broker_message_id,
        history_id=message.history_id,
        topic=message.destination_ref if message.destination_kind == "topic" else None,
        to=message.destination_ref,
        kind=message.destination_kind,
        sender_pubkey=message.sender_pubkey,
        sender_member_id=message.sender_id,
        sender_name=message.sender_name,
        body=message.body,
        meta={name: value for name, value in message.meta.items() if name != MARK},
        undecryptable=message.body is None and message.refused is None,
        refused=message.refused,
        priority=message.priority,
        mentioned=message.mentioned,
        reply_to_id=message.reply_to_id,
        received_at=iso(message.received_at),
        created_at=message.accepted_at,
        seen_at=_time(message.seen_at),
        recipient_member_id=message.recipient_id,
        recipient_kind="member" if mark.to is None else "session",
        recipient_session=mark.to,
        sender_session=None if mark.id is None else SenderSession(mark.id, mark.name, mark.role),
    )


def event_view(event: DaemonEvent, message: InboxMessage | None, slug: str | None) -> bytes:
    """An event as a stream carries it."""
    data: dict[str, Any] = {"ts": iso(event.at), "mesh": slug, **event.data}
    if message is not None:
        data |= msgspec.structs.asdict(message_view(message, slug or message.mesh_id))
    text = msgspec.json.encode(data).decode()
    return f"id: {event.event_id}\nevent: {event.kind}\ndata: {text}\n\n".encode()


def _time(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)
