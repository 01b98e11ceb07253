"""Request bodies of the hub's API. Unknown members are ignored, so that newer clients can talk to older hubs."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from parley.core import limits
from parley.wire.entities import Span

_END = r"(?![\s\S])"
"""The very end of a text, for Python and for readers of the OpenAPI document alike; ``$`` lets a line break pass."""
_NO_CONTROLS = rf"^[^\x00-\x1f\x7f]*{_END}"
_NOT_BLANK = rf"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*{_END}"
_PRINTABLE = rf"^[\x21-\x7e]+{_END}"
_ID = rf"^[A-Za-z0-9_-]{{1,64}}{_END}"
_ID_WORDS = "1 to 64 of A-Z, a-z, 0-9, _ and -"

PATTERN_WORDS: Final = {
    _NO_CONTROLS: "must not contain control characters",
    _NOT_BLANK: "must not be blank or contain control characters",
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
