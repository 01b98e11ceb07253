"""The things a hub holds, as they look in answers, events and rows."""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec


class Channel(msgspec.Struct, frozen=True):
    """A long-lived place for one project or team."""

    id: str
    name: str
    description: str | None
    created_at: str


def channel_meant(channels: Iterable[Channel], id_or_name: str) -> Channel | None:
    """The channel that a text means: the one with this id, else the one with this name. Ids win.

    Every place that takes an id or a name asks here, so that a channel that is named like another's id is nowhere
    mistaken for it.
    """
    named = None
    for channel in channels:
        if channel.id == id_or_name:
            return channel
        if channel.name == id_or_name:
            named = channel
    return named


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


AgentState = Literal["active", "gone"]
TaskStatus = Literal["open", "claimed", "completed", "cancelled"]
LeaseMode = Literal["shared", "exclusive"]
LeaseStatus = Literal["active", "released", "expired"]


class Agent(msgspec.Struct, frozen=True):
    """A registered participant. Its name is unique in a workspace and stays its own."""

    name: str
    program: str | None
    model: str | None
    session: str | None
    """What the program calls its session. One session at a time goes by a name."""
    state: AgentState
    registered_at: str
    last_seen_at: str
    """The last sign of life; a reader of the file may see one that is a few seconds old."""


class Task(msgspec.Struct, frozen=True):
    """Something to be done, and the companion of a topic in which it is talked about."""

    id: str
    topic_id: str
    channel_id: str
    title: str
    description: str | None
    status: TaskStatus
    created_by: str
    holder: str | None
    """Who works on it, or has done so."""
    generation: int
    """How often it was claimed. The holder's calls carry it, so that those of an earlier holder are refused."""
    lease_expires_at: str | None
    """When the claim ends unless it is renewed; null when the task is not claimed."""
    created_at: str
    updated_at: str
    claimed_at: str | None = None
    completed_at: str | None = None
    result: str | None = None


class Lease(msgspec.Struct, frozen=True):
    """Paths that somebody has reserved for a while. It warns others; nothing else keeps them out."""

    id: str
    holder: str
    patterns: list[str]
    mode: LeaseMode
    reason: str | None
    generation: int
    """Larger than that of every earlier lease."""
    acquired_at: str
    expires_at: str
    released_at: str | None
    status: LeaseStatus


class LeaseHit(msgspec.Struct, frozen=True):
    """A lease of somebody else that is in the way."""

    lease_id: str
    holder: str
    mode: LeaseMode
    pattern: str
    """The one of its patterns that is in the way."""
    reason: str | None
    expires_at: str
    wanted: str
    """The pattern or path that was asked for."""
