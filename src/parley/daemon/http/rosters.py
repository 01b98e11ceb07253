"""Routes for meshes with a roster: what its members say in it, and what it shows."""

import secrets
from typing import TYPE_CHECKING, Any, Final, cast

from parley.core import sealing
from parley.core.broker_errors import NoRoster, NotAllowed, RosterRefused
from parley.core.clock import iso
from parley.core.daemon_errors import MeshUnreachable, NameTaken
from parley.core.errors import InvalidInput, NotFound, ParleyError
from parley.core.limits import PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX, VERSION_MAX
from parley.core.roster import Entry, Invite, Member, State, read_entry
from parley.core.roster import entries as are
from parley.core.roster.authoring import make_invite
from parley.core.roster.state import RANK
from parley.daemon.roster import list_all
from parley.daemon.rosters import acts
from parley.daemon.rosters.founding import check_name, found_mesh
from parley.daemon.rosters.mesh import RosterMesh
from parley.daemon.rosters.rows import add_invite, own_invites, read_entries, verified, verify
from parley.daemon.rosters.standing import standing_of
from parley.serve.endpoint import Answer, Call
from parley.wire.daemon_answers import (
    HeadShown,
    InviteMade,
    LogEntry,
    MemberRenamed,
    MemberVerified,
    MeshInfo,
    MeshLog,
    MeshSettled,
)
from parley.wire.daemon_requests import Found, MakeInvite, OfMesh, Rename, Verify
from parley.wire.roster_invites import RosterInvite, encode_roster_invite

if TYPE_CHECKING:
    from parley.daemon.daemon import Daemon
    from parley.daemon.mesh import Mesh

HOUR_MS: Final = 3_600_000
_GONE: Final = {"left": "left", "expired": "left", "removed": "revoked", "banned": "banned"}
_SAID: Final = frozenset(("members", "invites", "revoke_invite", "revoke", "ban", "unban", "set_role", "leave"))
"""Methods of a broker whose place entries of the roster take."""


def with_roster(mesh: "Mesh") -> RosterMesh:
    """The mesh, if it has a roster. Raises ``NoRoster``."""
    if not isinstance(mesh, RosterMesh):
        raise NoRoster("This mesh is older than rosters and has none", mesh=mesh.slug)
    return mesh


def read_state(mesh: RosterMesh) -> State:
    """Who is in the mesh. Raises ``MeshUnreachable`` before the roster was read for the first time."""
    if mesh.state is None:
        raise MeshUnreachable("The roster has not been read yet", mesh=mesh.slug)
    return mesh.state


async def post_found(daemon: "Daemon", call: Call) -> Answer:
    from parley.daemon.http.meshes import mesh_view

    body = cast("Found", call.body)
    membership = await found_mesh(
        body.broker, body.slug, body.title or body.slug, body.name, body.creation_token, daemon.clock.now_ms()
    )
    return Answer(200, mesh_view(daemon.attach(daemon.memberships.add(membership))))


async def invite_to(daemon: "Daemon", mesh: RosterMesh, body: MakeInvite) -> InviteMade:
    """An invite that the member signs. Raises ``NotAllowed`` where nobody could join by it."""
    state, now_ms = await _fresh(mesh), daemon.clock.now_ms()
    own, secret = _own(state, mesh), sealing.new_key(secrets.token_bytes)
    if RANK[own.role] < max(RANK["admin"], RANK[body.role]):
        raise NotAllowed(f"The role {own.role} cannot invite to the role {body.role}", role=own.role)
    invite = make_invite(
        state,
        issuer=own.id,
        seed=mesh.membership.seed_bytes,
        secret=secret,
        role=body.role,
        uses=body.uses,
        expires=now_ms + round(body.hours * HOUR_MS),
    )
    await daemon.store.write_outbox(lambda db: add_invite(db, mesh.mesh_id, invite, now_ms=now_ms))
    membership = mesh.membership
    told = RosterInvite(mesh.mesh_id, membership.slug, membership.broker_url, state.fingerprint, invite)
    return InviteMade(encode_roster_invite(told, secret), invite.id, iso(invite.expires))


async def said(daemon: "Daemon", mesh: RosterMesh, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The answer to a method whose place entries take; None for one that is the broker's."""
    if method not in _SAID:
        return None
    if method == "members":
        return {"members": _members(await _fresh(mesh, needed=False), await _seen(mesh))}
    if method == "invites":
        return {"invites": _invites(daemon, mesh, await _fresh(mesh, needed=False))}
    if method == "leave":
        return await _leave(daemon, mesh)
    if method == "revoke_invite":
        return await _revoke_invite(daemon, mesh, str(params.get("invite_id")))
    return await _about_member(mesh, method, params)


async def post_rename(daemon: "Daemon", call: Call) -> Answer:
    body = cast("Rename", call.body)
    mesh = with_roster(daemon.mesh(body.mesh))
    check_name(body.name)
    await say(mesh, acts.rename(mesh.membership.member_id, body.name))
    return Answer(200, MemberRenamed(mesh.slug, mesh.membership.member_id, mesh.membership.display_name))


async def get_info(daemon: "Daemon", call: Call) -> Answer:
    mesh = with_roster(daemon.mesh(call.query.get("mesh")))
    state, marks = await _fresh(mesh, needed=False), mesh.copy.marks
    shown = standing_of(mesh.copy, mesh.membership.member_id, mesh.held())
    confirmed = marks.confirmed
    by = None if confirmed is None else state.members.get(confirmed.by)
    info = MeshInfo(
        mesh=mesh.slug,
        fingerprint=state.fingerprint,
        head=HeadShown(state.n, state.head),
        confirmed_n=None if confirmed is None else confirmed.n,
        confirmed_by=None if by is None else by.name,
        confirmed_at=None if confirmed is None else iso(confirmed.at),
        owners=[each.name for each in state.owners()],
        members=len(state.names),
        key_epoch=state.epoch,
        key_owed=shown.key_owed,
        single_owner=shown.single_owner,
        upgrade_needed=shown.upgrade_needed,
        restoring=mesh.standing.restoring,
        split=None if marks.split is None else HeadShown(marks.split.n, marks.split.hash),
    )
    return Answer(200, info)


async def get_log(daemon: "Daemon", call: Call) -> Answer:
    mesh = with_roster(daemon.mesh(call.query.get("mesh")))
    state = await _fresh(mesh, needed=False)
    after = call.query.integer("after", default=-1, low=-1, high=VERSION_MAX)
    limit = call.query.integer("limit", default=PAGE_LIMIT_DEFAULT, low=1, high=PAGE_LIMIT_MAX)
    found = daemon.store.read_outbox(lambda db: read_entries(db, mesh.mesh_id, after + 1, limit))
    return Answer(200, MeshLog(mesh.slug, [_log_entry(read_entry(each), state) for each in found]))


async def post_verify(daemon: "Daemon", call: Call) -> Answer:
    """Remembers that a member's safety number was compared; or only shows it."""
    from parley.daemon.http.meshes import member_id_of

    body = cast("Verify", call.body)
    mesh = with_roster(daemon.mesh(body.mesh))
    member_id = await member_id_of(mesh, body.peer)
    member = read_state(mesh).members[member_id]
    known = daemon.store.read_outbox(lambda db: verified(db, mesh.mesh_id)).get(member_id)
    now_ms = daemon.clock.now_ms()
    if body.confirm:
        await daemon.store.write_outbox(lambda db: verify(db, mesh.mesh_id, member_id, member.key, now_ms=now_ms))
    number = sealing.safety_number(bytes.fromhex(mesh.membership.pubkey), bytes.fromhex(member.key))
    changed = known is not None and known.pubkey != member.key
    at_ms = now_ms if body.confirm else (known.at_ms if known is not None and not changed else None)
    shown = MemberVerified(
        mesh.slug, member.name, member.key, number, None if at_ms is None else iso(at_ms), key_changed=changed
    )
    return Answer(200, shown)


async def post_settle(daemon: "Daemon", call: Call) -> Answer:
    mesh = with_roster(daemon.mesh(cast("OfMesh", call.body).mesh))
    try:
        steps = await mesh.settle()
    except RosterRefused as refusal:
        raise _told(refusal, mesh) from refusal
    removed = [_name(step.state, step.entry.body.member) for step in steps if isinstance(step.entry.body, are.OfMember)]
    return Answer(200, MeshSettled(mesh.slug, bool(steps), removed))


async def say(mesh: RosterMesh, act: acts.Act) -> int:
    """Says something in the roster. How many entries it took. Raises ``NotAllowed`` where the role forbids it."""
    try:
        return len(await mesh.do(act))
    except RosterRefused as refusal:
        raise _told(refusal, mesh) from refusal


def _told(refusal: RosterRefused, mesh: RosterMesh) -> ParleyError:
    """The refusal in words for people."""
    reason, text = refusal.details.get("reason"), refusal.message
    if reason == "not_allowed":
        return NotAllowed(text, role=mesh.membership.role)
    if reason in ("name_taken", "name_reserved"):
        return NameTaken(text, reason=reason)
    return refusal


async def _about_member(mesh: RosterMesh, method: str, params: dict[str, Any]) -> dict[str, Any]:
    member_id = str(params.get("member_id"))
    if method == "set_role":
        role = params.get("role")
        if role not in RANK:
            raise InvalidInput("a role is owner, admin or member", field="role")
        await say(mesh, acts.set_role(member_id, cast("are.Role", role)))
        return {"member_id": member_id, "role": role}
    if method == "unban":
        await say(mesh, acts.unban(member_id))
        return {"member_id": member_id, "state": "left"}
    kind: are.Kind = "ban" if method == "ban" else "remove"
    state = await _fresh(mesh)
    member = state.members.get(member_id)
    await say(mesh, acts.put_out(member_id, kind))
    invite = None if member is None else member.invite
    others = [each.name for each in state.active() if each.invite == invite and each.id != member_id]
    return {
        "member_id": member_id,
        "state": "banned" if method == "ban" else "revoked",
        "invite_revoked": invite,
        "same_invite": others if invite is not None else [],
    }


async def _leave(daemon: "Daemon", mesh: RosterMesh) -> dict[str, Any]:
    """Leaves the mesh; the roster need not be told by who was removed from it."""
    membership = mesh.membership
    state = "removed" if membership.ended is not None and membership.ended.removed else "left"
    if state == "left":
        mesh.leaving = True  # the broker closes the connection with its answer
        try:
            await say(mesh, acts.leave(membership.member_id))
        except ParleyError:
            mesh.leaving = False
            raise
    await daemon.forget(mesh)
    return {"member_id": membership.member_id, "state": state}


async def _revoke_invite(daemon: "Daemon", mesh: RosterMesh, invite_id: str) -> dict[str, Any]:
    state = await _fresh(mesh)
    invite = _invite(daemon, mesh, state, invite_id)
    if invite is None:
        raise NotFound("No such invite is known here; `parley mesh invites` lists them", invite_id=invite_id)
    changed = await say(mesh, acts.revoke_invite(invite)) > 0
    return {"invite_id": invite_id, "changed": changed}


def _invite(daemon: "Daemon", mesh: RosterMesh, state: State, invite_id: str) -> Invite | None:
    """One that the member has made, or by which somebody has joined."""
    for own in daemon.store.read_outbox(lambda db: own_invites(db, mesh.mesh_id)):
        if own.invite.id == invite_id:
            return own.invite
    for member in state.members.values():
        if member.invite == invite_id:
            (data,) = daemon.store.read_outbox(lambda db, n=member.joined: read_entries(db, mesh.mesh_id, n, 1))
            body = read_entry(data).body
            return body.invite if isinstance(body, are.Join) else None
    return None


def _invites(daemon: "Daemon", mesh: RosterMesh, state: State) -> list[dict[str, Any]]:
    found = daemon.store.read_outbox(lambda db: own_invites(db, mesh.mesh_id))
    return [
        {
            "invite_id": each.id,
            "role": each.role,
            "created_by": each.issuer,
            "created_at": iso(made_ms),
            "expires_at": iso(each.expires),
            "uses_max": each.uses,
            "uses": state.invite_uses.get(each.id, 0),
            "revoked": each.id in state.invites_revoked,
        }
        for each, made_ms in reversed(found)
    ]


async def _seen(mesh: RosterMesh) -> dict[str, Any]:
    """When the broker has seen whom last, as it says; nothing while it cannot be asked."""
    if not mesh.runner.machine.ready:
        return {}
    try:
        told = await list_all(mesh.runner.ask, "members", "members")
        return {str(each["member_id"]): each.get("seen_at") for each in told}
    except (ParleyError, KeyError, TypeError):
        return {}


def _members(state: State, seen: dict[str, Any]) -> list[dict[str, Any]]:
    """All who are members, and then those who were."""
    listed = sorted(state.members.values(), key=lambda each: (not each.is_active, each.joined))
    return [
        {
            "member_id": each.id,
            "pubkey": each.key,
            "display_name": each.name,
            "role": each.role,
            "state": "active" if each.is_active else _GONE[each.status],
            "joined_at": iso(each.joined_at),
            "seen_at": seen.get(each.id),
            "until": None if each.until is None else iso(each.until),
            "invited_by": None if each.issuer is None else _name(state, each.issuer),
        }
        for each in listed
    ]


def _log_entry(entry: Entry, state: State) -> LogEntry:
    by = state.with_key(entry.by) if entry.kind in ("found", "join") else state.members.get(entry.by)
    if entry.n == 0:
        by = state.members[state.founder]
    return LogEntry(
        n=entry.n,
        at=iso(entry.at),
        kind=entry.kind,
        by=entry.by if by is None else by.name,
        about=_about(entry.body, state),
        hash=entry.hash,
    )


def _about(body: are.Body, state: State) -> list[str]:
    """Whom or what an entry is about, in names."""
    match body:
        case are.OfMember() | are.SetRole():
            role = [body.role] if isinstance(body, are.SetRole) else []
            return [_name(state, body.member), *role]
        case are.Join():
            return [body.invite.role, f"invited by {_name(state, body.invite.issuer)}"]
        case are.Rename():
            return [body.name]
        case are.Key() | are.Void():
            return [f"epoch {body.epoch}"]
        case are.Expire():
            return [_name(state, each) for each in body.members]
        case are.Adopt():
            return [each.name for each in body.members]
        case are.RevokeInvite():
            return [body.invite.id]
        case _:
            return []


def _name(state: State, member_id: str) -> str:
    member = state.members.get(member_id)
    return member_id if member is None else member.name


def _own(state: State, mesh: RosterMesh) -> Member:
    member = state.members.get(mesh.membership.member_id)
    if member is None:
        raise MeshUnreachable("The roster has not been read up to the member's own entry yet", mesh=mesh.slug)
    return member


async def _fresh(mesh: RosterMesh, *, needed: bool = True) -> State:
    """The roster as its broker has it now; if it cannot be asked, as it was read last, unless that will not do."""
    try:
        await mesh.read_roster()
    except ParleyError:
        if needed:
            raise
    return read_state(mesh)
