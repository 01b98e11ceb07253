"""Attachments: added once per (topic, kind, key, dedupe key), whoever tries and however often."""

from collections.abc import Iterable
from typing import Any

from parley.core import ids
from parley.core.canonical import canonical_json
from parley.core.errors import NotFound
from parley.core.metadata import check_metadata
from parley.hub.rules.channels import topic_of
from parley.hub.rules.idempotency import Once, earlier, remember
from parley.hub.transaction import Tx
from parley.wire.answers import AttachmentResult
from parley.wire.entities import Attachment, Topic
from parley.wire.requests import AddAttachment
from parley.workspace import queries
from parley.workspace.log import Draft, encode_json


def check_attachment(request: AddAttachment, bytes_max: int) -> str:
    """The canonical text of the metadata, if it may be stored."""
    return check_metadata(request.kind, request.value_json, bytes_max)


def add_attachment(
    tx: Tx, topic_id: str, request: AddAttachment, value_text: str, once: Once | None = None
) -> AttachmentResult:
    """Adds the attachment, or returns the one that is there already, without an event."""
    if (before := earlier(tx, once)) is not None:
        attachment = queries.get_attachment(tx.db, before.entity_id)
        if attachment is None:
            raise NotFound(f"Attachment not found: {before.entity_id}")
        return AttachmentResult(attachment, before.event_id, duplicate=True)
    topic = topic_of(tx.db, topic_id)
    source = request.source_message_id
    if source is not None and not tx.db.execute("SELECT 1 FROM messages WHERE id = ?", (source,)).fetchone():
        raise NotFound(f"Message not found: {source}", message_id=source)
    result = attach(tx, topic, request, value_text, source)
    remember(tx, once, "attachment.add", result.attachment.id, result.event_id)
    return result


def attach(tx: Tx, topic: Topic, request: AddAttachment, value_text: str, source: str | None) -> AttachmentResult:
    """Adds a checked attachment, unless it is there already."""
    dedupe_key = request.dedupe_key or value_text
    candidates = (dedupe_key,) if request.dedupe_key else (dedupe_key, encode_json(request.value_json).decode())
    return _add(tx, topic, request.kind, request.key, request.value_json, value_text, candidates, source)


def attach_urls(tx: Tx, topic: Topic, message_id: str, urls: Iterable[str]) -> None:
    """Makes each link of a message an attachment of its topic."""
    for url in urls:
        value: dict[str, Any] = {"url": url}
        _add(tx, topic, "url", None, value, canonical_json(value).decode(), (url,), message_id)


def _add(
    tx: Tx,
    topic: Topic,
    kind: str,
    key: str | None,
    value: dict[str, Any],
    value_text: str,
    dedupe_keys: tuple[str, ...],
    source_message_id: str | None,
) -> AttachmentResult:
    """The first of ``dedupe_keys`` is stored; the others are forms under which an earlier hub may have stored it."""
    for dedupe_key in dedupe_keys:
        there = queries.find_attachment(tx.db, topic.id, kind, key, dedupe_key)
        if there is not None:
            return AttachmentResult(there, None)
    attachment = Attachment(
        tx.new_id(ids.ATTACHMENT), topic.id, kind, key, value, dedupe_keys[0], source_message_id, tx.ts
    )
    tx.db.execute(
        "INSERT INTO topic_attachments"
        " (id, topic_id, kind, key, value_json, dedupe_key, source_message_id, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (attachment.id, topic.id, kind, key, value_text, dedupe_keys[0], source_message_id, tx.ts),
    )
    event_id = tx.append(
        Draft(
            "topic.attachment_added",
            attachment.id,
            {"attachment": attachment},
            channel_id=topic.channel_id,
            topic_id=topic.id,
        )
    )
    return AttachmentResult(attachment, event_id)
