"""How a broker takes a mesh that has a roster: by its first entries, of which one names this broker.

The mesh is its founder's and not the broker's: what makes it is signed, and it has the same fingerprint everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from parley.broker.policy import Policy
from parley.broker.rules.broker_key import broker_seed
from parley.broker.rules.members import create_mesh
from parley.broker.rules.roster_append import as_bytes, check_broker, check_time, judged, refuse_adoption
from parley.broker.rules.roster_log import Kept, begin_log, page, with_fingerprint
from parley.broker.rules.roster_members import write_members
from parley.broker.tx import Tx
from parley.core.broker_errors import RosterRefused
from parley.core.roster import Step, follow, member_id
from parley.wire.mesh_http import FoundRoster, RosterFounded

_SLUG: Final = "SELECT slug FROM mesh WHERE mesh_id = ?"


class TakenIn(NamedTuple):
    """The answer, and whether the mesh is new to the broker."""

    answer: RosterFounded
    created: bool


@dataclass(frozen=True, slots=True)
class TakeRoster:
    """Takes the mesh. Again with the same entries it is answered as it is."""

    asked: FoundRoster
    policy: Policy

    def __call__(self, tx: Tx) -> TakenIn:
        entries = as_bytes(self.asked.entries)
        steps = judged(follow(None, entries))
        known = with_fingerprint(tx, steps[0].state.fingerprint)
        if known is not None:
            if page(tx, known.mesh_id, 0, len(entries)) != entries:
                raise RosterRefused("The broker carries this roster with other entries", reason="conflict")
            return TakenIn(_answer(tx, known, steps), created=False)
        for step in steps:
            refuse_adoption(step)
        check_time(tx, steps[-1])  # those before it may be of a time when no broker had the mesh
        check_broker(tx, steps[-1].state)
        mesh = create_mesh(tx, self.asked.slug, self.asked.name or self.asked.slug, self.policy)
        kept = begin_log(tx, mesh.mesh_id, steps, broker_seed(tx))
        write_members(tx, mesh.mesh_id, None, steps[-1].state)
        return TakenIn(_answer(tx, kept, steps), created=True)


def _answer(tx: Tx, kept: Kept, steps: Sequence[Step]) -> RosterFounded:
    row = tx.one(_SLUG, kept.mesh_id)
    assert row is not None
    return RosterFounded(kept.mesh_id, row[0], member_id(steps[0].entry), kept.fingerprint, kept.head)
