"""Request bodies of the local API. Unknown members are ignored, so that newer clients can talk to older daemons."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from parley.core import limits, untrusted_json
from parley.core.canonical import repeated_key
from parley.core.daemon_errors import MetaKeyRepeated
from parley.core.errors import InvalidInput
from parley.daemon.profile import Capabilities, Line, Paragraph
from parley.daemon.sessions import SessionId
from parley.wire.broker import REFERENCE_PATTERN, Key, Presence, Priority
from parley.wire.mesh_http import DisplayName
from parley.wire.mesh_methods import Topic
from parley.wire.requests import ClientKey, Id

To = Annotated[str, Meta(min_length=1, max_length=limits.DESTINATION_CHARS_MAX + 1, pattern=REFERENCE_PATTERN)]
Mentions = Annotated[list[Key], Meta(max_length=limits.MENTIONS_MAX)]
Metadata = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]
NO_META: Final = msgspec.Raw(b"{}")
Ids = Annotated[list[str], Meta(max_length=limits.PAGE_LIMIT_MAX)]


class SendBody(msgspec.Struct, frozen=True):
    """``POST /v1/send``"""

    to: To
    message: str
    priority: Priority = "next"
    meta: Metadata = msgspec.field(default_factory=lambda: NO_META)
    reply_to_id: Id | None = None
    replyToId: Id | None = None  # noqa: N815  the older spelling
    mentions: Mentions = []
    client_message_id: ClientKey | None = None
    mesh: str | None = None
    to_session: SessionId | None = None


class TopicPost(msgspec.Struct, frozen=True):
    """``POST /v1/topic/post``"""

    topic: Topic
    message: str
    priority: Priority = "next"
    meta: Metadata = msgspec.field(default_factory=lambda: NO_META)
    reply_to_id: Id | None = None
    mentions: Mentions = []
    client_message_id: ClientKey | None = None
    mesh: str | None = None
    to_session: SessionId | None = None


def meta_of(given: msgspec.Raw) -> dict[str, Any]:
    """A message's metadata, which a body holds as it came: decoded, a key that was given twice could not be seen.

    Raises ``MetaKeyRepeated`` and ``InvalidInput``.
    """
    if given == NO_META:
        return {}
    try:
        meta = untrusted_json.decode(bytes(given), dict[str, Any])
    except msgspec.DecodeError:
        raise InvalidInput("meta must be a JSON object", field="meta") from None
    repeated = repeated_key(bytes(given))
    if repeated is not None:
        raise MetaKeyRepeated(f"meta has the key {repeated!r} twice", field="meta", key=repeated)
    return meta


class TopicName(msgspec.Struct, frozen=True):
    """``POST /v1/topic/subscribe`` and ``/unsubscribe``"""

    topic: Topic
    mesh: str | None = None


class Seen(msgspec.Struct, frozen=True):
    """``POST /v1/inbox/seen``"""

    ids: Ids


class Requeue(msgspec.Struct, frozen=True):
    """``POST /v1/outbox/requeue``"""

    id: str
    new_client_message_id: ClientKey | None = None
    message: str | None = None
    """Takes the place of what the message said."""
    force: bool = False
    aborted_by: Annotated[str, Meta(min_length=1, max_length=200)] = "operator"


class Drop(msgspec.Struct, frozen=True):
    """``POST /v1/outbox/drop``"""

    id: str
    force: bool = False
    aborted_by: Annotated[str, Meta(min_length=1, max_length=200)] = "operator"


class Prune(msgspec.Struct, frozen=True):
    """``POST /v1/outbox/prune``"""

    older_than_days: Annotated[float, Meta(ge=0, le=36_500)]


class Profile(msgspec.Struct, frozen=True):
    """``POST /v1/profile``"""

    status: Presence | None = None
    summary: Line | None = None
    title: Line | None = None
    bio: Paragraph | None = None
    avatar: Line | None = None
    capabilities: Capabilities | None = None
    visible: bool | None = None
    mesh: str | None = None


class MeshCall(msgspec.Struct, frozen=True):
    """``POST /v1/mesh/call``"""

    method: str
    params: dict[str, Any] = {}
    mesh: str | None = None


class MakeInvite(msgspec.Struct, frozen=True):
    """``POST /v1/mesh/invite``"""

    role: Literal["owner", "admin", "member"] = "member"
    uses: Annotated[int, Meta(ge=1, le=limits.INVITE_USES_MAX)] = 1
    hours: Annotated[float, Meta(gt=0, le=24 * 365)] = 168.0
    mesh: str | None = None


class Join(msgspec.Struct, frozen=True):
    """``POST /v1/mesh/join``"""

    invite: Annotated[str, Meta(max_length=limits.INVITE_CHARS_MAX)]
    name: DisplayName


class OfMesh(msgspec.Struct, frozen=True):
    """A mesh, by its id or slug; the only one when it is left out."""

    mesh: str | None = None
