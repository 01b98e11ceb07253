"""The things a hub holds, as they look in answers, events and rows."""

from typing import Any

import msgspec


class Channel(msgspec.Struct, frozen=True):
    """A long-lived place for one project or team."""

    id: str
    name: str
    description: str | None
    created_at: str


class Topic(msgspec.Struct, frozen=True):
    """A thread in a channel. Its id stays when its title changes."""

    id: str
    channel_id: str
    title: str
    created_at: str
    updated_at: str


class Message(msgspec.Struct, frozen=True):
    """A message. It keeps its id for ever; edits, deletion and moves raise its version."""

    id: str
    topic_id: str
    channel_id: str
    sender: str
    content_raw: str
    version: int
    created_at: str
    edited_at: str | None = None
    deleted_at: str | None = None
    deleted_by: str | None = None
    reply_to: str | None = None


class Attachment(msgspec.Struct, frozen=True):
    """Structured grounding of a topic: a link, a file, a decision."""

    id: str
    topic_id: str
    kind: str
    key: str | None
    value_json: dict[str, Any]
    dedupe_key: str
    source_message_id: str | None
    created_at: str
