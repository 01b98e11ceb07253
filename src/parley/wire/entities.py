"""The things a hub holds, as they look in answers, events and rows."""

from typing import Any, Literal

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


class ListedTopic(Topic, frozen=True):
    """A topic in a list, with its newest message."""

    last_message_id: str | None = None
    last_message_at: str | None = None


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


class Span(msgspec.Struct, frozen=True):
    """Where in a message's content something was found: Unicode code points, ``end`` excluded."""

    start: int
    end: int


class StoredEnrichment(msgspec.Struct, frozen=True):
    """What a plugin found in a message's content as it is now."""

    id: str
    message_id: str
    plugin_name: str
    kind: str
    span: Span
    data: dict[str, Any]
    created_at: str


class MessageVersion(msgspec.Struct, frozen=True):
    """One step of a message's history."""

    version: int
    event_id: int | None
    """The event that made it; unknown for the first version."""
    ts: str
    change: Literal["created", "edited", "moved", "deleted"]
    content_raw: str | None
    """The content from here on; null for a move, for what was archived, and for every step of a deleted message."""
    topic_id: str | None
    """Where a move took it, or where it was posted."""
    actor: str | None
    """Who posted or deleted it; the log does not say who edits or moves."""
