"""How a mesh key gets from the members who have it to those who do not: sealed, past a broker that cannot open it.

A member is without the key of an epoch until somebody has given it one. What it was given and could not open, or would
not believe, it throws away, and is then seen to want one again: nobody can keep a key from it by giving it rubbish.
"""

from parley.broker.rules.members import active_member, get_mesh, lock_mesh
from parley.broker.tx import Tx
from parley.core.errors import InvalidInput
from parley.core.limits import PAGE_LIMIT_MAX


def keys_wanted(
    tx: Tx, mesh_id: str, member_id: str, after: str = "", count: int = PAGE_LIMIT_MAX
) -> tuple[int, list[dict[str, object]]]:
    """The current epoch, and up to so many whose ids follow ``after`` and who are without its key, with what each
    joined by; the asking member aside."""
    epoch = get_mesh(tx, mesh_id).key_epoch
    rows = tx.all(
        "SELECT m.member_id, m.pubkey, m.invite, m.join_proof FROM member AS m WHERE m.mesh_id = ?"
        " AND m.state = 'active' AND m.member_id <> ? AND m.member_id > ? AND NOT EXISTS (SELECT 1 FROM key_gift AS k"
        " WHERE k.member_id = m.member_id AND k.key_epoch = ?) ORDER BY m.member_id LIMIT ?",
        *(mesh_id, member_id, after, epoch, count),
    )
    return epoch, [
        {"member_id": each, "pubkey": pubkey, "invite": invite, "join_proof": proof}
        for each, pubkey, invite, proof in rows
    ]


def give_key(tx: Tx, mesh_id: str, giver_id: str, member_id: str, key_epoch: int, sealed: str) -> bool:
    """Keeps the sealed key for the member. False when this giver gave it one of this epoch before."""
    mesh = lock_mesh(tx, mesh_id)
    giver = active_member(tx, mesh_id, giver_id)
    active_member(tx, mesh_id, member_id)
    if key_epoch > mesh.key_epoch:
        raise InvalidInput(f"The mesh is at key epoch {mesh.key_epoch}", field="key_epoch")
    return bool(
        tx.run(
            "INSERT INTO key_gift (member_id, key_epoch, giver_id, giver_key, sealed, given_ms)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (member_id, key_epoch, giver_id) DO NOTHING",
            *(member_id, key_epoch, giver_id, giver.pubkey, sealed, tx.now_ms),
        )
    )


def refuse_key(tx: Tx, member_id: str, key_epoch: int, giver_id: str) -> bool:
    """Throws a gift away."""
    where = "member_id = ? AND key_epoch = ? AND giver_id = ?"
    return bool(tx.run(f"DELETE FROM key_gift WHERE {where}", member_id, key_epoch, giver_id))


def keys_for(tx: Tx, mesh_id: str, member_id: str) -> tuple[int, list[dict[str, object]]]:
    """The current epoch, and all that was given to the member."""
    epoch = get_mesh(tx, mesh_id).key_epoch
    rows = tx.all(
        "SELECT key_epoch, giver_id, giver_key, sealed FROM key_gift WHERE member_id = ? ORDER BY key_epoch, given_ms",
        member_id,
    )
    return epoch, [
        {"key_epoch": each, "giver_id": giver_id, "giver_key": giver_key, "sealed": sealed}
        for each, giver_id, giver_key, sealed in rows
    ]
