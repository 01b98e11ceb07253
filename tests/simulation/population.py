"""Who lives in a world: meshes, members, topics, groups and blocks, all from the seed, and who should get what.

``recipients`` is the specification of addressing in a few lines of its own; what a broker did is compared with it.
"""

import random
from dataclasses import dataclass, field

from parley.broker.policy import Policy
from parley.broker.rules.grants import grant
from parley.broker.rules.members import Role, add_member, create_mesh, members_after
from parley.broker.rules.topics import join_group, subscribe
from parley.broker.store import BrokerStore
from parley.core import sealing
from parley.daemon.memberships import Membership, MeshKey

CAPABILITY = {"dm": "dm", "topic": "topic", "queue": "broadcast"}
TOPICS = ("alerts", "builds")
GROUPS = ("dev", "dev/web", "ops")
NOWHERE = {"topic": "silence", "queue": "@nobody", "dm": sealing.public_key(bytes(32)).hex()}


@dataclass
class Population:
    """Everybody, and what they asked for. Names of daemons stand for their members."""

    daemons: list[str]
    mesh_ids: list[str] = field(default_factory=list)
    members: dict[tuple[str, str], Membership] = field(default_factory=dict)
    """By mesh and daemon."""
    subscribed: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    grouped: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    takes: dict[tuple[str, str, str], tuple[str, ...]] = field(default_factory=dict)
    """By mesh, recipient and sender; without an entry everything is taken."""
    keys: dict[str, str] = field(default_factory=dict)
    """Whose a public key is or was."""
    changed: set[tuple[str, str, str]] = field(default_factory=set)
    """Mesh, recipient and sender, where what is taken changed meanwhile: either may have been so when it mattered."""
    gone: dict[tuple[str, str], int | None] = field(default_factory=dict)
    """Mesh and daemon of who was thrown out, and what had been accepted when it certainly was."""

    def in_mesh(self, mesh_id: str) -> list[str]:
        return [daemon for daemon in self.daemons if (mesh_id, daemon) in self.members]

    def meshes_of(self, daemon: str) -> list[str]:
        return [mesh_id for mesh_id in self.mesh_ids if (mesh_id, daemon) in self.members]

    def recipients(self, mesh_id: str, sender: str, kind: str, ref: str) -> list[str] | None:
        """Who gets the message, or None when the broker must refuse it for good."""
        if kind == "dm":
            found = [each for each in self.in_mesh(mesh_id) if self.keys.get(ref) == f"{mesh_id}/{each}"]
            return found if found and self._takes(mesh_id, found[0], sender, kind) else None
        if kind == "topic":
            found = self.subscribed.get((mesh_id, ref), [])
            if sender not in found:
                return None
        elif ref == "*":
            found = self.in_mesh(mesh_id)
        else:
            found = self._group(mesh_id, ref[1:])
            if not found:
                return None
        return [each for each in found if each != sender and self._takes(mesh_id, each, sender, kind)]

    def uncertain(self, mesh_id: str, sender: str) -> set[str]:
        """Who may or may not get what the sender sends, since it changed while messages were on their way."""
        return {
            each
            for each in self.in_mesh(mesh_id)
            if (mesh_id, each) in self.gone or (mesh_id, each, sender) in self.changed
        }

    def may_be_refused(self, mesh_id: str, sender: str, kind: str, ref: str) -> bool:
        """Whether the broker may have refused the message for good."""
        if (mesh_id, sender) in self.gone or self.recipients(mesh_id, sender, kind, ref) is None:
            return True
        if kind == "topic" or ref == "*":
            return False
        addressed = self._group(mesh_id, ref[1:]) if kind == "queue" else [self.keys[ref].rpartition("/")[2]]
        uncertain = self.uncertain(mesh_id, sender)
        return all(each in uncertain for each in addressed)

    def may_be_taken(self, mesh_id: str, sender: str, kind: str, ref: str) -> bool:
        """Whether the broker may have accepted the message."""
        if self.recipients(mesh_id, sender, kind, ref) is not None:
            return True
        return kind == "dm" and self.keys.get(ref, "").rpartition("/")[2] in self.uncertain(mesh_id, sender)

    def add_key(self, mesh_id: str, daemon: str, pubkey: str) -> None:
        self.keys[pubkey] = f"{mesh_id}/{daemon}"

    def _group(self, mesh_id: str, name: str) -> list[str]:
        below = [group for group in GROUPS if group == name or group.startswith(f"{name}/")]
        return [each for each in self.daemons if any(each in self.grouped[mesh_id, group] for group in below)]

    def _takes(self, mesh_id: str, recipient: str, sender: str, kind: str) -> bool:
        return CAPABILITY[kind] in self.takes.get((mesh_id, recipient, sender), tuple(CAPABILITY.values()))


def populate(
    store: BrokerStore,
    rng: random.Random,
    daemons: list[str],
    meshes: int,
    *,
    blocks: bool = True,
    missing: float = 0.2,
) -> Population:
    """Fills an empty broker. Everybody is in the first mesh; of the others a daemon may be ``missing``, so likely."""
    people = Population(daemons)
    for number in range(meshes):
        slug = f"mesh-{number}"
        mesh_id = store.call(lambda tx, slug=slug: create_mesh(tx, slug, slug, Policy())).mesh_id
        people.mesh_ids.append(mesh_id)
        mesh_key = sealing.new_key(rng.randbytes)
        for daemon in daemons:
            if number == 0 or rng.random() < 1 - missing:
                of = people.members[mesh_id, daemon] = _join(store, rng, daemon, mesh_id, slug, mesh_key)
                people.add_key(mesh_id, daemon, of.pubkey)
        _subscribe_some(store, rng, people, mesh_id)
        if blocks:
            _block_some(store, rng, people, mesh_id)
    return people


def _join(store: BrokerStore, rng: random.Random, daemon: str, mesh_id: str, slug: str, mesh_key: bytes) -> Membership:
    seed = sealing.new_key(rng.randbytes)
    public = sealing.public_key(seed).hex()
    role: Role = "owner" if store.call(lambda tx: not members_after(tx, mesh_id, "", 1)) else "member"
    member = store.call(lambda tx: add_member(tx, mesh_id, public, daemon, role))
    return Membership(
        mesh_id=mesh_id,
        slug=slug,
        broker_url="",
        member_id=member.member_id,
        display_name=daemon,
        seed=seed.hex(),
        joined_at="",
        mesh_keys=[MeshKey(1, mesh_key.hex())],
    )


def _subscribe_some(store: BrokerStore, rng: random.Random, people: Population, mesh_id: str) -> None:
    for names, told, rule, chance in (
        (TOPICS, people.subscribed, subscribe, 0.8),
        (GROUPS, people.grouped, join_group, 0.5),
    ):
        for name in names:
            chosen = [each for each in people.in_mesh(mesh_id) if rng.random() < chance]
            told[mesh_id, name] = chosen
            for each in chosen:
                member_id = people.members[mesh_id, each].member_id
                store.call(lambda tx, i=member_id, name=name, rule=rule: rule(tx, mesh_id, i, name))


def _block_some(store: BrokerStore, rng: random.Random, people: Population, mesh_id: str) -> None:
    for recipient in people.in_mesh(mesh_id):
        for sender in people.in_mesh(mesh_id):
            if recipient != sender and rng.random() < 0.1:
                kept = tuple(each for each in sorted(CAPABILITY.values()) if rng.random() < 0.5)
                people.takes[mesh_id, recipient, sender] = kept
                ids = people.members[mesh_id, recipient].member_id, people.members[mesh_id, sender].member_id
                store.call(lambda tx, ids=ids, kept=kept: grant(tx, mesh_id, *ids, kept))
