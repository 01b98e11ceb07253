"""Routes for meshes: who is there, what the member tells of itself, and what the broker is asked to do."""

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import msgspec

from parley.core import sealing
from parley.core.clock import iso
from parley.core.daemon_errors import DestinationUnknown, MeshUnreachable
from parley.core.errors import InvalidInput, NotFound, ParleyError
from parley.daemon.http.door import session_of
from parley.daemon.http.rosters import invite_to, said
from parley.daemon.joining import join_mesh, make_invite
from parley.daemon.reload import reload
from parley.daemon.roster import list_all, resolve
from parley.daemon.rosters.founding import join_roster
from parley.daemon.rosters.mesh import RosterMesh
from parley.daemon.rosters.standing import standing_of
from parley.daemon.rotation import rotate_keypair
from parley.daemon.sessions import Session
from parley.serve.endpoint import Answer, Call
from parley.wire.daemon_answers import (
    ConnectionLost,
    InviteMade,
    MeshLeft,
    MeshState,
    MeshStates,
    Peer,
    Peers,
    ProfileResult,
    SafetyNumber,
    SessionEnded,
    SessionItem,
    SessionList,
    SessionRegistered,
    Subscription,
    TopicList,
)
from parley.wire.daemon_requests import Join, MakeInvite, MeshCall, OfMesh, Profile, Register, TopicName
from parley.wire.mesh_methods import METHODS
from parley.wire.roster_invites import is_roster_invite

if TYPE_CHECKING:
    from parley.daemon.daemon import Daemon
    from parley.daemon.mesh import Mesh

T = TypeVar("T")
PEERS_SECONDS: Final = 5.0
"""How long a list of peers waits for a mesh whose broker says nothing."""
TRIED_SECONDS: Final = 20.0
"""How long an invite waits for the first connection of its mesh, which brings the key that it is made from."""


async def get_meshes(daemon: "Daemon", call: Call) -> Answer:
    return Answer(200, MeshStates([mesh_view(mesh) for mesh in daemon.meshes.values()]))


def mesh_view(mesh: "Mesh") -> MeshState:
    """A mesh as its user sees it, without secrets."""
    membership, runner = mesh.membership, mesh.runner
    judged, lost = runner.machine.link.judged, runner.machine.link.lost
    return MeshState(
        mesh_id=membership.mesh_id,
        slug=membership.slug,
        broker_url=membership.broker_url,
        member_id=membership.member_id,
        display_name=membership.display_name,
        role=membership.role,
        pubkey=membership.pubkey,
        status=runner.status,
        ended=None if runner.ended is None else membership.ended,
        lost=None if lost is None else ConnectionLost(iso(lost.since_ms), lost.reason),
        joined_at=membership.joined_at,
        key_epoch=mesh.key_epoch,
        lag_ms=mesh.lag_ms,
        in_flight=runner.machine.drain.in_flight,
        inline_bytes_max=runner.terms.inline_bytes_max,
        max_age_hours=runner.terms.max_age_ms / 3_600_000,
        features=[] if judged is None else list(judged.active),
        **_roster_view(mesh),
    )


def _roster_view(mesh: "Mesh") -> dict[str, Any]:
    if not isinstance(mesh, RosterMesh):
        return {}
    shown = standing_of(mesh.copy, mesh.membership.member_id, mesh.held())
    confirmed = mesh.copy.marks.confirmed
    return {
        **shown._asdict(),
        "fingerprint": mesh.copy.fingerprint,
        "restoring": mesh.standing.restoring,
        "confirmed_at": None if confirmed is None else iso(confirmed.at),
    }


async def get_peers(daemon: "Daemon", call: Call) -> Answer:
    named = call.query.get("mesh")
    meshes = list(daemon.meshes.values()) if named is None else [daemon.mesh(named)]
    peers: list[Peer] = []
    away: list[str] = []
    for mesh, found in zip(meshes, await asyncio.gather(*(_peers_of(mesh) for mesh in meshes)), strict=True):
        if found is None:
            away.append(mesh.slug)
        else:
            peers += found
    return Answer(200, Peers(peers, away))


async def _peers_of(mesh: "Mesh") -> list[Peer] | None:
    """The peers of one mesh; None while its broker is away, silent or unintelligible, which is no trouble of the other
    meshes."""
    if not mesh.runner.machine.ready:
        return None
    try:
        async with asyncio.timeout(PEERS_SECONDS):
            told = await list_all(mesh.runner.ask, "peers", "peers")
        if mesh.roster.signed:
            told = [each for each in told if str(each.get("member_id")) in mesh.roster.addresses]
        return [_peer_view(peer, mesh) for peer in told]
    except (MeshUnreachable, TimeoutError):
        return None


def _peer_view(peer: dict[str, Any], mesh: "Mesh") -> Peer:
    """A peer with what it tells of itself, opened. Who it is, a roster tells, and a broker only where there is none."""
    words = mesh.open_profile(str(peer.get("member_id")), peer.get("profile"))
    known = mesh.roster.addresses.get(str(peer.get("member_id")))
    if mesh.roster.signed and known:
        peer = {**peer, "display_name": known[0].display_name, "pubkey": known[0].pubkey, "role": known[0].role}
    names = {"displayName": peer.get("display_name"), "memberPubkey": peer.get("pubkey"), "mesh": mesh.slug}
    return _read({**peer, **words, **names}, Peer)


def _read(answer: dict[str, Any], kind: type[T]) -> T:
    """What a broker answered, in the form that its callers expect. Raises ``MeshUnreachable``."""
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise MeshUnreachable(f"The broker's answer cannot be read: {error}") from error


async def post_profile(daemon: "Daemon", call: Call) -> Answer:
    body = cast("Profile", call.body)
    given: dict[str, Any] = {
        name: value for name, value in msgspec.to_builtins(body).items() if name != "mesh" and value is not None
    }
    if not given:
        raise InvalidInput("Something of a profile must be given", field="status")
    meshes = list(daemon.meshes.values()) if body.mesh is None else [daemon.mesh(body.mesh)]
    for mesh in meshes:
        if body.status is not None:
            await mesh.runner.ask("set_presence", {"status": body.status})
        if given.keys() - {"status"}:
            await mesh.tell_profile({name: value for name, value in given.items() if name != "status"})
    return Answer(200, ProfileResult(True, list(given), [mesh.slug for mesh in meshes]))


async def get_topics(daemon: "Daemon", call: Call) -> Answer:
    mesh = daemon.mesh(call.query.get("mesh"))
    return Answer(200, _read({**await mesh.runner.ask("topics"), "mesh": mesh.slug}, TopicList))


async def post_subscribe(daemon: "Daemon", call: Call) -> Answer:
    return await _of_topic(daemon, call, "subscribe")


async def post_unsubscribe(daemon: "Daemon", call: Call) -> Answer:
    return await _of_topic(daemon, call, "unsubscribe")


async def _of_topic(daemon: "Daemon", call: Call, method: str) -> Answer:
    body = cast("TopicName", call.body)
    mesh = daemon.mesh(body.mesh)
    answer = await mesh.runner.ask(method, {"topic": body.topic})
    return Answer(200, _read({**answer, "mesh": mesh.slug}, Subscription))


async def post_call(daemon: "Daemon", call: Call) -> Answer:
    """Any method of the broker. A member may be named by what it is called; the daemon looks its id up."""
    body = cast("MeshCall", call.body)
    if body.method not in METHODS:
        raise NotFound(f"A broker has no method {body.method}", method=body.method)
    mesh = daemon.mesh(body.mesh)
    params = dict(body.params)
    if "member" in params:
        of_gone = body.method == "unban"
        params["member_id"] = await member_id_of(mesh, str(params.pop("member")), of_gone=of_gone)
    if isinstance(mesh, RosterMesh):
        answer = await said(daemon, mesh, body.method, params)
        if answer is not None:
            return Answer(200, {"mesh": mesh.slug, **answer})
    if body.method == "members" and not params:
        return Answer(200, {"mesh": mesh.slug, "members": await everybody(mesh)})
    if body.method == "leave":
        return Answer(200, {"mesh": mesh.slug, **await _leave(daemon, mesh)})
    return Answer(200, {"mesh": mesh.slug, **await mesh.runner.ask(body.method, params)})


async def everybody(mesh: "Mesh") -> list[dict[str, Any]]:
    """All who are members of the mesh or were, once each: an older broker lists all of them both times."""
    listed = [
        *await list_all(mesh.runner.ask, "members", "members"),
        *await list_all(mesh.runner.ask, "members", "members", former=True),
    ]
    return list({each["member_id"]: each for each in listed}.values())


async def _leave(daemon: "Daemon", mesh: "Mesh") -> dict[str, Any]:
    """Leaves the mesh; the broker need not be told by who was removed from it."""
    membership = mesh.membership
    if membership.ended is not None and membership.ended.removed:
        await daemon.forget(mesh)
        return {"member_id": membership.member_id, "state": "removed"}
    mesh.leaving = True  # the broker closes the connection with its answer
    try:
        result = await mesh.runner.ask("leave")
    except ParleyError:
        mesh.leaving = False
        raise
    await daemon.forget(mesh)
    return result


async def post_forget(daemon: "Daemon", call: Call) -> Answer:
    mesh = daemon.mesh(cast("OfMesh", call.body).mesh)
    member_id = mesh.membership.member_id
    await daemon.forget(mesh)
    return Answer(200, MeshLeft(mesh.slug, member_id, "forgotten"))


async def member_id_of(mesh: "Mesh", name: str, *, of_gone: bool = False) -> str:
    """The id of a member who is called this; of those who were removed before all others, if they are meant.

    Raises ``DestinationUnknown``.
    """
    await mesh.read_roster()
    known = mesh.roster.addresses.get(name)
    if known:
        return known[0].member_id
    called = mesh.roster.names.get(name.casefold())
    former = await mesh.former_members() if of_gone or not called else []
    for peer in former:
        if name in (peer.member_id, peer.pubkey):
            return peer.member_id
    gone = [peer for peer in former if peer.display_name.casefold() == name.casefold()]
    removed = [peer for peer in gone if peer.state in ("banned", "revoked")]
    if of_gone and len(removed) == 1:
        return removed[0].member_id
    if of_gone and removed:
        keys = [peer.pubkey for peer in removed]
        raise DestinationUnknown(f"{name} could be {' or '.join(keys)}", to=name, candidates=keys)
    try:
        key = resolve(name, [mesh.roster]).ref
    except DestinationUnknown:
        if len(gone) != 1:
            raise
        return gone[0].member_id
    return next(peer.member_id for peer in mesh.roster.active() if key in (peer.pubkey, peer.member_id))


async def post_invite(daemon: "Daemon", call: Call) -> Answer:
    body = cast("MakeInvite", call.body)
    mesh = daemon.mesh(body.mesh)
    await mesh.tried(TRIED_SECONDS)  # an owner's first invite is often asked for as soon as there is a daemon
    if isinstance(mesh, RosterMesh):
        return Answer(200, await invite_to(daemon, mesh, body))
    text, invite = make_invite(
        mesh.membership, role=body.role, uses=body.uses, hours=body.hours, now_ms=daemon.clock.now_ms()
    )
    await mesh.runner.ask("create_invite", {"invite": text.public})
    return Answer(200, InviteMade(text.whole, invite.invite_id, invite.expires_at))


async def post_join(daemon: "Daemon", call: Call) -> Answer:
    body = cast("Join", call.body)
    known, now_ms = daemon.memberships.all(), daemon.clock.now_ms()
    if is_roster_invite(body.invite):
        clock, brief = daemon.clock.now_ms, daemon.ephemeral
        membership = await join_roster(body.invite, body.name, known=known, now_ms=clock, ephemeral=brief)
    else:
        membership = await join_mesh(body.invite, body.name, known=known, now_ms=now_ms, ephemeral=daemon.ephemeral)
    membership = daemon.memberships.add(membership)
    mesh = daemon.meshes.get(membership.mesh_id)
    served = None if mesh is None or mesh.runner.ended is not None else mesh.runner.member
    if mesh is None or served is None or (served.member_id, served.pubkey) != (membership.member_id, membership.pubkey):
        await daemon.detach(membership.mesh_id)
        mesh = daemon.attach(membership)
    return Answer(200, mesh_view(mesh))


async def post_rotate(daemon: "Daemon", call: Call) -> Answer:
    mesh = daemon.mesh(cast("OfMesh", call.body).mesh)
    return Answer(200, await rotate_keypair(daemon, mesh))


async def get_safety(daemon: "Daemon", call: Call) -> Answer:
    mesh = daemon.mesh(call.query.get("mesh"))
    peer = call.query.get("peer", "")
    await mesh.read_roster()
    key = resolve(peer, [mesh.roster]).ref
    key = mesh.roster.addresses[key][0].pubkey if mesh.roster.signed else key
    number = sealing.safety_number(bytes.fromhex(mesh.membership.pubkey), bytes.fromhex(key))
    return Answer(200, SafetyNumber(mesh.slug, peer, key, number))


async def post_reload(daemon: "Daemon", call: Call) -> Answer:
    return Answer(200, await reload(daemon))


async def post_session(daemon: "Daemon", call: Call) -> Answer:
    body = cast("Register", call.body)
    if body.mesh is not None:
        daemon.memberships.get(body.mesh)
    session = daemon.sessions.register(body, daemon.clock.now_ms())
    return Answer(200, SessionRegistered(True, session.registered_at, presence_accepted=False))


async def delete_session(daemon: "Daemon", call: Call) -> Answer:
    return Answer(200, SessionEnded(True, daemon.sessions.end(call.path["token"])))


async def get_sessions(daemon: "Daemon", call: Call) -> Answer:
    return Answer(200, SessionList([_session_view(each) for each in daemon.sessions.all()]))


async def get_own_session(daemon: "Daemon", call: Call) -> Answer:
    session = session_of(daemon, call)
    if session is None:
        raise NotFound("Which session is meant? Send its token as X-Parley-Session")
    return Answer(200, _session_view(session))


def _session_view(session: Session) -> SessionItem:
    return msgspec.convert(session, SessionItem, from_attributes=True)
