"""Every route of the local API, in the order of the docs."""

from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec

from parley.core.broker_errors import (
    CreationRefused,
    InviteRefused,
    MembershipEnded,
    NoRoster,
    NoSuchDestination,
    NotAllowed,
    QuotaExceeded,
    RosterRefused,
    RosterTooSoon,
)
from parley.core.daemon_errors import (
    DaemonBusy,
    DestinationUnknown,
    HookRefused,
    IdempotencyKeyConflict,
    InsufficientStorage,
    MeshKeyMissing,
    MeshNotAttached,
    MeshRequired,
    MeshUnreachable,
    MetaKeyRepeated,
    NameTaken,
    NoMeshJoined,
    OutboxConflict,
    RosterSplit,
    RowNotFound,
    RowSpent,
    TokenInQuery,
    TooManyStreams,
)
from parley.core.errors import CursorExpired, IdempotencyKeyReused, NotFound, PayloadTooLarge
from parley.core.limits import INBOX_WAIT_SECONDS_MAX, PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX, VERSION_MAX
from parley.daemon.http import about, meshes, messages, rosters, stream
from parley.daemon.outbox.rows import STATUSES
from parley.serve.endpoint import Answer, Call, Endpoint, Param
from parley.serve.openapi import About, openapi_document
from parley.wire import daemon_answers as answers
from parley.wire import daemon_requests as requests

if TYPE_CHECKING:
    from parley.daemon.daemon import Daemon

ABOUT: Final = About("Parley daemon", "The local API of one user's daemon", errors=(TokenInQuery, DaemonBusy))


async def get_openapi(daemon: "Daemon", call: Call) -> Answer:
    return Answer(200, _document())


_MESH: Final = Param("mesh", "string", "a mesh, by its id or slug")
_CURSOR: Final = Param("before", "integer", "the `cursor` of an earlier answer: what is older", None, 0, VERSION_MAX)
_INBOX: Final = (
    _MESH,
    Param("since", "string", "an ISO 8601 time: only what arrived from then on"),
    Param("topic", "string", "only what was sent to this topic"),
    Param("from", "string", "only of this sender, by name or key"),
    Param("unread_only", "boolean", "only what nobody has seen", False),
    Param("limit", "integer", "messages", messages.INBOX_LIMIT_DEFAULT, 1, messages.INBOX_LIMIT_MAX),
    _CURSOR,
)
_MESH_ERRORS: Final = (MeshNotAttached, MeshRequired)
_BROKER_ERRORS: Final = (*_MESH_ERRORS, MeshUnreachable, MembershipEnded)
_SEND_ERRORS: Final = (
    *_BROKER_ERRORS,
    NotFound,
    DestinationUnknown,
    NoMeshJoined,
    IdempotencyKeyConflict,
    IdempotencyKeyReused,
    MetaKeyRepeated,
    PayloadTooLarge,
    HookRefused,
    InsufficientStorage,
    MeshKeyMissing,
)

ENDPOINTS: "Final[tuple[Endpoint[Daemon], ...]]" = (
    Endpoint("GET", "/openapi.json", get_openapi, "this API as an OpenAPI document", {200: dict}),
    Endpoint(
        "GET",
        "/v1/version",
        about.get_version,
        "versions, and what was agreed with each broker",
        {200: answers.DaemonVersion},
    ),
    Endpoint("GET", "/v1/health", about.get_health, "how the daemon is", {200: answers.DaemonHealth}),
    Endpoint("GET", "/v1/compat", about.get_compat, "what this daemon works with", {200: answers.Compatibility}),
    Endpoint(
        "GET",
        "/v1/metrics",
        about.get_metrics,
        "metrics in Prometheus' text form",
        {200: bytes},
        content_type="text/plain",
    ),
    Endpoint("POST", "/v1/heartbeat", about.post_heartbeat, "is anybody there?", {200: answers.Heartbeat}),
    Endpoint(
        "POST",
        "/v1/send",
        messages.post_send,
        "send a message",
        {200: answers.SendResult, 202: answers.SendResult},
        _SEND_ERRORS,
        body=requests.SendBody,
        takes_key=True,
    ),
    Endpoint(
        "POST",
        "/v1/topic/post",
        messages.post_topic,
        "send a message to a topic",
        {200: answers.SendResult, 202: answers.SendResult},
        _SEND_ERRORS,
        body=requests.TopicPost,
        takes_key=True,
    ),
    Endpoint(
        "POST",
        "/v1/topic/subscribe",
        meshes.post_subscribe,
        "get what is sent to a topic",
        {200: answers.Subscription},
        _BROKER_ERRORS,
        body=requests.TopicName,
    ),
    Endpoint(
        "POST",
        "/v1/topic/unsubscribe",
        meshes.post_unsubscribe,
        "get no more of a topic",
        {200: answers.Subscription},
        _BROKER_ERRORS,
        body=requests.TopicName,
    ),
    Endpoint(
        "GET",
        "/v1/topic/list",
        meshes.get_topics,
        "the topics of a mesh",
        {200: answers.TopicList},
        _BROKER_ERRORS,
        (_MESH,),
    ),
    Endpoint(
        "GET",
        "/v1/inbox",
        messages.get_inbox,
        "what arrived, newest first",
        {200: answers.InboxPage},
        (*_MESH_ERRORS, NotFound),
        (
            *_INBOX,
            Param("mark_seen", "boolean", "whether what is shown counts as seen", True),
            Param("wait_seconds", "integer", "wait so long for something to arrive", 0, 0, INBOX_WAIT_SECONDS_MAX),
        ),
        may_take_long=True,
    ),
    Endpoint(
        "GET",
        "/v1/inbox/search",
        messages.search_inbox,
        "what arrived and holds these words",
        {200: answers.InboxPage},
        (*_MESH_ERRORS, NotFound),
        (Param("q", "string", "the words", required=True), *_INBOX),
    ),
    Endpoint(
        "POST",
        "/v1/inbox/seen",
        messages.post_seen,
        "mark messages as seen",
        {200: answers.MarkedSeen},
        body=requests.Seen,
    ),
    Endpoint(
        "DELETE",
        "/v1/inbox",
        messages.delete_inbox,
        "throw away what arrived in a mesh, before a time, or all",
        {200: answers.Removed},
        _MESH_ERRORS,
        (
            _MESH,
            Param("before", "string", "an ISO 8601 time: only what arrived earlier"),
            Param("all", "boolean", "needed where neither a mesh nor a time is named", False),
        ),
    ),
    Endpoint(
        "DELETE",
        "/v1/inbox/{id}",
        messages.delete_message,
        "throw one message away",
        {200: answers.Removed},
        (NotFound,),
    ),
    Endpoint(
        "GET",
        "/v1/outbox",
        messages.get_outbox,
        "what was to be sent, newest first",
        {200: answers.OutboxPage},
        _MESH_ERRORS,
        (
            _MESH,
            Param("status", "string", f"only rows that are {', '.join(STATUSES)}"),
            Param("reached", "boolean", "ask the brokers who has each message", False),
            Param("limit", "integer", "rows", messages.OUTBOX_LIMIT_DEFAULT, 1, messages.OUTBOX_LIMIT_MAX),
            _CURSOR,
        ),
    ),
    Endpoint(
        "GET",
        "/v1/outbox/{id}",
        messages.get_row,
        "one row, with all that it replaced and was replaced by",
        {200: answers.OutboxDetail},
        (RowNotFound,),
    ),
    Endpoint(
        "POST",
        "/v1/outbox/requeue",
        messages.post_requeue,
        "send a row's message anew",
        {200: answers.Requeued},
        (
            RowNotFound,
            RowSpent,
            OutboxConflict,
            PayloadTooLarge,
            HookRefused,
            InsufficientStorage,
            *_MESH_ERRORS,
            MeshKeyMissing,
        ),
        body=requests.Requeue,
    ),
    Endpoint(
        "POST",
        "/v1/outbox/drop",
        messages.post_drop,
        "give a row up",
        {200: answers.OutboxItem},
        (RowNotFound, OutboxConflict),
        body=requests.Drop,
    ),
    Endpoint(
        "POST",
        "/v1/outbox/prune",
        messages.post_prune,
        "forget what old messages said",
        {200: answers.Pruned},
        body=requests.Prune,
    ),
    Endpoint(
        "GET",
        "/v1/peers",
        meshes.get_peers,
        "who is in the meshes, and what they are doing",
        {200: answers.Peers},
        (*_MESH_ERRORS, MembershipEnded),
        (_MESH,),
    ),
    Endpoint(
        "POST",
        "/v1/profile",
        meshes.post_profile,
        "say what the member is doing",
        {200: answers.ProfileResult},
        (*_BROKER_ERRORS, MeshKeyMissing),
        body=requests.Profile,
    ),
    Endpoint(
        "GET",
        "/v1/events",
        stream.get_events,
        "the daemon's log, as server-sent events",
        {200: bytes},
        (*_MESH_ERRORS, NotFound, CursorExpired, TooManyStreams),
        (_MESH, Param("after", "string", "the number of an event: what comes after it; as `Last-Event-ID`")),
        content_type="text/event-stream",
    ),
    Endpoint("GET", "/v1/sessions", meshes.get_sessions, "the local sessions", {200: answers.SessionList}),
    Endpoint(
        "GET",
        "/v1/sessions/me",
        meshes.get_own_session,
        "the session of the caller's token",
        {200: answers.SessionItem},
        (NotFound,),
    ),
    Endpoint(
        "POST",
        "/v1/sessions/register",
        meshes.post_session,
        "begin or renew a session",
        {200: answers.SessionRegistered},
        _MESH_ERRORS,
        body=requests.Register,
    ),
    Endpoint("DELETE", "/v1/sessions/{token}", meshes.delete_session, "end a session", {200: answers.SessionEnded}),
    Endpoint("GET", "/v1/meshes", meshes.get_meshes, "the meshes that the daemon serves", {200: answers.MeshStates}),
    Endpoint(
        "POST",
        "/v1/mesh/join",
        meshes.post_join,
        "become a member by an invite",
        {200: answers.MeshState},
        (MeshUnreachable, InviteRefused, NameTaken, QuotaExceeded),
        body=requests.Join,
    ),
    Endpoint(
        "POST",
        "/v1/mesh/invite",
        meshes.post_invite,
        "make an invite",
        {200: answers.InviteMade},
        (*_BROKER_ERRORS, MeshKeyMissing, NotAllowed, InviteRefused),
        body=requests.MakeInvite,
    ),
    Endpoint(
        "POST",
        "/v1/mesh/call",
        meshes.post_call,
        "call a method of the broker",
        {200: dict},
        (
            *(*_BROKER_ERRORS, NotFound, DestinationUnknown, NotAllowed, NoSuchDestination, NoRoster, InviteRefused),
            *(RosterRefused, RosterSplit, RosterTooSoon),
        ),
        body=requests.MeshCall,
    ),
    Endpoint(
        "POST",
        "/v1/mesh/found",
        rosters.post_found,
        "found a mesh, and have a broker carry it",
        {200: answers.MeshState},
        (MeshUnreachable, CreationRefused, QuotaExceeded),
        body=requests.Found,
    ),
    Endpoint(
        "GET",
        "/v1/mesh/info",
        rosters.get_info,
        "how a mesh's roster stands",
        {200: answers.MeshInfo},
        (*_MESH_ERRORS, MeshUnreachable, NoRoster),
        (_MESH,),
    ),
    Endpoint(
        "GET",
        "/v1/mesh/log",
        rosters.get_log,
        "who let whom in, and what else was said in a mesh's roster",
        {200: answers.MeshLog},
        (*_MESH_ERRORS, MeshUnreachable, NoRoster),
        (
            _MESH,
            Param("after", "integer", "the number of an entry: only those that follow it", -1, -1, VERSION_MAX),
            Param("limit", "integer", "entries", PAGE_LIMIT_DEFAULT, 1, PAGE_LIMIT_MAX),
        ),
    ),
    Endpoint(
        "POST",
        "/v1/mesh/rename",
        rosters.post_rename,
        "go by another name in a mesh",
        {200: answers.MemberRenamed},
        (*_BROKER_ERRORS, NoRoster, NameTaken, RosterSplit, RosterRefused),
        body=requests.Rename,
    ),
    Endpoint(
        "POST",
        "/v1/mesh/settle",
        rosters.post_settle,
        "say which of two rosters counts: the one that the broker serves now",
        {200: answers.MeshSettled},
        (*_BROKER_ERRORS, NoRoster, NotAllowed, RosterRefused),
        body=requests.OfMesh,
    ),
    Endpoint(
        "POST",
        "/v1/mesh/verify",
        rosters.post_verify,
        "the number that two members compare, and whether they have",
        {200: answers.MemberVerified},
        (*_BROKER_ERRORS, NoRoster, DestinationUnknown),
        body=requests.Verify,
    ),
    Endpoint(
        "POST",
        "/v1/mesh/forget",
        meshes.post_forget,
        "serve a mesh no longer, without telling its broker",
        {200: answers.MeshLeft},
        _MESH_ERRORS,
        body=requests.OfMesh,
    ),
    Endpoint(
        "POST",
        "/v1/mesh/rotate-keypair",
        meshes.post_rotate,
        "replace the member's key",
        {200: answers.KeyRotated},
        (*_BROKER_ERRORS, OutboxConflict),
        body=requests.OfMesh,
    ),
    Endpoint(
        "GET",
        "/v1/mesh/safety",
        meshes.get_safety,
        "the number that two members compare aloud",
        {200: answers.SafetyNumber},
        (*_BROKER_ERRORS, DestinationUnknown),
        (Param("peer", "string", "a member, by name, id or key", required=True), _MESH),
    ),
    Endpoint(
        "POST", "/v1/reload", meshes.post_reload, "take settings, hooks and memberships again", {200: answers.Reloaded}
    ),
)


@cache
def _document() -> bytes:
    return msgspec.json.encode(openapi_document(ENDPOINTS, ABOUT))
