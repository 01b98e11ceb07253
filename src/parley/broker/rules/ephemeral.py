"""Members whose keys end with their daemon. Such a daemon leaves at its end; one that was killed cannot say so.

Nobody can be that member again, so once it has been away for longer than any interruption lasts, the broker ends the
membership in its place. An owner is never ended: a mesh must not lose one because a machine was off.
"""

from dataclasses import dataclass
from typing import Final

from parley.broker.done import Done
from parley.broker.rules import audit
from parley.broker.rules.members import end_membership, lock_mesh
from parley.broker.tx import Tx
from parley.wire.broker import Notice

BROKER: Final = "broker"
"""Who did it, in the audit log."""
_GONE: Final = (
    "SELECT m.mesh_id, m.member_id FROM member AS m WHERE m.ephemeral = 1 AND m.state = 'active' AND m.role <> 'owner'"
    " AND COALESCE(m.seen_ms, m.joined_ms) < ?"
    " AND NOT EXISTS (SELECT 1 FROM connection AS c WHERE c.member_id = m.member_id)"
)


@dataclass(frozen=True, slots=True)
class EndGoneMember:
    """Ends the membership of one that has been away for too long. None when there is no such member."""

    away_ms: int

    def __call__(self, tx: Tx) -> Done | None:
        before_ms = tx.now_ms - self.away_ms
        found = tx.one(f"{_GONE} ORDER BY m.member_id LIMIT 1", before_ms)
        if found is None:
            return None
        mesh_id, member_id = found
        lock_mesh(tx, mesh_id)
        if tx.one(f"{_GONE} AND m.member_id = ?", before_ms, member_id) is None:  # it came back just now
            return None
        end_membership(tx, mesh_id, member_id, "left")
        audit.record(tx, mesh_id, "member_left", BROKER, member_id=member_id, reason="ephemeral")
        epoch = lock_mesh(tx, mesh_id).key_epoch
        told = Notice("member_gone", {"member_id": member_id, "state": "left", "key_epoch": epoch})
        return Done({"member_id": member_id}, ended=(member_id,), notices=(told,), mesh_id=mesh_id)
