"""The SDK: talk to a workspace's hub, read its file, and follow its events.

    from parley.client import connect

    with connect(start=True, sender="reviewer") as client:
        channel = client.create_channel("general").channel
        topic = client.create_topic(channel.id, "Release 1.2").topic
        client.send_message(topic.id, "The build is green.")
        for event in client.events(topics=[topic.id]):
            print(event.event_id, event.name, event.payload)

``Client`` blocks, ``AsyncClient`` has the same methods to await. Importing this package loads no server and no network
library. Every failure is an error of ``parley.core.errors``, found here as ``errors``.
"""

from parley.client.backoff import Backoff
from parley.client.client import AsyncClient, Client
from parley.client.cursor import Cursor, CursorStore, FileCursor
from parley.client.feed import AsyncFeed, Feed
from parley.client.feed_machine import StateChange
from parley.client.identity import Identity, keep_name, whoami
from parley.core import errors
from parley.core.wire_errors import UnknownRefusal
from parley.wire.entities import Span
from parley.wire.events import (
    AgentChanged,
    AgentLeft,
    AgentRegistered,
    AgentSwept,
    AttachmentAdded,
    ChannelCreated,
    EventEnvelope,
    LeaseAcquired,
    LeaseExpired,
    LeaseReleased,
    MessageCreated,
    MessageDeleted,
    MessageEdited,
    MessageEnriched,
    MessageMoved,
    Payload,
    PluginFailed,
    SchemaMigrated,
    TaskCancelled,
    TaskClaimed,
    TaskCompleted,
    TaskCreated,
    TaskExpired,
    TaskReleased,
    TaskTakenOver,
    TopicCreated,
    TopicRenamed,
    WorkspaceAdopted,
    WorkspaceArchived,
)
from parley.wire.requests import FoundAttachment, FoundEnrichment

connect = Client.connect
connect_async = AsyncClient.connect

__all__ = [
    "AgentChanged",
    "AgentLeft",
    "AgentRegistered",
    "AgentSwept",
    "AsyncClient",
    "AsyncFeed",
    "AttachmentAdded",
    "Backoff",
    "ChannelCreated",
    "Client",
    "Cursor",
    "CursorStore",
    "EventEnvelope",
    "Feed",
    "FileCursor",
    "FoundAttachment",
    "FoundEnrichment",
    "Identity",
    "LeaseAcquired",
    "LeaseExpired",
    "LeaseReleased",
    "MessageCreated",
    "MessageDeleted",
    "MessageEdited",
    "MessageEnriched",
    "MessageMoved",
    "Payload",
    "PluginFailed",
    "SchemaMigrated",
    "Span",
    "StateChange",
    "TaskCancelled",
    "TaskClaimed",
    "TaskCompleted",
    "TaskCreated",
    "TaskExpired",
    "TaskReleased",
    "TaskTakenOver",
    "TopicCreated",
    "TopicRenamed",
    "UnknownRefusal",
    "WorkspaceAdopted",
    "WorkspaceArchived",
    "connect",
    "connect_async",
    "errors",
    "keep_name",
    "whoami",
]
