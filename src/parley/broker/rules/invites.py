"""Invites: kept under their id, counted at each use, and taken back when their issuer wants to.

An invite says itself what it allows, and who signed it; the row says whether it still does. Both are looked at in the
transaction that makes the new member, so that an invite for one lets in exactly one, however many come at once.
"""

from typing import Final

from parley.broker.rules.audit import record
from parley.broker.rules.members import RANK, Member, active_member, add_member, lock_mesh, member_with_key
from parley.broker.tx import Row, Tx
from parley.core.broker_errors import InviteRefused, NotAllowed
from parley.core.clock import iso, parse_iso
from parley.core.errors import NotFound
from parley.wire.invites import Invite, decode_invite, encode_invite, has_expired, is_signed

_ROW: Final = "invite_id, role, created_by, created_ms, expires_ms, uses_max, uses, revoked_ms"


def register_invite(tx: Tx, invite: Invite, issuer_id: str | None) -> bool:
    """Lets a signed invite be used. False when it was registered before. Without an issuer the broker itself signed."""
    mesh = lock_mesh(tx, invite.mesh_id)
    if not is_signed(invite):
        raise InviteRefused("The invite is not signed by its issuer", reason="forged")
    if issuer_id is not None:
        issuer = active_member(tx, mesh.mesh_id, issuer_id)
        if issuer.pubkey != invite.issuer:
            raise InviteRefused("An invite is registered by its issuer", reason="forged")
        if RANK[invite.role] > RANK[issuer.role]:
            raise NotAllowed(f"The role {issuer.role} cannot invite the role {invite.role}", role=issuer.role)
    if tx.one("SELECT 1 FROM invite WHERE invite_id = ?", invite.invite_id) is not None:
        return False
    tx.run(
        "INSERT INTO invite (invite_id, mesh_id, pubkey, role, created_by, created_ms, expires_ms, uses_max)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        *(invite.invite_id, mesh.mesh_id, invite.issuer, invite.role, issuer_id, tx.now_ms),
        *(parse_iso(invite.expires_at), invite.uses_max),
    )
    actor = issuer_id or "broker"
    record(tx, mesh.mesh_id, "invite_created", actor, invite_id=invite.invite_id, role=invite.role)
    return True


def revoke_invite(tx: Tx, mesh_id: str, invite_id: str, actor: str) -> bool:
    """Lets the invite be used no more. False when that was so before. Raises ``NotFound`` for one that never was."""
    lock_mesh(tx, mesh_id)
    where = "invite_id = ? AND mesh_id = ?"
    if tx.one(f"SELECT 1 FROM invite WHERE {where}", invite_id, mesh_id) is None:
        raise NotFound("The mesh has no such invite; `parley mesh invites` lists those that it has", id=invite_id)
    changed = tx.run(
        f"UPDATE invite SET revoked_ms = ? WHERE {where} AND revoked_ms IS NULL", tx.now_ms, invite_id, mesh_id
    )
    if changed:
        record(tx, mesh_id, "invite_revoked", actor, invite_id=invite_id)
    return bool(changed)


def join(tx: Tx, invite: Invite, pubkey: str, display_name: str, join_proof: str) -> tuple[Member, bool]:
    """Makes the bearer a member. The same key joins once: again it is answered as it is, and no use is counted.

    The caller has seen that ``pubkey``'s owner asks. Raises ``InviteRefused`` with the reason.
    """
    mesh = lock_mesh(tx, invite.mesh_id)
    row = _row_of(tx, invite)
    known = member_with_key(tx, mesh.mesh_id, pubkey)
    if known is not None and known.state == "active" and known.pubkey == pubkey:
        return known, False
    _refuse_if_over(tx, invite, row)
    tx.run("UPDATE invite SET uses = uses + 1 WHERE invite_id = ?", invite.invite_id)
    member = add_member(
        tx, mesh.mesh_id, pubkey, display_name, row[2], invite=encode_invite(invite), join_proof=join_proof
    )
    record(tx, mesh.mesh_id, "member_joined", member.member_id, invite_id=invite.invite_id, role=row[2])
    return member, True


def renew_proof(tx: Tx, invite: Invite, member: Member, join_proof: str) -> bool:
    """Takes another proof of a member whom nobody could give a key: its first one may be of a damaged invite.

    Another invite than the one it joined by counts as used. False where there is nothing to renew: whoever was given a
    key, or founded the mesh, needs no proof.
    """
    joined_by = tx.one(
        "SELECT invite, join_proof FROM member AS m WHERE member_id = ?"
        " AND NOT EXISTS (SELECT 1 FROM key_gift AS k WHERE k.member_id = m.member_id)",
        member.member_id,
    )
    if joined_by is None or joined_by[0] is None or join_proof in ("", joined_by[1]):
        return False
    first, _ = decode_invite(joined_by[0])
    if first.key_epoch == 0:
        return False
    if first.invite_id != invite.invite_id:
        _refuse_if_over(tx, invite, _row_of(tx, invite))
        tx.run("UPDATE invite SET uses = uses + 1 WHERE invite_id = ?", invite.invite_id)
    tx.run(
        "UPDATE member SET invite = ?, join_proof = ? WHERE member_id = ?",
        *(encode_invite(invite), join_proof, member.member_id),
    )
    record(tx, member.mesh_id, "join_proof_renewed", member.member_id, invite_id=invite.invite_id)
    return True


def list_invites(tx: Tx, mesh_id: str) -> list[dict[str, object]]:
    """The mesh's invites, the newest first."""
    rows = tx.all(f"SELECT {_ROW} FROM invite WHERE mesh_id = ? ORDER BY created_ms DESC, invite_id DESC", mesh_id)
    return [
        {
            "invite_id": invite_id,
            "role": role,
            "created_by": created_by,
            "created_at": iso(created_ms),
            "expires_at": iso(expires_ms),
            "uses_max": uses_max,
            "uses": uses,
            "revoked": revoked_ms is not None,
        }
        for invite_id, role, created_by, created_ms, expires_ms, uses_max, uses, revoked_ms in rows
    ]


def role_below(actor: Member, other: Member) -> None:
    """Raises ``NotAllowed`` unless the actor may act on the other: an admin on members, an owner on everybody."""
    if actor.role != "owner" and RANK[other.role] >= RANK[actor.role]:
        raise NotAllowed(f"A {actor.role} cannot do this to an {other.role}", role=actor.role)


def _row_of(tx: Tx, invite: Invite) -> Row:
    """What is kept of the invite. Raises ``InviteRefused`` for one that was not signed as it is, or not registered."""
    if not is_signed(invite):
        raise InviteRefused("The invite is not signed by its issuer", reason="forged")
    columns = "mesh_id, pubkey, role, expires_ms, uses_max, uses, revoked_ms, created_by"
    row = tx.one(f"SELECT {columns} FROM invite WHERE invite_id = ?", invite.invite_id)
    if row is None or row[:3] != (invite.mesh_id, invite.issuer, invite.role):
        raise InviteRefused("There is no such invite", reason="unknown")
    return row


def _refuse_if_over(tx: Tx, invite: Invite, row: Row) -> None:
    _, _, _, expires_ms, uses_max, uses, revoked_ms, created_by = row
    if revoked_ms is not None:
        raise InviteRefused("The invite was revoked", reason="revoked")
    if has_expired(invite, tx.now_ms) or expires_ms <= tx.now_ms:
        raise InviteRefused("The invite has expired", reason="expired")
    if uses >= uses_max:
        raise InviteRefused("The invite was used as often as it may", reason="used_up")
    if created_by is not None:
        issuer = tx.one("SELECT state, role FROM member WHERE member_id = ?", created_by)
        if issuer is None or issuer[0] != "active" or RANK[issuer[1]] < RANK["admin"]:
            raise InviteRefused("Who issued the invite may no longer invite", reason="issuer")
