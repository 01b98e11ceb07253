"""Events as they cross the wire: the envelope on ``/ws``, the row on ``/api/v1/events``, and a typed payload per name.

A reader must ignore names and members it does not know. ``decode_payload`` therefore returns the plain dictionary for
an unknown name.
"""

from typing import Any

import msgspec

from parley.wire.entities import Agent, Attachment, Channel, Lease, Message, Span, Task, Topic


class Scope(msgspec.Struct, frozen=True):
    """Who is concerned. All three keys are always there."""

    channel_id: str | None = None
    topic_id: str | None = None
    topic_id2: str | None = None


class Entity(msgspec.Struct, frozen=True):
    """What the event is about."""

    type: str
    id: str


class EventEnvelope(msgspec.Struct, frozen=True, tag_field="type", tag="event"):
    """An event on the feed."""

    event_id: int
    ts: str
    name: str
    scope: Scope
    data: dict[str, Any]
    entity: Entity = Entity("", "")

    @property
    def payload(self) -> "Payload | dict[str, Any]":
        """The typed payload, or the plain dictionary when the name is not known to this version."""
        return decode_payload(self.name, self.data)


class EventRow(msgspec.Struct, frozen=True):
    """An event in ``GET /api/v1/events``; the payload's key differs from the feed's, as existing clients expect."""

    event_id: int
    ts: str
    name: str
    data_json: dict[str, Any]
    scope: Scope
    entity: Entity


class EventPage(msgspec.Struct, frozen=True):
    """``GET /api/v1/events``. ``reset`` says that the caller's cursor is beyond the log: it belongs to another one."""

    replay_until: int
    events: list[EventRow]
    has_more: bool = False
    cursor: int | None = None
    reset: bool = False


class ChannelCreated(msgspec.Struct, frozen=True):
    channel: Channel


class TopicCreated(msgspec.Struct, frozen=True):
    topic: Topic


class TopicRenamed(msgspec.Struct, frozen=True):
    topic_id: str
    old_title: str
    new_title: str


class MessageCreated(msgspec.Struct, frozen=True):
    message: Message


class MessageEdited(msgspec.Struct, frozen=True):
    message_id: str
    old_content: str
    new_content: str
    version: int


class MessageDeleted(msgspec.Struct, frozen=True):
    message_id: str
    deleted_by: str
    version: int


class MessageMoved(msgspec.Struct, frozen=True):
    message_id: str
    old_topic_id: str
    new_topic_id: str
    channel_id: str
    mode: str
    version: int


class Enrichment(msgspec.Struct, frozen=True):
    kind: str
    span: Span
    data: dict[str, Any]


class MessageEnriched(msgspec.Struct, frozen=True):
    message_id: str
    plugin_name: str
    enrichments: list[Enrichment]
    enrichment_ids: list[str]
    version: int | None = None
    """The version of the message that the plugin read; Agentlip's events lack it."""


class AttachmentAdded(msgspec.Struct, frozen=True):
    attachment: Attachment


class TaskCreated(msgspec.Struct, frozen=True):
    task: Task
    actor: str


class TaskClaimed(msgspec.Struct, frozen=True):
    task: Task
    actor: str
    previous_holder: str | None = None
    """The holder itself, if it claimed the task again."""


class TaskReleased(msgspec.Struct, frozen=True):
    task: Task
    actor: str | None
    reason: str | None
    previous_holder: str


class TaskCompleted(msgspec.Struct, frozen=True):
    task: Task
    actor: str


class TaskCancelled(msgspec.Struct, frozen=True):
    task: Task
    actor: str
    reason: str | None
    previous_holder: str | None


class TaskTakenOver(msgspec.Struct, frozen=True):
    task: Task
    actor: str
    reason: str | None
    previous_holder: str
    previous_generation: int
    forced: bool


class TaskExpired(msgspec.Struct, frozen=True):
    task: Task
    previous_holder: str


class LeaseAcquired(msgspec.Struct, frozen=True):
    lease: Lease


class LeaseReleased(msgspec.Struct, frozen=True):
    lease: Lease
    actor: str | None
    reason: str | None


class LeaseExpired(msgspec.Struct, frozen=True):
    lease: Lease


class AgentRegistered(msgspec.Struct, frozen=True):
    agent: Agent


class AgentChanged(msgspec.Struct, frozen=True):
    agent: Agent
    reason: str


class AgentLeft(msgspec.Struct, frozen=True):
    agent: Agent
    reason: str | None
    released_tasks: list[str]
    released_leases: list[str]


class AgentSwept(msgspec.Struct, frozen=True):
    agent: Agent
    released_tasks: list[str]
    released_leases: list[str]


class SchemaMigrated(msgspec.Struct, frozen=True):
    from_version: int
    to_version: int


class WorkspaceAdopted(msgspec.Struct, frozen=True):
    source: str
    messages: int


class WorkspaceArchived(msgspec.Struct, frozen=True):
    archive: str
    sha256: str
    up_to_event_id: int
    events: int
    messages: int


class PluginFailed(msgspec.Struct, frozen=True):
    plugin_name: str
    reason: str


Payload = (
    ChannelCreated
    | TopicCreated
    | TopicRenamed
    | MessageCreated
    | MessageEdited
    | MessageDeleted
    | MessageMoved
    | MessageEnriched
    | AttachmentAdded
    | TaskCreated
    | TaskClaimed
    | TaskReleased
    | TaskCompleted
    | TaskCancelled
    | TaskTakenOver
    | TaskExpired
    | LeaseAcquired
    | LeaseReleased
    | LeaseExpired
    | AgentRegistered
    | AgentChanged
    | AgentLeft
    | AgentSwept
    | SchemaMigrated
    | WorkspaceAdopted
    | WorkspaceArchived
    | PluginFailed
)

PAYLOADS: dict[str, type[Payload]] = {
    "channel.created": ChannelCreated,
    "topic.created": TopicCreated,
    "topic.renamed": TopicRenamed,
    "message.created": MessageCreated,
    "message.edited": MessageEdited,
    "message.deleted": MessageDeleted,
    "message.moved_topic": MessageMoved,
    "message.enriched": MessageEnriched,
    "topic.attachment_added": AttachmentAdded,
    "task.created": TaskCreated,
    "task.claimed": TaskClaimed,
    "task.released": TaskReleased,
    "task.completed": TaskCompleted,
    "task.cancelled": TaskCancelled,
    "task.taken_over": TaskTakenOver,
    "task.expired": TaskExpired,
    "lease.acquired": LeaseAcquired,
    "lease.released": LeaseReleased,
    "lease.expired": LeaseExpired,
    "agent.registered": AgentRegistered,
    "agent.changed": AgentChanged,
    "agent.left": AgentLeft,
    "agent.swept": AgentSwept,
    "schema.migrated": SchemaMigrated,
    "workspace.adopted": WorkspaceAdopted,
    "workspace.archived": WorkspaceArchived,
    "plugin.failed": PluginFailed,
}


def decode_payload(name: str, data: dict[str, Any]) -> Payload | dict[str, Any]:
    """The typed payload of a known event; the plain dictionary for a name from a newer hub."""
    kind = PAYLOADS.get(name)
    return data if kind is None else msgspec.convert(data, kind)


class Subscriptions(msgspec.Struct, frozen=True):
    """Channels by id or name, topics by id."""

    channels: list[str] = []
    topics: list[str] = []


class Hello(msgspec.Struct, frozen=True, tag_field="type", tag="hello"):
    """The first and only message of a client. Without a cursor the feed starts at the oldest event that is kept."""

    after_event_id: int | None = None
    subscriptions: Subscriptions | None | msgspec.UnsetType = msgspec.UNSET


class HelloOk(msgspec.Struct, frozen=True, tag_field="type", tag="hello_ok", omit_defaults=True):
    """The hub's answer. ``reset`` says that the client's cursor is beyond the log: it belongs to another one."""

    replay_until: int
    latest_event_id: int
    instance_id: str
    reset: bool = False


ServerFrame = HelloOk | EventEnvelope
decode_server_frame = msgspec.json.Decoder(ServerFrame).decode
