"""Messages and what holds them, as rows of a result, at the detail that was asked for."""

from collections.abc import Sequence
from typing import Any

from parley.core.limits import TOMBSTONE
from parley.mcp.desk import Desk
from parley.mcp.foreign import BAR, block, cut, preview, quoted, visible
from parley.mcp.results import RESERVED_BYTES, Entry, encoded
from parley.wire.entities import Channel, Message, Topic

REST = "m."
"""Begins a cursor that goes on inside a message: ``m.msg_1.12000`` is that message from its 12,000th character on."""


def message_entry(desk: Desk, message: Message, detail: str, from_char: int = 0) -> Entry:
    """A message. Its sender, its place and its time are facts of the hub; its content is what the sender wrote."""
    data: dict[str, Any] = {"id": message.id, "sender": message.sender}
    line = f"{message.id} from {quoted(message.sender)}{' (you)' if message.sender == desk.agent else ''}"
    if detail == "ids":
        return Entry(data, line)
    data |= {"topic_id": message.topic_id, "at": message.created_at}
    line += f" in {message.topic_id} at {message.created_at}"
    if message.reply_to is not None:
        data["reply_to"] = message.reply_to
        line += f" replying to {message.reply_to}"
    if message.deleted_at is not None:
        data["deleted_at"] = message.deleted_at
        return Entry(data, f"{line} {TOMBSTONE}")
    if detail == "short":
        data["preview"] = preview(message.content_raw)
        return Entry(data, f"{line}\n{BAR}{visible(data['preview'])}")
    data |= {"channel_id": message.channel_id, "version": message.version}
    return _with_content(desk, message, Entry(data, line), from_char)


def rest_of(cursor: str) -> tuple[str, int] | None:
    """The message and the character in a cursor that goes on inside a message; None for any other cursor."""
    message_id, dot, chars = cursor.removeprefix(REST).rpartition(".")
    if not cursor.startswith(REST) or not dot or not chars.isdecimal():
        return None
    return message_id, int(chars)


def channel_entry(channel: Channel) -> Entry:
    """A channel."""
    data = {"id": channel.id, "name": channel.name, "description": preview(channel.description or "")}
    about = f" {quoted(data['description'])}" if data["description"] else ""
    return Entry({name: value for name, value in data.items() if value}, f"{channel.id} {quoted(channel.name)}{about}")


def topic_entry(topic: Topic) -> Entry:
    """A topic."""
    data = {"id": topic.id, "title": topic.title, "updated_at": topic.updated_at}
    return Entry(data, f"{topic.id} {quoted(topic.title)} changed {topic.updated_at}")


def cursor_before(messages: Sequence[Message], taken: int) -> str:
    """Where a list of messages, newest first, goes on after so many of them."""
    return f"b.{messages[taken - 1].id}"


def _with_content(desk: Desk, message: Message, entry: Entry, from_char: int) -> Entry:
    content = message.content_raw[from_char:]
    # The rest of a result's room belongs to names and titles; a message alone must fit with the longest of them.
    room = desk.result_bytes_max - 2 * RESERVED_BYTES - entry.bytes - encoded(message.id)

    def fits(text: str) -> bool:
        return encoded(text) + encoded(block(text)) <= room

    end = cut(content, fits)
    data = {**entry.data, "content": content[:end]}
    text = f"{entry.text}\n{block(content[:end])}"
    if from_char:
        data["from_char"] = from_char
    if end < len(content):
        data["rest"] = f"{REST}{message.id}.{from_char + end}"
        text += f"\n(cut; read the rest with cursor {data['rest']})"
    return Entry(data, text)
