"""Answer bodies of the hub's API, and the one shape of an error."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from parley.core.errors import ParleyError, VersionConflict
from parley.wire.entities import (
    Agent,
    Attachment,
    Channel,
    Lease,
    LeaseHit,
    ListedTopic,
    Message,
    MessageVersion,
    StoredEnrichment,
    Task,
    Topic,
)

EventId = Annotated[int, Meta(ge=0)]


class ErrorBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """What every refusal looks like. ``current_version`` comes with a version conflict only."""

    error: str
    code: str
    details: dict[str, Any] | UnsetType = UNSET
    message: str | UnsetType = UNSET
    """The text once more; Agentlip's clients look for it when the hub is shutting down."""
    current_version: int | UnsetType = UNSET
    hint: str | UnsetType = UNSET
    """What to do, where the server knows better than the code alone tells; a daemon always says it."""


def error_body(error: ParleyError) -> ErrorBody:
    """The body for an error that crosses the wire."""
    return ErrorBody(
        error=error.message,
        code=error.code,
        details=error.details or UNSET,
        message=error.message if error.code == "SHUTTING_DOWN" else UNSET,
        current_version=error.current_version if isinstance(error, VersionConflict) else UNSET,
    )


class Health(msgspec.Struct, frozen=True):
    """``GET /health``"""

    status: Literal["ok", "degraded"]
    instance_id: str
    db_id: str
    schema_version: int
    protocol_version: str
    pid: int
    uptime_seconds: int
    problems: list[str] = []
    """What is degraded, in words; empty when all is well."""


class PluginWork(msgspec.Struct, frozen=True):
    """The work of all plugins together. Counts of a plugin stop at 100,000."""

    waiting: int
    failed: int
    oldest_waiting_seconds: float


class Coordination(msgspec.Struct, frozen=True):
    """How many agents are here, and how much they have to do."""

    agents_active: int
    tasks_open: int
    tasks_claimed: int
    leases_active: int


class Status(msgspec.Struct, frozen=True):
    """``GET /api/v1/status``"""

    status: Literal["ok", "degraded"]
    problems: list[str]
    latest_event_id: int
    ws_connections: int
    writes_waiting: int
    db_bytes: int
    wal_bytes: int
    disk_free_bytes: int
    checkpoint_age_seconds: float
    uptime_seconds: int
    metrics: dict[str, Any]
    """The metrics of the last full minute, as they stand in the log."""
    plugins: PluginWork = PluginWork(0, 0, 0.0)
    coordination: Coordination = Coordination(0, 0, 0, 0)


class PluginHealth(msgspec.Struct, frozen=True):
    """One plugin. Totals count from the hub's start."""

    name: str
    type: Literal["linkifier", "extractor"]
    source: str
    """``built-in``, or the module's path in the workspace."""
    state: Literal["ready", "paused", "untrusted", "broken", "disabled"]
    """``paused``: left alone for a while after too many failures in a row."""
    problem: str | None
    """Why it does not run, if it does not."""
    network: bool
    deadline_seconds: float
    waiting: int
    failed: int
    """Messages it was tried on for the last time."""
    oldest_waiting_seconds: float
    runs_total: int
    failures_total: int
    last_error: str | None


class Plugins(msgspec.Struct, frozen=True):
    """``GET /api/v1/plugins``, in the order of ``parley.toml``"""

    plugins: list[PluginHealth]


class QueuedAgain(msgspec.Struct, frozen=True):
    """``POST /api/v1/plugins/re_enrich``"""

    queued: int
    """Jobs that were made; what waited already is not counted."""


class OneTopic(msgspec.Struct, frozen=True):
    """``GET /api/v1/topics/{topic_id}``"""

    topic: Topic


class OneMessage(msgspec.Struct, frozen=True):
    """``GET /api/v1/messages/{message_id}``"""

    message: Message


class Pong(msgspec.Struct, frozen=True, omit_defaults=True):
    """``POST /api/v1/_ping``"""

    pong: bool
    instance_id: str
    echo: Any = UNSET


class Channels(msgspec.Struct, frozen=True):
    """Channels by name. All of them fit in one answer, so ``cursor`` is always null."""

    channels: list[Channel]
    cursor: str | None = None


class Topics(msgspec.Struct, frozen=True):
    """Topics, most recently changed first."""

    topics: list[ListedTopic]
    has_more: bool
    cursor: str | None = None


class Messages(msgspec.Struct, frozen=True):
    """Messages, newest first."""

    messages: list[Message]
    has_more: bool
    cursor: str | None = None


class Attachments(msgspec.Struct, frozen=True):
    """A topic's attachments, newest first. All of them fit in one answer, so ``cursor`` is always null."""

    attachments: list[Attachment]
    cursor: str | None = None


class Enrichments(msgspec.Struct, frozen=True):
    """What plugins found in some messages, in the order of the messages and of the text."""

    enrichments: list[StoredEnrichment]
    cursor: str | None = None


class MessageHistory(msgspec.Struct, frozen=True):
    """``GET /api/v1/messages/{message_id}/history``, oldest first"""

    message_id: str
    versions: list[MessageVersion]


class MovePreview(msgspec.Struct, frozen=True):
    """What a move would take along if it were made now."""

    count: int
    first_message_id: str | None
    last_message_id: str | None
    from_topic_id: str
    to_topic_id: str


class SearchHits(msgspec.Struct, frozen=True):
    """Messages that match, best first with the index, newest first without."""

    messages: list[Message]
    has_more: bool
    fts_used: bool
    cursor: str | None = None


class ChannelResult(msgspec.Struct, frozen=True, omit_defaults=True):
    channel: Channel
    event_id: int
    duplicate: bool = False


class TopicResult(msgspec.Struct, frozen=True, omit_defaults=True):
    topic: Topic
    event_id: int
    duplicate: bool = False


class MessageResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """``event_id`` is null when nothing had to be done."""

    message: Message
    event_id: int | None
    duplicate: bool = False


class MoveResult(msgspec.Struct, frozen=True, omit_defaults=True):
    affected_count: int
    event_ids: list[int]
    duplicate: bool = False


class AttachmentResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """``event_id`` is null when the attachment was already there."""

    attachment: Attachment
    event_id: int | None
    duplicate: bool = False


class FindingsResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """``POST /api/v1/messages/{message_id}/findings``"""

    message_id: str
    plugin_name: str
    version: int
    event_id: int | None
    """The last event that it wrote; null when all of it was there already."""
    duplicate: bool = False


class AgentResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """``event_id`` is null when nothing changed but the last sign of life."""

    agent: Agent
    event_id: int | None
    duplicate: bool = False


class OneAgent(msgspec.Struct, frozen=True):
    """``GET /api/v1/agents/{name}``"""

    agent: Agent


class Agents(msgspec.Struct, frozen=True):
    """Agents, the one last seen first."""

    agents: list[Agent]
    cursor: str | None = None


class TaskResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """``event_id`` is null for a renewal, and when nothing had to be done."""

    task: Task
    event_id: int | None
    duplicate: bool = False


class NextTask(msgspec.Struct, frozen=True, omit_defaults=True):
    """``POST /api/v1/tasks/claim_next``; ``task`` is null when none is open."""

    task: Task | None
    event_id: int | None
    duplicate: bool = False


class OneTask(msgspec.Struct, frozen=True):
    """``GET /api/v1/tasks/{task_id}``"""

    task: Task


class Tasks(msgspec.Struct, frozen=True):
    """Tasks, newest first."""

    tasks: list[Task]
    has_more: bool
    cursor: str | None = None


class LeaseResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """``event_id`` is null for a renewal, also one by acquiring again what the holder has already."""

    lease: Lease
    event_id: int | None
    duplicate: bool = False


class OneLease(msgspec.Struct, frozen=True):
    """``GET /api/v1/leases/{lease_id}``"""

    lease: Lease


class Leases(msgspec.Struct, frozen=True):
    """Leases, newest first."""

    leases: list[Lease]
    has_more: bool
    cursor: str | None = None


class PathsChecked(msgspec.Struct, frozen=True):
    """``POST /api/v1/leases/check``; ``hits`` is empty when every path is free."""

    checked: int
    hits: list[LeaseHit]


class TokenRotated(msgspec.Struct, frozen=True):
    """The new token is in the token file, never in an answer."""

    rotated: bool
    grace_seconds: float


class PageLink(msgspec.Struct, frozen=True):
    """``POST /api/v1/ui/code``: a one-time code, and the link of the page that holds it."""

    code: str
    expires_in_seconds: int
    url: str


class PageSession(msgspec.Struct, frozen=True):
    """``GET /api/v1/ui/session``: what the page of a caller who is logged in shows of the hub."""

    db_id: str
    instance_id: str
    workspace_name: str
    version: str


class LoggedIn(msgspec.Struct, frozen=True):
    """``POST /ui/login``: the session is in the cookie."""

    ok: bool
    db_id: str


class LoggedOut(msgspec.Struct, frozen=True):
    """``POST /ui/logout``"""

    ok: bool
