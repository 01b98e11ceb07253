"""Request bodies of the hub's API. Unknown members are ignored, so that newer clients can talk to older hubs."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from parley.core import limits
from parley.wire.entities import LeaseMode, Span

_END = r"(?![\s\S])"
"""The very end of a text, for Python and for readers of the OpenAPI document alike; ``$`` lets a line break pass."""
_NO_CONTROLS = rf"^[^\x00-\x1f\x7f]*{_END}"
_NOT_BLANK = rf"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*{_END}"
_AGENT_NAME = rf"^[A-Za-z0-9][A-Za-z0-9._-]*{_END}"
_PRINTABLE = rf"^[\x21-\x7e]+{_END}"
_ID = rf"^[A-Za-z0-9_-]{{1,64}}{_END}"
_ID_WORDS = "1 to 64 of A-Z, a-z, 0-9, _ and -"

PATTERN_WORDS: Final = {
    _NO_CONTROLS: "must not contain control characters",
    _NOT_BLANK: "must not be blank or contain control characters",
    _AGENT_NAME: "must be letters, digits, '.', '_' and '-', and begin with a letter or a digit",
    _PRINTABLE: "must be printable ASCII without blanks",
    _ID: f"must be {_ID_WORDS}",
}
"""What a person is told instead of a pattern that a text does not match."""

Id = Annotated[str, Meta(pattern=_ID, description=_ID_WORDS)]
Name = Annotated[str, Meta(min_length=1, max_length=limits.CHANNEL_NAME_CHARS_MAX, pattern=_NOT_BLANK)]
Title = Annotated[str, Meta(min_length=1, max_length=limits.TOPIC_TITLE_CHARS_MAX, pattern=_NOT_BLANK)]
Sender = Annotated[str, Meta(min_length=1, max_length=limits.SENDER_CHARS_MAX, pattern=_NOT_BLANK)]
Kind = Annotated[str, Meta(min_length=1, max_length=limits.KIND_CHARS_MAX, pattern=_NOT_BLANK)]
AttachmentKey = Annotated[str, Meta(max_length=limits.ATTACHMENT_KEY_CHARS_MAX, pattern=_NO_CONTROLS)]
DedupeKey = Annotated[str, Meta(min_length=1, max_length=limits.DEDUPE_KEY_CHARS_MAX)]
LoginCode = Annotated[str, Meta(min_length=1, max_length=limits.LOGIN_CODE_CHARS_MAX)]
ClientKey = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=limits.IDEMPOTENCY_KEY_CHARS_MAX,
        pattern=_PRINTABLE,
        description="printable ASCII",
    ),
]
AgentName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=limits.AGENT_NAME_CHARS_MAX,
        pattern=_AGENT_NAME,
        description="letters, digits, '.', '_' and '-', beginning with a letter or a digit",
    ),
]
AgentText = Annotated[str, Meta(min_length=1, max_length=limits.AGENT_TEXT_CHARS_MAX, pattern=_NOT_BLANK)]
Reason = Annotated[str, Meta(min_length=1, max_length=limits.REASON_CHARS_MAX, pattern=_NOT_BLANK)]
TaskText = Annotated[str, Meta(max_length=limits.TASK_TEXT_CHARS_MAX)]
PathText = Annotated[str, Meta(min_length=1, max_length=limits.PATTERN_CHARS_MAX)]
Patterns = Annotated[list[PathText], Meta(min_length=1, max_length=limits.PATTERNS_MAX)]
Seconds = Annotated[int, Meta(ge=1, le=limits.VERSION_MAX)]
Generation = Annotated[int, Meta(ge=0, le=limits.VERSION_MAX)]
Version = Annotated[int, Meta(ge=1, le=limits.VERSION_MAX)]
ReadVersion = Annotated[int, Meta(ge=1, le=limits.VERSION_MAX, description="the version that the plugin read")]
EventCursor = Annotated[int, Meta(ge=0, le=limits.VERSION_MAX, description="messages changed after this event")]
PluginName = Annotated[str, Meta(min_length=1, max_length=limits.PLUGIN_NAME_CHARS_MAX, pattern=_NOT_BLANK)]
Content = Annotated[str, Meta(description="at most limits.message_bytes_max bytes of UTF-8")]
EditedContent = Annotated[str, Meta(min_length=1, description="at most limits.message_bytes_max bytes of UTF-8")]


class Ping(msgspec.Struct, frozen=True):
    """``POST /api/v1/_ping``"""

    echo: Any = msgspec.UNSET


class CreateChannel(msgspec.Struct, frozen=True):
    """``POST /api/v1/channels``"""

    name: Name
    description: Annotated[str, Meta(max_length=limits.DESCRIPTION_CHARS_MAX)] | None = None


class CreateTopic(msgspec.Struct, frozen=True):
    """``POST /api/v1/topics``"""

    channel_id: Id
    title: Title


class RenameTopic(msgspec.Struct, frozen=True):
    """``PATCH /api/v1/topics/{topic_id}``"""

    title: Title


class CreateMessage(msgspec.Struct, frozen=True):
    """``POST /api/v1/messages``"""

    topic_id: Id
    sender: Sender
    content_raw: Content
    reply_to: Id | None = None
    client_message_id: ClientKey | None = None


class EditMessage(msgspec.Struct, frozen=True, tag_field="op", tag="edit"):
    """``PATCH /api/v1/messages/{message_id}`` with ``op: edit``"""

    content_raw: EditedContent
    expected_version: Version | None = None


class DeleteMessage(msgspec.Struct, frozen=True, tag_field="op", tag="delete"):
    """``PATCH /api/v1/messages/{message_id}`` with ``op: delete``"""

    actor: Sender
    expected_version: Version | None = None


MoveMode = Literal["one", "later", "all"]


class MoveMessage(msgspec.Struct, frozen=True, tag_field="op", tag="move_topic"):
    """``PATCH /api/v1/messages/{message_id}`` with ``op: move_topic``"""

    to_topic_id: Id
    mode: MoveMode
    expected_version: Version | None = None


PatchMessage = EditMessage | DeleteMessage | MoveMessage


class AddAttachment(msgspec.Struct, frozen=True):
    """``POST /api/v1/topics/{topic_id}/attachments``"""

    kind: Kind
    value_json: dict[str, Any]
    key: AttachmentKey | None = None
    dedupe_key: DedupeKey | None = None
    source_message_id: Id | None = None


class FoundEnrichment(msgspec.Struct, frozen=True):
    """Something in a part of a message's content, as ``POST /api/v1/messages/{message_id}/findings`` takes it."""

    kind: Kind
    span: Span
    data: dict[str, Any] = {}


class FoundAttachment(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something for a message's topic, as ``POST /api/v1/messages/{message_id}/findings`` takes it."""

    kind: Kind
    value_json: dict[str, Any]
    key: AttachmentKey | None = None
    dedupe_key: DedupeKey | None = None


class StoreFindings(msgspec.Struct, frozen=True):
    """``POST /api/v1/messages/{message_id}/findings``; one of the two lists is needed, and may be empty"""

    plugin_name: PluginName
    version: ReadVersion
    enrichments: Annotated[list[FoundEnrichment], Meta(max_length=limits.ENRICHMENTS_PER_MESSAGE_MAX)] | None = None
    attachments: Annotated[list[FoundAttachment], Meta(max_length=limits.EXTRACTED_PER_MESSAGE_MAX)] | None = None


class Login(msgspec.Struct, frozen=True):
    """``POST /ui/login``"""

    code: LoginCode


class ReEnrich(msgspec.Struct, frozen=True):
    """``POST /api/v1/plugins/re_enrich``"""

    since_event_id: EventCursor
    plugin_name: PluginName | None = None


class RegisterAgent(msgspec.Struct, frozen=True):
    """``POST /api/v1/agents``"""

    name: AgentName | None = None
    """Without one, that of the same session, or a new one that the hub makes up."""
    program: AgentText | None = None
    model: AgentText | None = None
    session: AgentText | None = None
    force: bool = False
    """Takes the name from another session that seems to be alive."""


class HeartbeatAgent(msgspec.Struct, frozen=True, tag_field="op", tag="heartbeat"):
    """``PATCH /api/v1/agents/{name}`` with ``op: heartbeat``"""

    session: AgentText | None = None
    """If given, the session that must go by the name."""


class LeaveAgent(msgspec.Struct, frozen=True, tag_field="op", tag="leave"):
    """``PATCH /api/v1/agents/{name}`` with ``op: leave``"""

    session: AgentText | None = None
    reason: Reason | None = None


PatchAgent = HeartbeatAgent | LeaveAgent


class CreateTask(msgspec.Struct, frozen=True):
    """``POST /api/v1/tasks``; with a topic, its companion, else a topic of the same title is made in the channel"""

    title: Title
    created_by: Sender
    description: TaskText | None = None
    channel_id: Id | None = None
    topic_id: Id | None = None


class ClaimNext(msgspec.Struct, frozen=True):
    """``POST /api/v1/tasks/claim_next``"""

    holder: Sender
    channel_id: Id | None = None
    ttl_seconds: Seconds | None = None


class ClaimTask(msgspec.Struct, frozen=True, tag_field="op", tag="claim"):
    """``PATCH /api/v1/tasks/{task_id}`` with ``op: claim``"""

    holder: Sender
    ttl_seconds: Seconds | None = None


class RenewTask(msgspec.Struct, frozen=True, tag_field="op", tag="renew"):
    """``PATCH /api/v1/tasks/{task_id}`` with ``op: renew``"""

    holder: Sender
    generation: Generation
    ttl_seconds: Seconds | None = None


class ReleaseTask(msgspec.Struct, frozen=True, tag_field="op", tag="release"):
    """``PATCH /api/v1/tasks/{task_id}`` with ``op: release``"""

    holder: Sender
    generation: Generation
    reason: Reason | None = None


class CompleteTask(msgspec.Struct, frozen=True, tag_field="op", tag="complete"):
    """``PATCH /api/v1/tasks/{task_id}`` with ``op: complete``"""

    holder: Sender
    generation: Generation
    result: TaskText | None = None


class CancelTask(msgspec.Struct, frozen=True, tag_field="op", tag="cancel"):
    """``PATCH /api/v1/tasks/{task_id}`` with ``op: cancel``"""

    actor: Sender
    reason: Reason | None = None


class TakeOverTask(msgspec.Struct, frozen=True, tag_field="op", tag="take_over"):
    """``PATCH /api/v1/tasks/{task_id}`` with ``op: take_over``"""

    holder: Sender
    reason: Reason | None = None
    """Needed with ``force``."""
    force: bool = False
    """Takes the task also from a holder whose claim has not ended."""
    ttl_seconds: Seconds | None = None


PatchTask = ClaimTask | RenewTask | ReleaseTask | CompleteTask | CancelTask | TakeOverTask


class AcquireLease(msgspec.Struct, frozen=True):
    """``POST /api/v1/leases``: all of the patterns or none"""

    holder: Sender
    patterns: Patterns
    mode: LeaseMode = "exclusive"
    reason: Reason | None = None
    ttl_seconds: Seconds | None = None


class RenewLease(msgspec.Struct, frozen=True, tag_field="op", tag="renew"):
    """``PATCH /api/v1/leases/{lease_id}`` with ``op: renew``"""

    holder: Sender
    generation: Generation
    ttl_seconds: Seconds | None = None


class ReleaseLease(msgspec.Struct, frozen=True, tag_field="op", tag="release"):
    """``PATCH /api/v1/leases/{lease_id}`` with ``op: release``"""

    holder: Sender
    generation: Generation
    reason: Reason | None = None


PatchLease = RenewLease | ReleaseLease


class CheckPaths(msgspec.Struct, frozen=True):
    """``POST /api/v1/leases/check``"""

    paths: Annotated[list[PathText], Meta(max_length=limits.CHECKED_PATHS_MAX)]
    holder: Sender | None = None
    """Whose own leases are not in the way."""
    mode: LeaseMode = "shared"
    """What the caller is about to do: ``shared`` meets exclusive leases only, ``exclusive`` every one."""
