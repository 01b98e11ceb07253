"""Messages: post, edit and delete. A message is never removed; a delete leaves a tombstone."""

import apsw

from parley.core import ids
from parley.core.errors import (
    InvalidInput,
    MessageArchived,
    MessageDeleted,
    NotFound,
    PayloadTooLarge,
    VersionConflict,
)
from parley.core.limits import TOMBSTONE, VERSION_MAX
from parley.core.settings import UrlSettings
from parley.core.urls import extract_urls
from parley.hub.rules.attachments import attach_urls
from parley.hub.rules.channels import topic_of
from parley.hub.rules.idempotency import Earlier, Once, earlier, remember
from parley.hub.rules.jobs import NO_QUEUE, Queue, end_jobs, queue_edited, queue_new
from parley.hub.transaction import Tx
from parley.wire.answers import MessageResult
from parley.wire.entities import Message
from parley.wire.requests import CreateMessage, DeleteMessage, EditMessage
from parley.workspace import queries
from parley.workspace.log import Draft


def check_content(content: str, bytes_max: int) -> None:
    """Refuses content of more than ``bytes_max`` bytes of UTF-8."""
    size = len(content) if content.isascii() else len(content.encode())
    if size > bytes_max:
        raise PayloadTooLarge(f"Message content too large (max {bytes_max} bytes)", limit_bytes=bytes_max, bytes=size)


def create_message(
    tx: Tx, request: CreateMessage, urls: UrlSettings, once: Once | None = None, queue: Queue = NO_QUEUE
) -> MessageResult:
    """Posts a message to a topic."""
    if once is not None and (before := earlier(tx, once)) is not None:
        return _again(tx, before)
    topic = topic_of(tx.db, request.topic_id)
    if request.reply_to is not None:
        message_of(tx.db, request.reply_to)
    message = Message(
        tx.new_id(ids.MESSAGE),
        topic.id,
        topic.channel_id,
        request.sender,
        request.content_raw,
        1,
        tx.ts,
        reply_to=request.reply_to,
    )
    tx.db.execute(
        "INSERT INTO messages (id, topic_id, channel_id, sender, content_raw, version, created_at, reply_to)"
        " VALUES (?, ?, ?, ?, ?, 1, ?, ?)",
        (message.id, topic.id, topic.channel_id, message.sender, message.content_raw, tx.ts, message.reply_to),
    )
    if topic.updated_at != tx.ts:  # messages of one millisecond touch the topic once
        tx.db.execute("UPDATE topics SET updated_at = ? WHERE id = ?", (tx.ts, topic.id))
    event_id = tx.append(
        Draft("message.created", message.id, {"message": message}, channel_id=topic.channel_id, topic_id=topic.id)
    )
    _attach_links(tx, message, urls)
    queue_new(tx, queue, message.id)
    remember(tx, once, "message.create", message.id, event_id)
    return MessageResult(message, event_id)


def edit_message(
    tx: Tx,
    message_id: str,
    request: EditMessage,
    urls: UrlSettings,
    once: Once | None = None,
    queue: Queue = NO_QUEUE,
) -> MessageResult:
    """Replaces a message's content. A tombstone cannot be edited."""
    if (before := earlier(tx, once)) is not None:
        return _again(tx, before)
    old = message_of(tx.db, message_id)
    if old.deleted_at is not None:
        raise MessageDeleted("Cannot edit a deleted message", message_id=message_id)
    check_version(old, request.expected_version)
    tx.db.execute(
        "UPDATE messages SET content_raw = ?, edited_at = ?, version = version + 1 WHERE id = ?",
        (request.content_raw, tx.ts, message_id),
    )
    _outdate_enrichments(tx, message_id)
    new = message_of(tx.db, message_id)
    payload = {
        "message_id": message_id,
        "old_content": old.content_raw,
        "new_content": new.content_raw,
        "version": new.version,
    }
    event_id = tx.append(Draft("message.edited", message_id, payload, channel_id=new.channel_id, topic_id=new.topic_id))
    _attach_links(tx, new, urls)
    queue_edited(tx, queue, message_id)
    remember(tx, once, "message.edit", message_id, event_id)
    return MessageResult(new, event_id)


def delete_message(tx: Tx, message_id: str, request: DeleteMessage, once: Once | None = None) -> MessageResult:
    """Replaces a message by a tombstone. Deleting it again changes nothing and says so with a null event id."""
    if (before := earlier(tx, once)) is not None:
        return _again(tx, before)
    old = message_of(tx.db, message_id)
    check_version(old, request.expected_version)
    if old.deleted_at is not None:
        remember(tx, once, "message.delete", message_id, None)
        return MessageResult(old, None)
    tx.db.execute(
        "UPDATE messages SET content_raw = ?, edited_at = ?, deleted_at = ?, deleted_by = ?, version = version + 1"
        " WHERE id = ?",
        (TOMBSTONE, tx.ts, tx.ts, request.actor, message_id),
    )
    _outdate_enrichments(tx, message_id)
    end_jobs(tx, message_id)
    new = message_of(tx.db, message_id)
    payload = {"message_id": message_id, "deleted_by": request.actor, "version": new.version}
    event_id = tx.append(
        Draft("message.deleted", message_id, payload, channel_id=new.channel_id, topic_id=new.topic_id)
    )
    remember(tx, once, "message.delete", message_id, event_id)
    return MessageResult(new, event_id)


def message_of(db: apsw.Connection, message_id: str) -> Message:
    """The message. Raises ``NotFound``."""
    message = queries.get_message(db, message_id)
    if message is None:
        raise NotFound(f"Message not found: {message_id}", message_id=message_id)
    return message


def check_version(message: Message, expected: int | None) -> None:
    """Refuses a change that was decided on an older version, or that would pass the largest version."""
    if expected is not None and expected != message.version:
        raise VersionConflict(message.id, expected=expected, current=message.version)
    if message.version >= VERSION_MAX:
        raise InvalidInput("This message has reached the largest version", message_id=message.id)


def _again(tx: Tx, before: Earlier) -> MessageResult:
    """What the first request with the same key did, with the message as it is now. Only an archive takes one away."""
    message = queries.get_message(tx.db, before.entity_id)
    if message is None:
        floor = queries.oldest_cursor(tx.db)
        raise MessageArchived(
            f"The first request succeeded; message {before.entity_id} was archived since",
            message_id=before.entity_id,
            event_id=before.event_id,
            archive=floor and floor.archive,
        )
    return MessageResult(message, before.event_id, duplicate=True)


def _attach_links(tx: Tx, message: Message, urls: UrlSettings) -> None:
    if urls.extract and "://" in message.content_raw:
        found = extract_urls(message.content_raw, allow=urls.allow, block=urls.block)
        if found:
            attach_urls(tx, topic_of(tx.db, message.topic_id), message.id, found)


def _outdate_enrichments(tx: Tx, message_id: str) -> None:
    """What plugins found in the old content is hidden until they have looked at the new one."""
    tx.db.execute("UPDATE enrichments SET outdated = 1 WHERE message_id = ? AND outdated = 0", (message_id,))
