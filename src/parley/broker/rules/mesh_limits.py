"""What a mesh may hold, and how many daemons of one member may be connected to it: set when it is made, changed later.

The quotas are the operator's, who pays for the disk; who may connect beside whom is the owner's matter. Every rule that
needs one of them reads the mesh's row in its own transaction, so a change holds at once at all brokers of a database.
"""

from dataclasses import dataclass
from typing import Any, Final

from parley.broker.rules import audit
from parley.broker.rules.members import lock_mesh
from parley.broker.tx import Tx
from parley.core.errors import NotFound
from parley.wire.mesh_http import MeshLimits, SetLimits

OPERATOR: Final = "operator"
"""Who changed it, in the audit log, when it was nobody of the mesh."""
_LIMITS: Final = (
    "SELECT x.mesh_id, x.slug, x.name, (SELECT count(*) FROM member AS m WHERE m.mesh_id = x.mesh_id AND"
    " m.state = 'active'), x.members_max, x.stored_bytes, x.bytes_max, x.connection_policy FROM mesh AS x"
)


def limits_of(tx: Tx, mesh_id: str) -> MeshLimits:
    """The mesh's limits, and how far they are used. Raises ``NotFound``."""
    row = tx.one(f"{_LIMITS} WHERE x.mesh_id = ?", mesh_id)
    if row is None:
        raise NotFound("There is no such mesh", mesh_id=mesh_id)
    return MeshLimits(*row)


def all_limits(tx: Tx) -> list[MeshLimits]:
    """Those of all meshes, by their names."""
    return [MeshLimits(*row) for row in tx.all(f"{_LIMITS} ORDER BY x.slug")]


@dataclass(frozen=True, slots=True)
class ChangeLimits:
    """The operator's word on what a mesh may hold. What it holds already stays, whatever is allowed from now on."""

    asked: SetLimits

    def __call__(self, tx: Tx) -> MeshLimits:
        asked = self.asked
        row = tx.one("SELECT mesh_id FROM mesh WHERE slug = ?", asked.slug)
        if row is None:
            raise NotFound(f"There is no mesh {asked.slug} on this broker", slug=asked.slug)
        wanted = {"members_max": asked.members_max, "bytes_max": asked.bytes_max}
        _change(tx, row[0], OPERATOR, "mesh_limits_changed", wanted)
        return limits_of(tx, row[0])


def set_connection_policy(tx: Tx, mesh_id: str, actor: str, policy: str) -> bool:
    """What becomes of a member's second daemon, from the next connection on; whether that is new."""
    return _change(tx, mesh_id, actor, "connection_policy_changed", {"connection_policy": policy})


def _change(tx: Tx, mesh_id: str, actor: str, event: str, wanted: dict[str, Any]) -> bool:
    lock_mesh(tx, mesh_id)
    before = limits_of(tx, mesh_id)
    new = {name: value for name, value in wanted.items() if value not in (None, getattr(before, name))}
    for column, value in new.items():
        tx.run(f"UPDATE mesh SET {column} = ? WHERE mesh_id = ?", value, mesh_id)
    if new:
        was = {name: getattr(before, name) for name in new}
        audit.record(tx, mesh_id, event, actor, **new, was=was)
    return bool(new)
