"""What the entries of a roster add up to: who is in the mesh, what each may do, and which keys it has had.

A state is a value: an entry makes a new one of it and leaves the old one as it was. It keeps who has left, since a key
stays known for good and a name for a while.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, Final, Literal, cast

import msgspec

from parley.core.canonical import canonical_json
from parley.core.roster.entries import HASH_BYTES, Previous, Role

Status = Literal["active", "left", "removed", "banned", "expired"]
Owed = Literal["", "soon", "now"]
RANK: Final[dict[str, int]] = {"member": 0, "admin": 1, "owner": 2}


class OldKey(msgspec.Struct, frozen=True):
    """A key that its member has replaced, at which entry and key epoch."""

    key: str
    n: int
    epoch: int
    compromised: bool


class Member(msgspec.Struct, frozen=True):
    """Somebody who is in the mesh, or was."""

    id: str
    key: str
    name: str
    role: Role
    since: tuple[int, int]
    """The entry that made it what it is, and the place in that entry: of two owners the earlier one outranks."""
    joined: int
    """The entry by which it came."""
    joined_at: int
    status: Status = "active"
    ended: int | None = None
    """The entry by which it went."""
    until: int | None = None
    invite: str | None = None
    issuer: str | None = None
    old_keys: tuple[OldKey, ...] = ()

    @property
    def is_active(self) -> bool:
        return self.status == "active"


class EpochKey(msgspec.Struct, frozen=True):
    """The keys of an epoch, as they were committed to."""

    mesh: str
    data: str
    n: int
    by: str
    previous: Previous | None
    is_void: bool = False


class GivenUp(msgspec.Struct, frozen=True):
    """A name that nobody has: whose it was, and from when on others may take it."""

    member: str
    free_at: int


class State(msgspec.Struct, frozen=True):
    """The mesh as of entry ``n``."""

    fingerprint: str
    rules: int
    n: int
    head: str
    """The hash of entry ``n``."""
    at: int
    founder: str
    """The id of the member who founded it."""
    members: dict[str, Member]
    """All that there ever were, by id."""
    keys: dict[str, str]
    """Whose each key is or was."""
    names: dict[str, str]
    """The active members by name."""
    given_up: dict[str, GivenUp] = {}
    brokers: dict[int, str] = {}
    """The keys of the brokers that carried the mesh, by the entry that named each."""
    may_adopt: bool = False
    """Whether members of an older mesh may be listed now."""
    epochs: dict[int, EpochKey] = {}
    owed: Owed = ""
    """Whether a new key is owed; ``now``: nothing may be sealed for several members until it is there."""
    invite_uses: dict[str, int] = {}
    invites_revoked: dict[str, int] = {}
    """At which entry each was."""
    settled: dict[str, int] = {}
    """Hashes of entries of branches that lost, and the entry that says so."""
    checkpoint: int = 0

    @property
    def epoch(self) -> int:
        """The newest key epoch; 0 before there is one."""
        return len(self.epochs)

    @property
    def broker(self) -> str:
        """The key of the broker that carries the mesh; empty for a mesh that no broker has."""
        return self.broker_at(self.n)

    def broker_at(self, n: int) -> str:
        """The key of the broker that was to sign heads at this entry."""
        return self.brokers[max(named)] if (named := [each for each in self.brokers if each <= n]) else ""

    def active(self) -> list[Member]:
        return [self.members[each] for each in self.names.values()]

    def owners(self) -> list[Member]:
        """The active ones, the most senior first."""
        return sorted((each for each in self.active() if each.role == "owner"), key=lambda each: each.since)

    def with_key(self, key: str) -> Member | None:
        """Whose key this is or was."""
        found = self.keys.get(key)
        return None if found is None else self.members[found]


def outranks(actor: Member, other: Member) -> bool:
    """Whether the one decides over the other: by a higher role, or, among owners, by having been one for longer."""
    if RANK[actor.role] != RANK[other.role]:
        return RANK[actor.role] > RANK[other.role]
    return actor.role == "owner" and actor.since < other.since


def state_hash(state: State) -> str:
    """One hash for all that the state says, whoever computes it and in whatever order its dictionaries are."""
    digest = hashlib.blake2b(digest_size=HASH_BYTES)
    for line in _lines(state):
        digest.update(canonical_json(line) + b"\n")
    return digest.hexdigest()


def _lines(state: State) -> Iterable[list[str]]:
    """Each a list of texts alone, which is encoded fast; a state may have many thousand members."""
    for name in State.__struct_fields__:
        value = getattr(state, name)
        if isinstance(value, dict):
            entries = cast("dict[Any, Any]", value)
            for key in sorted(entries):
                yield [name, str(key), *_texts(msgspec.to_builtins(entries[key]))]
        else:
            yield [name, *_texts(value)]


def _texts(value: Any) -> Iterable[str]:
    """The value's leaves, each with its place, so that no two values have the same."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        for key in sorted(members):
            yield key
            yield from _texts(members[key])
    elif isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        yield str(len(items))
        for each in items:
            yield from _texts(each)
    else:
        yield "" if value is None else f"{type(value).__name__}:{value}"
