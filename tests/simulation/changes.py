"""What people change while messages are on their way: whom they take what from, who is one of them, and their keys.

Whether a change was there when a message was accepted depends on the moment. So what may have been either way is
written down before the change is asked for, and the judge lets both pass; what must not be any more after a change that
certainly took place is written down when it did.
"""

import random

from parley.broker.methods import CallMethod
from parley.broker.rules.grants import grant
from parley.broker.rules.members import rotate_key
from parley.core import sealing
from tests.simulation.broker_node import BrokerNode
from tests.simulation.daemon_node import DaemonNode
from tests.simulation.population import CAPABILITY, Population

GONE_MAX = 1
"""How many may be thrown out of a mesh; the others must have somebody to talk to."""


class Changes:
    """Makes them, one at a time."""

    def __init__(self, people: Population, broker: BrokerNode, daemons: list[DaemonNode], rng: random.Random) -> None:
        self._people = people
        self._broker = broker
        self._daemons = {each.name: each for each in daemons}
        self._rng = rng

    def throw_out(self) -> None:
        """An owner bans somebody, wherever they are and whatever they do just then."""
        people, mesh_id = self._people, self._rng.choice(self._people.mesh_ids)
        owner, *others = people.in_mesh(mesh_id)
        if not others or not self._broker.is_up or sum(mesh == mesh_id for mesh, _ in people.gone) >= GONE_MAX:
            return
        name = self._rng.choice(others)
        by, of = people.members[mesh_id, owner], people.members[mesh_id, name]
        people.gone[mesh_id, name] = None

        def done(_: object) -> None:
            sql = "SELECT coalesce(max(history_id), 0) FROM message_history"
            people.gone[mesh_id, name] = int(str(self._broker.database.execute(sql).fetchall()[0][0]))

        self._broker.call(CallMethod(mesh_id, by.member_id, "ban", {"member_id": of.member_id}), done)

    def change_a_block(self) -> None:
        """Somebody takes less, or more, from somebody else."""
        people, mesh_id = self._people, self._rng.choice(self._people.mesh_ids)
        if not self._broker.is_up or len(people.in_mesh(mesh_id)) < 2:
            return
        recipient, sender = self._rng.sample(people.in_mesh(mesh_id), 2)
        kept = tuple(each for each in sorted(CAPABILITY.values()) if self._rng.random() < 0.5)
        ids = people.members[mesh_id, recipient].member_id, people.members[mesh_id, sender].member_id
        people.changed.add((mesh_id, recipient, sender))
        self._broker.call(lambda tx: grant(tx, mesh_id, *ids, kept))

    def replace_a_key(self, daemon: DaemonNode) -> None:
        """A member takes a new key, whatever is still to be sent under the old one. Nobody dies of it here."""
        mesh_id = self._rng.choice(self._people.meshes_of(daemon.name))
        disk = self._broker.disk
        if not (daemon.is_up and self._broker.is_up) or disk.is_full or disk.cut_after is not None:
            return
        if (mesh_id, daemon.name) in self._people.gone:
            return
        seed = sealing.new_key(self._rng.randbytes)
        pubkey = sealing.public_key(seed).hex()
        of = self._people.members[mesh_id, daemon.name]
        self._broker.store.call(lambda tx: rotate_key(tx, mesh_id, of.member_id, pubkey))
        self._people.add_key(mesh_id, daemon.name, pubkey)
        daemon.take_key(mesh_id, seed)
        self._people.members[mesh_id, daemon.name] = next(
            each for each in daemon.memberships if each.mesh_id == mesh_id
        )
