"""Every request that a client can make of a daemon, described once as a value: what to send and what comes back.

Both clients are made from these functions; see ``daemon``.
"""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypedDict, TypeVar, Unpack

import msgspec

from parley.client.call import Call, Caller, query_text, segment
from parley.core import untrusted_json
from parley.core.errors import InvalidInput
from parley.wire import daemon_answers as answers
from parley.wire import daemon_requests as requests
from parley.wire.broker import Presence, Priority

T = TypeVar("T")


class InboxFilters(TypedDict, total=False):
    """What of the inbox is wanted."""

    mesh: str | None
    since: str | None
    """An ISO 8601 time."""
    topic: str | None
    sender: str | None
    """A name or a key."""
    unread_only: bool
    limit: int
    before: int | None
    """The ``cursor`` of the page before."""
    mark_seen: bool
    wait_seconds: int
    """How long to wait for the first message, if there is none."""


_FILTERS: Final = frozenset(InboxFilters.__annotations__)


def version(_caller: Caller) -> Call[answers.DaemonVersion]:
    """The daemon's version, and what was agreed with each broker."""
    return Call("GET", "/v1/version", answers.DaemonVersion)


def health(_caller: Caller) -> Call[answers.DaemonHealth]:
    """How the daemon is: its meshes, what waits, and what is wrong."""
    return Call("GET", "/v1/health", answers.DaemonHealth)


def send(
    caller: Caller,
    to: str,
    message: str,
    *,
    mesh: str | None = None,
    priority: Priority = "next",
    meta: Mapping[str, Any] | msgspec.Raw | None = None,
    reply_to_id: str | None = None,
    mentions: Sequence[str] = (),
    to_session: str | None = None,
    client_message_id: str | None = None,
) -> Call[answers.SendResult]:
    """Takes a message to a member, ``#topic``, ``@group`` or ``*``; it is on disk when this returns.

    Give it an id of your own to be able to send it again: it has one effect. ``meta`` may be JSON as it is written.
    """
    body = requests.SendBody(
        to=to,
        message=message,
        mesh=mesh,
        priority=priority,
        meta=_metadata(meta),
        reply_to_id=reply_to_id,
        mentions=list(mentions),
        to_session=to_session,
        client_message_id=client_message_id or caller.new_key(),
    )
    return _post("/v1/send", answers.SendResult, body)


def inbox(_caller: Caller, **filters: Unpack[InboxFilters]) -> Call[answers.InboxPage]:
    """What arrived, newest first. What is shown counts as seen, unless ``mark_seen`` is False."""
    query = _filters("inbox", filters)
    return Call("GET", f"/v1/inbox{query}", answers.InboxPage, waits_seconds=filters.get("wait_seconds", 0))


def search_inbox(_caller: Caller, words: str, **filters: Unpack[InboxFilters]) -> Call[answers.InboxPage]:
    """What arrived and holds these words."""
    return Call("GET", f"/v1/inbox/search{_filters('search_inbox', filters, q=words)}", answers.InboxPage)


def mark_seen(_caller: Caller, ids: Sequence[str]) -> Call[answers.MarkedSeen]:
    """Marks messages as seen."""
    return _post("/v1/inbox/seen", answers.MarkedSeen, requests.Seen(list(ids)))


def delete_message(_caller: Caller, message_id: str) -> Call[answers.Removed]:
    """Throws one message away."""
    return Call("DELETE", f"/v1/inbox/{segment(message_id)}", answers.Removed)


def flush_inbox(
    _caller: Caller, *, mesh: str | None = None, before: str | None = None, everything: bool = False
) -> Call[answers.Removed]:
    """Throws away what arrived in a mesh, before a time, or everything."""
    query = query_text(mesh=mesh, before=before, all=everything or None)
    return Call("DELETE", f"/v1/inbox{query}", answers.Removed)


def outbox(
    _caller: Caller,
    *,
    status: answers.RowStatus | None = None,
    mesh: str | None = None,
    limit: int | None = None,
    before: int | None = None,
    reached: bool = False,
) -> Call[answers.OutboxPage]:
    """What was to be sent, newest first; with ``reached``, who has it is asked of the brokers."""
    query = query_text(status=status, mesh=mesh, limit=limit, before=before, reached=reached or None)
    return Call("GET", f"/v1/outbox{query}", answers.OutboxPage)


def outbox_row(_caller: Caller, row_id: str) -> Call[answers.OutboxDetail]:
    """One row, by its id or its message's, with all that it replaced and was replaced by."""
    return Call("GET", f"/v1/outbox/{segment(row_id)}", answers.OutboxDetail)


def requeue(
    _caller: Caller,
    row_id: str,
    *,
    new_client_message_id: str | None = None,
    message: str | None = None,
    force: bool = False,
) -> Call[answers.Requeued]:
    """Sends a row's message anew under a new id, with other words if ``message`` is given."""
    body = requests.Requeue(row_id, new_client_message_id, message, force)
    return _post("/v1/outbox/requeue", answers.Requeued, body)


def drop(_caller: Caller, row_id: str, *, force: bool = False) -> Call[answers.OutboxItem]:
    """Gives a row up. It stays, and its id stays bound to it."""
    return _post("/v1/outbox/drop", answers.OutboxItem, requests.Drop(row_id, force))


def prune_outbox(_caller: Caller, older_than_days: float) -> Call[answers.Pruned]:
    """Forgets what messages said that were sent or given up."""
    return _post("/v1/outbox/prune", answers.Pruned, requests.Prune(older_than_days))


def peers(_caller: Caller, mesh: str | None = None) -> Call[answers.Peers]:
    """Who is in the meshes, and what they are doing."""
    return Call("GET", f"/v1/peers{query_text(mesh=mesh)}", answers.Peers)


def profile(
    _caller: Caller,
    *,
    mesh: str | None = None,
    status: Presence | None = None,
    summary: str | None = None,
    title: str | None = None,
    bio: str | None = None,
    avatar: str | None = None,
    capabilities: Sequence[str] | None = None,
    visible: bool | None = None,
) -> Call[answers.ProfileResult]:
    """Tells the members about oneself. What is not named stays as it is."""
    known = None if capabilities is None else list(capabilities)
    body = requests.Profile(status, summary, title, bio, avatar, known, visible, mesh)
    return _post("/v1/profile", answers.ProfileResult, body)


def topics(_caller: Caller, mesh: str | None = None) -> Call[answers.TopicList]:
    """The topics of a mesh."""
    return Call("GET", f"/v1/topic/list{query_text(mesh=mesh)}", answers.TopicList)


def subscribe(_caller: Caller, topic: str, mesh: str | None = None) -> Call[answers.Subscription]:
    """From now on what is sent to the topic comes, too."""
    return _post("/v1/topic/subscribe", answers.Subscription, requests.TopicName(topic, mesh))


def unsubscribe(_caller: Caller, topic: str, mesh: str | None = None) -> Call[answers.Subscription]:
    """Ends a subscription."""
    return _post("/v1/topic/unsubscribe", answers.Subscription, requests.TopicName(topic, mesh))


def register_session(
    _caller: Caller,
    token: str,
    session_id: str,
    *,
    display_name: str = "",
    mesh: str | None = None,
    pid: int | None = None,
    cwd: str | None = None,
    role: str | None = None,
    groups: Sequence[str] = (),
) -> Call[answers.SessionRegistered]:
    """Begins or renews a session, which ends with its process: this one, if none is named."""
    body = requests.Register(token, session_id, display_name, mesh, pid or os.getpid(), cwd, role, list(groups))
    return _post("/v1/sessions/register", answers.SessionRegistered, body)


def unregister_session(_caller: Caller, token: str) -> Call[answers.SessionEnded]:
    """Ends a session."""
    return Call("DELETE", f"/v1/sessions/{segment(token)}", answers.SessionEnded)


def sessions(_caller: Caller) -> Call[answers.SessionList]:
    """The local sessions."""
    return Call("GET", "/v1/sessions", answers.SessionList)


def own_session(_caller: Caller) -> Call[answers.SessionItem]:
    """The session in whose name this client makes its requests. Raises ``NotFound``."""
    return Call("GET", "/v1/sessions/me", answers.SessionItem)


def meshes(_caller: Caller) -> Call[answers.MeshStates]:
    """The meshes that the daemon serves."""
    return Call("GET", "/v1/meshes", answers.MeshStates)


def found(
    _caller: Caller,
    broker: str,
    slug: str,
    name: str,
    *,
    title: str | None = None,
    creation_token: str | None = None,
) -> Call[answers.MeshState]:
    """Founds a mesh that a broker carries."""
    return _post("/v1/mesh/found", answers.MeshState, requests.Found(broker, slug, name, title, creation_token))


def join(_caller: Caller, invite: str, name: str) -> Call[answers.MeshState]:
    """Becomes a member of a mesh by an invite."""
    return _post("/v1/mesh/join", answers.MeshState, requests.Join(invite, name))


def invite(
    _caller: Caller,
    *,
    mesh: str | None = None,
    role: Literal["owner", "admin", "member"] = "member",
    uses: int = 1,
    hours: float = 168.0,
) -> Call[answers.InviteMade]:
    """Makes an invite. Whoever has its text can join."""
    return _post("/v1/mesh/invite", answers.InviteMade, requests.MakeInvite(role, uses, hours, mesh))


def call(
    _caller: Caller, method: str, params: Mapping[str, Any] | None = None, mesh: str | None = None
) -> Call[dict[str, Any]]:
    """Calls a method of the mesh's broker; ``member`` in ``params`` may be a name."""
    body = requests.MeshCall(method, dict(params or {}), mesh)
    return _post("/v1/mesh/call", dict[str, Any], body)


def forget(_caller: Caller, mesh: str | None = None) -> Call[answers.MeshLeft]:
    """Serves a mesh no longer, without telling its broker."""
    return _post("/v1/mesh/forget", answers.MeshLeft, requests.OfMesh(mesh))


def rotate_keypair(_caller: Caller, mesh: str | None = None) -> Call[answers.KeyRotated]:
    """Replaces the member's key."""
    return _post("/v1/mesh/rotate-keypair", answers.KeyRotated, requests.OfMesh(mesh))


def mesh_info(_caller: Caller, mesh: str | None = None) -> Call[answers.MeshInfo]:
    """How a mesh's roster stands: its end, who has confirmed it last, owners, and what is owed."""
    return Call("GET", f"/v1/mesh/info{query_text(mesh=mesh)}", answers.MeshInfo)


def mesh_log(
    _caller: Caller, mesh: str | None = None, *, after: int | None = None, limit: int | None = None
) -> Call[answers.MeshLog]:
    """What was said in a mesh's roster: who let whom in, and when."""
    return Call("GET", f"/v1/mesh/log{query_text(mesh=mesh, after=after, limit=limit)}", answers.MeshLog)


def rename(_caller: Caller, name: str, mesh: str | None = None) -> Call[answers.MemberRenamed]:
    """Goes by another name in a mesh."""
    return _post("/v1/mesh/rename", answers.MemberRenamed, requests.Rename(name, mesh))


def settle(_caller: Caller, mesh: str | None = None) -> Call[answers.MeshSettled]:
    """Says which of two rosters counts: the one that the broker serves now. An owner's to do."""
    return _post("/v1/mesh/settle", answers.MeshSettled, requests.OfMesh(mesh))


def verify(
    _caller: Caller, peer: str, mesh: str | None = None, *, confirm: bool = False
) -> Call[answers.MemberVerified]:
    """The number that two members compare; with ``confirm`` it is remembered that they have."""
    return _post("/v1/mesh/verify", answers.MemberVerified, requests.Verify(peer, confirm, mesh))


def safety_number(_caller: Caller, peer: str, mesh: str | None = None) -> Call[answers.SafetyNumber]:
    """The number that two members compare aloud."""
    return Call("GET", f"/v1/mesh/safety{query_text(peer=peer, mesh=mesh)}", answers.SafetyNumber)


def reload(_caller: Caller) -> Call[answers.Reloaded]:
    """Lets the daemon take its settings, hooks and memberships again."""
    return Call("POST", "/v1/reload", answers.Reloaded)


def _metadata(meta: Mapping[str, Any] | msgspec.Raw | None) -> msgspec.Raw:
    """Metadata as it is sent. Raises ``InvalidInput`` for what is no JSON object."""
    if meta is None:
        return requests.NO_META
    try:
        text = bytes(meta) if isinstance(meta, msgspec.Raw) else _written(meta)
        untrusted_json.decode(text, dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidInput(f"meta must be a JSON object: {error}", field="meta") from None
    return msgspec.Raw(text)


def _written(meta: Mapping[str, Any]) -> bytes:
    try:
        # What JSON has no word for would be null to the encoder, and another value to whoever reads it.
        return json.dumps(msgspec.to_builtins(meta), ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"meta cannot be written as JSON: {error}", field="meta") from None


def _filters(name: str, filters: InboxFilters, **more: str) -> str:
    unknown = filters.keys() - _FILTERS
    if unknown:
        raise TypeError(f"{name}() got an unexpected keyword argument {min(unknown)!r}")
    given: dict[str, Any] = {"from" if name == "sender" else name: value for name, value in filters.items()}
    return query_text(**more, **given)


def _post(path: str, answer: type[T], body: msgspec.Struct) -> Call[T]:
    return Call("POST", path, answer, msgspec.json.encode(body))
