"""What a daemon's local API is asked with. Unknown members are ignored: newer clients can talk to older daemons.

A member that has its default is left out when it is sent.
"""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from parley.core import limits
from parley.wire.broker import REFERENCE_PATTERN, Key, Presence, Priority
from parley.wire.mesh_http import DisplayName, Slug
from parley.wire.mesh_methods import Topic
from parley.wire.requests import ClientKey, Id

_CLEAR = r"^[^\x00-\x1f\x7f]*(?![\s\S])"
Line = Annotated[str, Meta(max_length=limits.REASON_CHARS_MAX, pattern=_CLEAR)]
Paragraph = Annotated[str, Meta(max_length=limits.DESCRIPTION_CHARS_MAX)]
Capabilities = Annotated[list[Annotated[str, Meta(min_length=1, max_length=100, pattern=_CLEAR)]], Meta(max_length=32)]
SessionId = Annotated[str, Meta(min_length=1, max_length=200)]
To = Annotated[str, Meta(min_length=1, max_length=limits.DESTINATION_CHARS_MAX + 1, pattern=REFERENCE_PATTERN)]
Mentions = Annotated[list[Key], Meta(max_length=limits.MENTIONS_MAX)]
Metadata = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]
NO_META: Final = msgspec.Raw(b"{}")
Ids = Annotated[list[str], Meta(max_length=limits.PAGE_LIMIT_MAX)]


class MessageBody(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a message is sent with, wherever it goes."""

    message: str
    priority: Priority = "next"
    meta: Metadata = msgspec.field(default_factory=lambda: NO_META)
    """As it came: once decoded, a key that was given twice could not be seen."""
    reply_to_id: Id | None = None
    mentions: Mentions = []
    client_message_id: ClientKey | None = None
    mesh: str | None = None
    to_session: SessionId | None = None


class SendBody(MessageBody, frozen=True, omit_defaults=True, kw_only=True):
    """``POST /v1/send``"""

    to: To
    replyToId: Id | None = None  # noqa: N815  the older spelling


class TopicPost(MessageBody, frozen=True, omit_defaults=True, kw_only=True):
    """``POST /v1/topic/post``"""

    topic: Topic


class TopicName(msgspec.Struct, frozen=True, omit_defaults=True):
    """``POST /v1/topic/subscribe`` and ``/unsubscribe``"""

    topic: Topic
    mesh: str | None = None


class Seen(msgspec.Struct, frozen=True, omit_defaults=True):
    """``POST /v1/inbox/seen``"""

    ids: Ids


class Requeue(msgspec.Struct, frozen=True, omit_defaults=True):
    """``POST /v1/outbox/requeue``"""

    id: str
    new_client_message_id: ClientKey | None = None
    message: str | None = None
    """Takes the place of what the message said."""
    force: bool = False
    aborted_by: Annotated[str, Meta(min_length=1, max_length=200)] = "operator"


class Drop(msgspec.Struct, frozen=True, omit_defaults=True):
    """``POST /v1/outbox/drop``"""

    id: str
    force: bool = False
    aborted_by: Annotated[str, Meta(min_length=1, max_length=200)] = "operator"


class Prune(msgspec.Struct, frozen=True, omit_defaults=True):
    """``POST /v1/outbox/prune``"""

    older_than_days: Annotated[float, Meta(ge=0, le=36_500)]


class Profile(msgspec.Struct, frozen=True, omit_defaults=True):
    """``POST /v1/profile``"""

    status: Presence | None = None
    summary: Line | None = None
    title: Line | None = None
    bio: Paragraph | None = None
    avatar: Line | None = None
    capabilities: Capabilities | None = None
    visible: bool | None = None
    mesh: str | None = None


class MeshCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """``POST /v1/mesh/call``"""

    method: str
    params: dict[str, Any] = {}
    mesh: str | None = None


class Found(msgspec.Struct, frozen=True, omit_defaults=True):
    """``POST /v1/mesh/found``"""

    broker: Annotated[str, Meta(min_length=1, max_length=limits.INVITE_TEXT_CHARS_MAX)]
    slug: Slug
    name: str
    title: DisplayName | None = None
    creation_token: str | None = None


class Rename(msgspec.Struct, frozen=True, omit_defaults=True):
    """``POST /v1/mesh/rename``"""

    name: str
    mesh: str | None = None


class Verify(msgspec.Struct, frozen=True, omit_defaults=True):
    """``POST /v1/mesh/verify``"""

    peer: str
    confirm: bool = False
    """Whether the numbers were compared and are the same."""
    mesh: str | None = None


class MakeInvite(msgspec.Struct, frozen=True, omit_defaults=True):
    """``POST /v1/mesh/invite``"""

    role: Literal["owner", "admin", "member"] = "member"
    uses: Annotated[int, Meta(ge=1, le=limits.INVITE_USES_MAX)] = 1
    hours: Annotated[float, Meta(gt=0, le=24 * 365)] = 168.0
    mesh: str | None = None


class Join(msgspec.Struct, frozen=True, omit_defaults=True):
    """``POST /v1/mesh/join``"""

    invite: Annotated[str, Meta(max_length=limits.INVITE_CHARS_MAX)]
    name: DisplayName


class OfMesh(msgspec.Struct, frozen=True, omit_defaults=True):
    """A mesh, by its id or slug; the only one when it is left out."""

    mesh: str | None = None


class Register(msgspec.Struct, frozen=True, omit_defaults=True):
    """``POST /v1/sessions/register``"""

    token: Key
    session_id: SessionId
    display_name: Annotated[str, Meta(max_length=200)] = ""
    mesh: str | None = None
    pid: Annotated[int, Meta(ge=1)] | None = None
    cwd: Annotated[str, Meta(max_length=4096)] | None = None
    role: Annotated[str, Meta(max_length=200)] | None = None
    groups: Annotated[list[str], Meta(max_length=50)] = []
