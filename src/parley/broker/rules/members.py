"""Meshes and their members: who they are, what their role allows, and how a membership ends.

A membership that has ended keeps its row: its messages keep their sender, and a key that was banned stays known.
Whoever ends one locks the mesh's row first, as the acceptance of a message does, so that nothing of the member is
accepted after that, and nothing more is queued for it.
"""

from typing import Final, Literal, NamedTuple

from parley.broker.policy import Policy
from parley.broker.rules.deliver import end_deliveries_from, end_deliveries_to
from parley.broker.tx import Row, Tx
from parley.core.broker_errors import InviteRefused, MembershipEnded, NoSuchDestination, NotAllowed, QuotaExceeded
from parley.core.errors import InvalidInput, NotFound

MESH, MEMBER = "mesh_", "mem_"
Role = Literal["owner", "admin", "member"]
Ending = Literal["left", "revoked", "banned"]
RANK: Final = {"member": 0, "admin": 1, "owner": 2}

_MESH: Final = "SELECT mesh_id, slug, name, key_epoch, connection_policy FROM mesh WHERE mesh_id = ?"
_MEMBER: Final = "member_id, mesh_id, pubkey, display_name, role, state, joined_ms, seen_ms"


class Mesh(NamedTuple):
    """A mesh as its members see it."""

    mesh_id: str
    slug: str
    name: str
    key_epoch: int
    connection_policy: str


class Member(NamedTuple):
    """A member of a mesh, or somebody who was one."""

    member_id: str
    mesh_id: str
    pubkey: str
    display_name: str
    role: Role
    state: str
    joined_ms: int
    seen_ms: int | None


def create_mesh(tx: Tx, slug: str, name: str, policy: Policy) -> Mesh:
    """A mesh without members. Raises ``InvalidInput`` when the slug is taken."""
    mesh_id = tx.new_id(MESH)
    made = tx.run(
        "INSERT INTO mesh (mesh_id, slug, name, created_ms, bytes_max, members_max, connection_policy)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (slug) DO NOTHING",
        *(mesh_id, slug, name, tx.now_ms, policy.bytes_max, policy.members_max, policy.connection_policy),
    )
    if not made:
        raise InvalidInput(f"There is a mesh {slug} already", field="slug")
    return lock_mesh(tx, mesh_id)


def lock_mesh(tx: Tx, mesh_id: str) -> Mesh:
    """The mesh, locked until the end of the transaction. Raises ``NotFound``."""
    return _mesh(tx.one(f"{_MESH}{tx.for_update}", mesh_id), mesh_id)


def get_mesh(tx: Tx, mesh_id: str) -> Mesh:
    """The mesh as it is now, for what only reads. Raises ``NotFound``."""
    return _mesh(tx.one(_MESH, mesh_id), mesh_id)


def _mesh(row: Row | None, mesh_id: str) -> Mesh:
    if row is None:
        raise NotFound("There is no such mesh", mesh_id=mesh_id)
    return Mesh(*row)


def add_member(
    tx: Tx,
    mesh_id: str,
    pubkey: str,
    display_name: str,
    role: Role,
    *,
    invite: str | None = None,
    join_proof: str = "",
) -> Member:
    """Makes the key a member. A member that is one already is answered as it is; one that left comes back.

    Raises ``InviteRefused`` for a key that was removed or banned, or that its owner has replaced.
    """
    lock_mesh(tx, mesh_id)
    known = member_with_key(tx, mesh_id, pubkey)
    if known is not None and known.state == "banned":
        raise InviteRefused("This key is banned from the mesh until an admin lifts the ban", reason="banned")
    if known is not None and (known.state == "revoked" or known.pubkey != pubkey):
        reason = "replaced" if known.pubkey != pubkey else "revoked"
        raise InviteRefused("This key may not join the mesh any more; another one may", reason=reason)
    if known is not None and known.state == "active":
        return known
    refuse_when_full(tx, mesh_id)
    if known is not None:
        tx.run(
            "UPDATE member SET state = 'active', ended_ms = NULL, role = ?, display_name = ?, invite = ?,"
            " join_proof = ? WHERE member_id = ?",
            *(role, display_name, invite, join_proof, known.member_id),
        )
        return get_member(tx, mesh_id, known.member_id)
    member_id = tx.new_id(MEMBER)
    tx.run(
        "INSERT INTO member (member_id, mesh_id, pubkey, display_name, role, state, joined_ms, invite, join_proof)"
        " VALUES (?, ?, ?, ?, ?, 'active', ?, ?, ?)",
        *(member_id, mesh_id, pubkey, display_name, role, tx.now_ms, invite, join_proof),
    )
    tx.run(
        "INSERT INTO member_key (mesh_id, pubkey, member_id, since_ms) VALUES (?, ?, ?, ?)",
        *(mesh_id, pubkey, member_id, tx.now_ms),
    )
    return get_member(tx, mesh_id, member_id)


def end_membership(tx: Tx, mesh_id: str, member_id: str, how: Ending) -> Member:
    """Ends the membership and what is queued for it, and asks for a new mesh key. Of a member who is put out, what it
    sent and nobody has got yet ends as well; who leaves by itself has said it.

    The last owner cannot go while there are others, who would be left without one.
    """
    lock_mesh(tx, mesh_id)
    member = get_member(tx, mesh_id, member_id)
    is_last_owner = member.state == "active" and member.role == "owner" and _owners(tx, mesh_id) == 1
    if is_last_owner and any(each != member for each in members_after(tx, mesh_id, "", 2)):
        raise NotAllowed("The last owner of a mesh cannot go; make somebody else an owner first")
    if member.state == "active" or how == "banned":
        tx.run("UPDATE member SET state = ?, ended_ms = ? WHERE member_id = ?", *(how, tx.now_ms, member_id))
    stop_traffic(tx, mesh_id, member_id, how)
    if member.state == "active":
        tx.run("UPDATE mesh SET key_epoch = key_epoch + 1 WHERE mesh_id = ?", mesh_id)
    return get_member(tx, mesh_id, member_id)


def stop_traffic(tx: Tx, mesh_id: str, member_id: str, how: Ending) -> None:
    """Ends what the member subscribed to and what is queued for it; of one that was put out also what it sent."""
    for table in ("topic_subscription", "group_member"):
        tx.run(f"DELETE FROM {table} WHERE member_id = ?", member_id)
    end_deliveries_to(tx, member_id)
    if how != "left":
        end_deliveries_from(tx, mesh_id, member_id)


def lift_ban(tx: Tx, mesh_id: str, member_id: str) -> Member:
    """Lets the key join again, with a new invite."""
    lock_mesh(tx, mesh_id)
    get_member(tx, mesh_id, member_id)
    tx.run("UPDATE member SET state = 'left' WHERE member_id = ? AND state IN ('banned', 'revoked')", member_id)
    return get_member(tx, mesh_id, member_id)


def set_role(tx: Tx, mesh_id: str, member_id: str, role: Role) -> Member:
    """Gives an active member another role. The last owner stays one."""
    lock_mesh(tx, mesh_id)
    member = active_member(tx, mesh_id, member_id)
    if member.role == "owner" and role != "owner" and _owners(tx, mesh_id) == 1:
        raise NotAllowed("A mesh needs an owner; make somebody else one first")
    tx.run("UPDATE member SET role = ? WHERE member_id = ?", role, member_id)
    return get_member(tx, mesh_id, member_id)


def rotate_key(tx: Tx, mesh_id: str, member_id: str, pubkey: str, proof: str = "") -> Member:
    """The member's new key. What is sent to the old one still reaches the member.

    The proof takes the place of what the member joined by, which was made for the old key.
    """
    lock_mesh(tx, mesh_id)
    known = member_with_key(tx, mesh_id, pubkey)
    if known is not None and known.member_id != member_id:
        raise InvalidInput("This key belongs to another member", field="pubkey")
    if known is not None and known.pubkey != pubkey:
        raise InvalidInput("This key was replaced before and does not come back", field="pubkey")
    if known is None:
        tx.run(
            "INSERT INTO member_key (mesh_id, pubkey, member_id, since_ms) VALUES (?, ?, ?, ?)",
            *(mesh_id, pubkey, member_id, tx.now_ms),
        )
        tx.run(
            "UPDATE member SET pubkey = ?, invite = NULL, join_proof = ? WHERE member_id = ?",
            *(pubkey, proof, member_id),
        )
    return get_member(tx, mesh_id, member_id)


def get_member(tx: Tx, mesh_id: str, member_id: str) -> Member:
    """The member of this mesh, active or not. Raises ``NoSuchDestination``: another mesh's ids are nobody's here."""
    row = tx.one(f"SELECT {_MEMBER} FROM member WHERE member_id = ? AND mesh_id = ?", member_id, mesh_id)
    if row is None:
        raise NoSuchDestination("There is no such member in this mesh", ref=member_id)
    return Member(*row)


def active_member(tx: Tx, mesh_id: str, member_id: str) -> Member:
    """The member, who is one now. Raises ``MembershipEnded``."""
    member = get_member(tx, mesh_id, member_id)
    if member.state != "active":
        raise MembershipEnded("The member is no longer one of this mesh", reason=member.state)
    return member


def member_with_key(tx: Tx, mesh_id: str, pubkey: str) -> Member | None:
    """Whose key this is or was."""
    row = tx.one("SELECT member_id FROM member_key WHERE mesh_id = ? AND pubkey = ?", mesh_id, pubkey)
    return None if row is None else get_member(tx, mesh_id, row[0])


def members_after(tx: Tx, mesh_id: str, after: str, count: int, *, former: bool = False) -> list[Member]:
    """Up to so many active members, or former ones, whose ids follow this one, in the order of their ids."""
    wanted = "state <> 'active'" if former else "state = 'active'"
    rows = tx.all(
        f"SELECT {_MEMBER} FROM member WHERE mesh_id = ? AND {wanted} AND member_id > ? ORDER BY member_id LIMIT ?",
        *(mesh_id, after, count),
    )
    return [Member(*row) for row in rows]


def _owners(tx: Tx, mesh_id: str) -> int:
    row = tx.one("SELECT count(*) FROM member WHERE mesh_id = ? AND state = 'active' AND role = 'owner'", mesh_id)
    return row[0] if row else 0


def refuse_when_full(tx: Tx, mesh_id: str) -> None:
    """Raises ``QuotaExceeded`` when the mesh has as many members as it may."""
    row = tx.one(
        "SELECT count(*) FROM member WHERE mesh_id = ? AND state = 'active'"
        " HAVING count(*) >= (SELECT members_max FROM mesh WHERE mesh_id = ?)",
        *(mesh_id, mesh_id),
    )
    if row is not None:
        raise QuotaExceeded("The mesh has as many members as it may", members=row[0])
