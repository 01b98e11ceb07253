"""A roster with the keys of everybody in it, to append to in tests. Seeds and times follow from names and a counter."""

import hashlib
from typing import Any

from parley.core import sealing
from parley.core.roster import Invite, Member, Refusal, Role, State, apply, entries
from parley.core.roster.authoring import found_entry, join_entry, make_invite, next_entry, rotate_entry

DAY_MS = 24 * 3_600_000
START = 1_800_000_000_000


def seed_of(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def key_of(name: str) -> str:
    return sealing.public_key(seed_of(name)).hex()


def salt(count: int) -> bytes:
    return b"\7" * count


class Town:
    """The state so far, the log, and by name the seed of each key."""

    def __init__(self, founder: str = "ada", at: int = START) -> None:
        self.log = [found_entry(founder, seed=seed_of(founder), at=at, random=salt)]
        state = apply(None, self.log[0])
        assert isinstance(state, State), state
        self.state = state
        self.ids = {founder: state.founder}
        self.seeds = {founder: seed_of(founder)}
        self.secrets: dict[str, bytes] = {}
        self.now = at

    def member(self, name: str) -> Member:
        return self.state.members[self.ids[name]]

    def entry(self, by: str, kind: entries.Kind, body: entries.Body, *, at: int | None = None) -> bytes:
        """The next entry, whether or not it may stand."""
        when = self._tick() if at is None else at
        return next_entry(self.state, kind, body, by=self.ids[by], seed=self.seeds[by], at=when)

    def offer(self, data: bytes) -> Refusal | None:
        """Appends the entry if it may stand; else why not."""
        after = apply(self.state, data)
        if isinstance(after, Refusal):
            return after
        self.state = after
        self.log.append(data)
        return None

    def try_to(self, by: str, kind: entries.Kind, body: entries.Body, *, at: int | None = None) -> str:
        """The reason for which the author's entry is refused; empty if it was taken."""
        refusal = self.offer(self.entry(by, kind, body, at=at))
        return "" if refusal is None else refusal.reason

    def do(self, by: str, kind: entries.Kind, body: entries.Body, *, at: int | None = None) -> None:
        refusal = self.offer(self.entry(by, kind, body, at=at))
        assert refusal is None, refusal

    def invite(self, issuer: str, *, role: Role = "member", uses: int = 100, **changes: Any) -> Invite:
        secret = seed_of(f"invite {len(self.secrets)}")
        invite = make_invite(
            self.state,
            issuer=self.ids[issuer],
            seed=self.seeds[issuer],
            secret=secret,
            role=role,
            uses=uses,
            expires=changes.get("expires", self.now + 7 * DAY_MS),
        )
        self.secrets[invite.id] = secret
        return invite

    def joining(self, name: str, invite: Invite, **changes: Any) -> bytes:
        seed = changes.pop("seed", seed_of(name))
        self.seeds.setdefault(name, seed)
        secret = changes.pop("secret", self.secrets[invite.id])
        return join_entry(self.state, invite, secret, name=name, seed=seed, at=self._tick(), **changes)

    def try_to_join(self, name: str, invite: Invite, **changes: Any) -> str:
        data = self.joining(name, invite, **changes)
        refusal = self.offer(data)
        if refusal is None:
            self.ids[name] = self.state.names[name]
            return ""
        return refusal.reason

    def join(self, name: str, *, by: str = "ada", role: Role = "member", **changes: Any) -> None:
        assert self.try_to_join(name, self.invite(by, role=role), **changes) == ""

    def rotate(self, name: str, *, compromised: bool = False) -> str:
        new = seed_of(f"{name} {self.state.n}")
        data = rotate_entry(
            self.state,
            self.ids[name],
            seed=self.seeds[name],
            new_seed=new,
            compromised=compromised,
            at=self._tick(),
        )
        refusal = self.offer(data)
        if refusal is None:
            self.seeds[name] = new
            return ""
        return refusal.reason

    def new_key(self, by: str = "ada") -> str:
        return self.try_to(by, "key", key_body(self.state))

    def of(self, name: str) -> entries.OfMember:
        return entries.OfMember(self.ids[name])

    def _tick(self) -> int:
        self.now += 1
        return self.now


def key_body(state: State) -> entries.Key:
    """Commitments to keys that follow from the epoch."""
    epoch = state.epoch + 1
    keys = [hashlib.sha256(f"{purpose} {epoch}".encode()).digest() for purpose in ("mesh", "data")]
    mesh, data = (
        entries.commitment(keys[0], "mesh", epoch, state.fingerprint),
        entries.commitment(keys[1], "data", epoch, state.fingerprint),
    )
    previous = None if epoch == 1 else entries.Previous(epoch - 1, "ab" * 72)
    return entries.Key(epoch, mesh, data, previous)
