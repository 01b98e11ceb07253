"""``parley mesh``: the circles of members that exchange messages."""

import getpass
import os
import re
from typing import Annotated, Any, Literal

import typer

from parley.cli.call import Call, command, group, load_app
from parley.cli.commands.daemon.options import MeshOption, daemon_client
from parley.cli.plain import plain
from parley.core.exits import Exit
from parley.wire.daemon_answers import MeshInfo

app = group("Make, join and look after meshes.")

_NameOption = Annotated[str | None, typer.Option("--name", metavar="NAME", help="What others call you.")]
_MemberArgument = Annotated[str, typer.Argument(metavar="MEMBER", help="A name, a key or a member's id.")]
_Role = Literal["owner", "admin", "member"]
TOKEN_VARIABLE = "PARLEY_CREATION_TOKEN"
NAME_CHARS = 32


@command(app, "create")
def create(
    call: Call,
    slug: Annotated[str, typer.Argument(metavar="SLUG", help="A short name: letters, digits and '-'.")],
    broker: Annotated[str, typer.Option("--broker", metavar="URL", help="Where the broker listens.")],
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="What the mesh is for.")] = None,
    name: _NameOption = None,
) -> None:
    """Found a mesh, of which you are the owner, and have a broker carry it.

    The broker's creation token is read from PARLEY_CREATION_TOKEN, unless the broker lets everybody create.
    """
    offline = load_app("daemon.offline")
    found = offline.make_mesh(broker, slug, title or slug, _name(name), os.environ.get(TOKEN_VARIABLE))
    _joined(call, found)


@command(app, "join")
def join(call: Call, invite: Annotated[str, typer.Argument(metavar="INVITE")], name: _NameOption = None) -> None:
    """Join a mesh by an invite. Joining again by the same invite changes nothing.

    Who was removed comes back by a new invite.
    """
    found: dict[str, Any] = load_app("daemon.offline").join(invite, _name(name))
    _joined(call, found)
    if name is not None and found["display_name"] != name:
        call.out.note(f"You have joined before, and are still called {found['display_name']}.")


@command(app, "list")
def list_(call: Call) -> None:
    """List the meshes that are joined."""
    found: list[dict[str, Any]] = load_app("daemon.offline").list_meshes()
    if call.json:
        call.out.data({"meshes": found}, rows="meshes")
        return
    rows = [(each["slug"], each["display_name"], each["role"], each["broker_url"], _problem(each)) for each in found]
    call.out.table(["mesh", "name", "role", "broker", "problem"], rows, empty="No mesh is joined yet.")


@command(app, "invite")
def invite(
    call: Call,
    mesh: MeshOption = None,
    role: Annotated[_Role, typer.Option("--role", help="What the joiner will be.")] = "member",
    uses: Annotated[int, typer.Option("--uses", min=1, help="How many may join by it.")] = 1,
    hours: Annotated[float, typer.Option("--hours", min=0.01, help="How long it is good.")] = 168.0,
) -> None:
    """Make an invite. Whoever has its text can join, so hand it on in private."""
    with daemon_client() as client:
        found = client.invite(mesh=mesh, role=role, uses=uses, hours=hours)
    if call.json:
        call.out.data(plain(found))
    else:
        call.out.line(found.invite)


@command(app, "invites")
def invites(call: Call, mesh: MeshOption = None) -> None:
    """List the invites of a mesh, and how often each was used."""
    found = _asked(call, "invites", {}, mesh, rows="invites")
    if found is not None:
        rows = [
            (each["invite_id"], each["role"], f"{each['uses']} of {each['uses_max']}", _good_until(each))
            for each in found["invites"]
        ]
        call.out.table(["invite", "role", "used", "good until"], rows, empty="No invites.")


@command(app, "uninvite")
def uninvite(
    call: Call, invite_id: Annotated[str, typer.Argument(metavar="INVITE_ID")], mesh: MeshOption = None
) -> None:
    """Let nobody join by an invite any more. Who has joined by it stays."""
    found = _asked(call, "revoke_invite", {"invite_id": invite_id}, mesh)
    if found is not None:
        call.out.line("Nobody joins by it any more." if found["changed"] else "It was revoked before.")


@command(app, "members")
def members(call: Call, mesh: MeshOption = None) -> None:
    """List everybody who is or was a member."""
    found = _asked(call, "members", {}, mesh, rows="members")
    if found is not None:
        rows = [(each["display_name"], each["role"], each["state"], each["pubkey"]) for each in found["members"]]
        call.out.table(["name", "role", "state", "key"], rows, empty="No members.")


@command(app, "peers")
def peers(call: Call, mesh: MeshOption = None) -> int:
    """List who is in the meshes, and what they are doing. Exits with 1 when no mesh could be asked."""
    with daemon_client() as client:
        found = client.peers(mesh)
    code = Exit.ERROR if found.unreachable and not found.peers else Exit.OK
    if call.json:
        call.out.data(plain(found), rows="peers")
        return code
    rows = [
        (each.mesh, each.display_name, "here" if each.connected else "away", each.status, each.summary)
        for each in found.peers
    ]
    if rows or not found.unreachable:
        call.out.table(["mesh", "name", "is", "status", "summary"], rows, empty="Nobody is in the meshes.")
    for slug in found.unreachable:
        call.out.note(f"{slug} cannot be reached; `parley daemon status` says why.")
    return code


@command(app, "profile")
def profile(
    call: Call,
    status: Annotated[
        Literal["idle", "working", "dnd"] | None, typer.Option("--status", help="Who is busy gets only now.")
    ] = None,
    summary: Annotated[str | None, typer.Option("--summary", metavar="TEXT", help="What you are doing.")] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="What you are.")] = None,
    bio: Annotated[str | None, typer.Option("--bio", metavar="TEXT", help="More about you.")] = None,
    avatar: Annotated[str | None, typer.Option("--avatar", metavar="URL", help="A picture.")] = None,
    capabilities: Annotated[
        list[str] | None, typer.Option("--capability", metavar="WORD", help="What you are good at; may be repeated.")
    ] = None,
    visible: Annotated[
        bool | None, typer.Option("--visible/--hidden", help="Whether others see you among the peers.")
    ] = None,
    mesh: MeshOption = None,
) -> None:
    """Tell the members of your meshes about yourself. What is not named stays as it is.

    All but the status is sealed: members read it, the broker does not.
    """
    with daemon_client() as client:
        found = client.profile(
            mesh=mesh,
            status=status,
            summary=summary,
            title=title,
            bio=bio,
            avatar=avatar,
            capabilities=capabilities or None,
            visible=visible,
        )
    if call.json:
        call.out.data(plain(found))
    else:
        call.out.line(f"Told {', '.join(found.meshes)}: {', '.join(found.applied)}.")


@command(app, "topics")
def topics(call: Call, mesh: MeshOption = None) -> None:
    """List the topics of a mesh."""
    found = _asked(call, "topics", {}, mesh, rows="topics")
    if found is not None:
        rows = [(each["topic"], "yes" if each["subscribed"] else "no") for each in found["topics"]]
        call.out.table(["topic", "subscribed"], rows, empty="No topics yet.")


@command(app, "subscribe")
def subscribe(call: Call, topic: Annotated[str, typer.Argument(metavar="TOPIC")], mesh: MeshOption = None) -> None:
    """Get what is sent to a topic, and be allowed to send to it."""
    found = _asked(call, "subscribe", {"topic": topic}, mesh)
    if found is not None:
        call.out.line(f"Subscribed to {topic}.")


@command(app, "unsubscribe")
def unsubscribe(call: Call, topic: Annotated[str, typer.Argument(metavar="TOPIC")], mesh: MeshOption = None) -> None:
    """Get no more of a topic."""
    found = _asked(call, "unsubscribe", {"topic": topic}, mesh)
    if found is not None:
        call.out.line(f"No longer subscribed to {topic}.")


@command(app, "group")
def group_(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="GROUP", help="a/b is below a, and is reached by @a, too.")],
    leave_it: Annotated[bool, typer.Option("--leave", help="Be no longer in it.")] = False,
    mesh: MeshOption = None,
) -> None:
    """Join a group, to be reached by @ and its name; or leave it."""
    found = _asked(call, "leave_group" if leave_it else "join_group", {"group": name}, mesh)
    if found is not None:
        call.out.line(f"{'Not in' if leave_it else 'In'} @{name}.")


@command(app, "role")
def role_(
    call: Call,
    member: _MemberArgument,
    role: Annotated[_Role, typer.Argument(metavar="ROLE", help="owner, admin or member")],
    mesh: MeshOption = None,
) -> None:
    """Give a member another role."""
    found = _asked(call, "set_role", {"member": member, "role": role}, mesh)
    if found is not None:
        call.out.line(f"{member} is {found['role']} now.")


@command(app, "grant")
def grant(
    call: Call,
    member: _MemberArgument,
    capabilities: Annotated[list[str], typer.Argument(metavar="WHAT...", help="dm, topic, broadcast")],
    mesh: MeshOption = None,
) -> None:
    """Take only these kinds of messages from a member."""
    found = _asked(call, "grant", {"member": member, "capabilities": list(capabilities)}, mesh)
    if found is not None:
        call.out.line(f"From {member}: {', '.join(found['capabilities'])}.")


@command(app, "block")
def block(
    call: Call,
    member: _MemberArgument,
    undo: Annotated[bool, typer.Option("--undo", help="Take everything again.")] = False,
    mesh: MeshOption = None,
) -> None:
    """Take nothing from a member."""
    found = _asked(call, "unblock" if undo else "block", {"member": member}, mesh)
    if found is not None:
        call.out.line(f"{member} is {'no longer ' if undo else ''}blocked.")


@command(app, "grants")
def grants(call: Call, mesh: MeshOption = None) -> None:
    """List from whom you do not take everything, and what you take."""
    found = _asked(call, "grants", {}, mesh)
    if found is not None:
        rows = [(member, ", ".join(taken) or "nothing") for member, taken in found["grants"].items()]
        call.out.table(["member", "takes"], rows, empty="You take everything from everybody.")


@command(app, "kick")
def kick(call: Call, member: _MemberArgument, mesh: MeshOption = None) -> None:
    """Close a member's connections. It stays a member, and comes back when its daemon is started again."""
    found = _asked(call, "kick", {"member": member}, mesh)
    if found is not None:
        call.out.line(f"{member} is disconnected.")


@command(app, "audit")
def audit(
    call: Call,
    after: Annotated[int, typer.Option("--after", min=0, metavar="NUMBER", help="Only what comes after.")] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="So many at most.")] = 100,
    mesh: MeshOption = None,
) -> int:
    """Show who did what to a mesh's members, and verify the chain of the log. Exits with 5 if it does not hold."""
    with daemon_client() as client:
        found = client.call("audit", {"after": after, "limit": limit}, mesh)
    if call.json:
        call.out.data(found)
    else:
        rows = [(each["number"], each["at"], each["event"], each["actor"]) for each in found["entries"]]
        call.out.table(["number", "at", "event", "by"], rows, empty="Nothing is in the log.")
        call.out.line("The chain holds." if found["verified"] else "The chain does not hold: somebody changed the log.")
    return Exit.OK if found["verified"] else Exit.DAMAGE


@command(app, "revoke")
def revoke(call: Call, member: _MemberArgument, mesh: MeshOption = None) -> None:
    """Remove a member. The mesh gets a new key, which the member does not have."""
    found = _asked(call, "revoke", {"member": member}, mesh)
    if found is not None:
        call.out.line(f"{member} is removed.")


@command(app, "ban")
def ban(call: Call, member: _MemberArgument, mesh: MeshOption = None) -> None:
    """Remove a member, whose key may not join again."""
    found = _asked(call, "ban", {"member": member}, mesh)
    if found is not None:
        call.out.line(f"{member} is banned.")


@command(app, "unban")
def unban(call: Call, member: _MemberArgument, mesh: MeshOption = None) -> None:
    """Let a key join again, by a new invite."""
    found = _asked(call, "unban", {"member": member}, mesh)
    if found is not None:
        call.out.line(f"{member} may join again.")


@command(app, "show")
def show(call: Call, mesh: MeshOption = None) -> None:
    """Show what a mesh may hold, and holds, and what becomes of a member's second daemon."""
    found = _asked(call, "mesh", {}, mesh)
    if found is not None:
        call.out.line(f"{found['slug']}: {found['name']}")
        call.out.line(f"members: {found['members']} of {found['members_max']}")
        call.out.line(f"bytes: {found['stored_bytes']} of {found['bytes_max']}")
        call.out.line(f"second daemon of a member: {found['connection_policy']}")


@command(app, "policy")
def policy(
    call: Call,
    policy: Annotated[
        Literal["prefer_newest", "prefer_oldest", "allow_concurrent"],
        typer.Argument(metavar="POLICY", help="prefer_newest, prefer_oldest or allow_concurrent"),
    ],
    mesh: MeshOption = None,
) -> None:
    """Say what becomes of a member's second daemon: it replaces the first, it is refused, or both stay.

    It holds from the next connection on. Where both stay, each message reaches one of the two.
    """
    found = _asked(call, "set_connection_policy", {"policy": policy}, mesh)
    if found is not None:
        call.out.line(f"{found['connection_policy']}{'' if found['changed'] else ', as before'}.")


@command(app, "leave")
def leave(
    call: Call,
    mesh: MeshOption = None,
    local: Annotated[bool, typer.Option("--local", help="Only forget it here; the broker is not told.")] = False,
) -> None:
    """Leave a mesh. Its messages stay in the inbox.

    Who was removed from it can do so while no daemon runs.
    """
    found: dict[str, Any] = load_app("daemon.offline").leave(mesh, only_here=local)
    if call.json:
        call.out.data(found)
    else:
        call.out.line(f"{found['mesh']} is forgotten here." if local else f"No longer a member of {found['mesh']}.")


@command(app, "info")
def info(call: Call, mesh: MeshOption = None) -> int:
    """Show how the mesh's roster stands: its fingerprint, its end, who has confirmed it last, owners and keys owed.

    Exits with 5 if the broker has shown different members different rosters.
    """
    with daemon_client() as client:
        found = client.mesh_info(mesh)
    code = Exit.OK if found.split is None else Exit.DAMAGE
    if call.json:
        call.out.data(plain(found))
        return code
    call.out.line(f"mesh: {found.mesh}, {found.members} {'member' if found.members == 1 else 'members'}")
    call.out.line(f"fingerprint: {found.fingerprint}")
    call.out.line(f"head: {found.head.n} {found.head.hash}")
    if found.confirmed_by is None:
        call.out.line("confirmed: not yet; the next message of a member does")
    else:
        call.out.line(f"confirmed: up to {found.confirmed_n}, by {found.confirmed_by} at {found.confirmed_at}")
    call.out.line(f"owners: {', '.join(found.owners)}")
    call.out.line(f"key epoch: {found.key_epoch}{', a new key is owed' if found.key_owed else ''}")
    for note in _notes(found):
        call.out.note(note)
    return code


@command(app, "log")
def log_(
    call: Call,
    after: Annotated[int | None, typer.Option("--after", min=0, metavar="NUMBER", help="Only what follows it.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="So many entries at most.")] = 100,
    mesh: MeshOption = None,
) -> None:
    """Show what was said in a mesh's roster: who let whom in, who removed whom, and when."""
    with daemon_client() as client:
        found = client.mesh_log(mesh, after=after, limit=limit)
    if call.json:
        call.out.data(plain(found), rows="entries")
        return
    rows = [(str(each.n), each.at, each.by, each.kind, ", ".join(each.about)) for each in found.entries]
    call.out.table(["number", "at", "by", "what", "about"], rows, empty="Nothing was said after it.")


@command(app, "rename")
def rename(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Small letters, digits, '.', '_' and '-'.")],
    mesh: MeshOption = None,
) -> None:
    """Go by another name. Nobody else can take the old one for 30 days."""
    with daemon_client() as client:
        found = client.rename(name, mesh)
    if call.json:
        call.out.data(plain(found))
    else:
        call.out.line(f"You are {found.display_name} in {found.mesh} now.")


@command(app, "settle")
def settle(call: Call, mesh: MeshOption = None) -> None:
    """Say which roster counts, after the broker has shown different ones: the one that it serves now.

    Only an owner can. Whom the other one had removed is removed again.
    """
    with daemon_client() as client:
        found = client.settle(mesh)
    if call.json:
        call.out.data(plain(found))
    elif not found.changed:
        call.out.line("There is nothing to be settled.")
    else:
        also = f" Removed again: {', '.join(found.removed)}." if found.removed else ""
        call.out.line(f"{found.mesh} goes on with the roster that its broker serves.{also}")


@command(app, "verify")
def verify(
    call: Call,
    member: _MemberArgument,
    confirm: Annotated[bool, typer.Option("--confirm", help="The numbers are the same; remember that.")] = False,
    mesh: MeshOption = None,
) -> int:
    """Show the number that you and a member compare aloud, and whether you have. Exits with 5 if its key has changed
    since.
    """
    with daemon_client() as client:
        found = client.verify(member, mesh, confirm=confirm)
    changed = found.key_changed and not confirm
    if call.json:
        call.out.data(plain(found))
    else:
        call.out.line(found.safety_number)
        if changed:
            call.out.note(f"{found.peer} HAS ANOTHER KEY than when you compared. Compare again before you trust it.")
        elif found.verified_at is not None:
            call.out.line(f"Compared at {found.verified_at}.")
        else:
            call.out.note("Not compared yet. If both of you see this number, add --confirm.")
    return Exit.DAMAGE if changed else Exit.OK


def _notes(found: MeshInfo) -> list[str]:
    """What people should know of a roster that is not as it should be."""
    split = found.split
    return [
        text
        for is_so, text in (
            (split is not None, "The broker has shown different rosters; nothing is sent until an owner settles it."),
            (found.restoring, "The broker was restored from a backup and waits for an owner's daemon."),
            (found.upgrade_needed, "The mesh has rules that this Parley does not know; upgrade it."),
            (found.single_owner, "There is a single owner, whose lost key would be final; make somebody else one."),
        )
        if is_so
    ]


@command(app, "safety")
def safety(call: Call, member: _MemberArgument, mesh: MeshOption = None) -> None:
    """Show the number that you and a member compare aloud, to know that nobody stands between you."""
    with daemon_client() as client:
        found = client.safety_number(member, mesh)
    if call.json:
        call.out.data(plain(found))
    else:
        call.out.line(found.safety_number)


def _asked(
    call: Call, method: str, params: dict[str, Any], mesh: str | None, *, rows: str | None = None
) -> dict[str, Any] | None:
    """The broker's answer, for a person; a program has been given it."""
    with daemon_client() as client:
        found = client.call(method, params, mesh)
    if call.json:
        call.out.data(found, rows=rows)
        return None
    return found


def _problem(mesh: dict[str, Any]) -> str:
    return "" if mesh["ended"] is None else str(mesh["ended"]["error"])


def _good_until(invite: dict[str, Any]) -> str:
    return "revoked" if invite["revoked"] else str(invite["expires_at"])


def _joined(call: Call, found: dict[str, Any]) -> None:
    if call.json:
        call.out.data({"mesh": found})
    else:
        call.out.line(f"{found['display_name']} is {found['role']} of {found['slug']}.")


def _name(given: str | None) -> str:
    """What somebody is called who says nothing: the name of the account, in the characters that a name may have."""
    if given is not None:
        return given
    return re.sub(r"[^a-z0-9._-]", "-", getpass.getuser().lower()).lstrip("._-")[:NAME_CHARS] or "member"
