"""Writing entries: what an author signs to append to a roster. Whether it may, ``rules`` decides."""

from typing import Final

from msgspec.structs import replace

from parley.core import sealing
from parley.core.roster.entries import (
    NOTHING_BEFORE,
    RULES,
    Body,
    Found,
    Invite,
    Join,
    Kind,
    Role,
    Rotate,
    invite_bytes,
    join_bytes,
    rotation_bytes,
    write_entry,
)
from parley.core.roster.state import State
from parley.core.sealing import Random

_UNSIGNED: Final = "0" * 128


def found_entry(name: str, *, seed: bytes, at: int, random: Random) -> bytes:
    """The first entry of a roster. The salt makes it another one than any that this key has founded."""
    key = sealing.public_key(seed).hex()
    body = Found(random(sealing.KEY_BYTES).hex(), RULES, key, name)
    return write_entry(n=0, prev=NOTHING_BEFORE, kind="found", by=key, at=at, body=body, seed=seed)


def next_entry(state: State, kind: Kind, body: Body, *, by: str, seed: bytes, at: int) -> bytes:
    """The entry that follows this state."""
    return write_entry(
        n=state.n + 1,
        prev=state.head,
        kind=kind,
        by=by,
        at=at,
        body=body,
        seed=seed,
        fingerprint=state.fingerprint,
    )


def make_invite(
    state: State,
    *,
    issuer: str,
    seed: bytes,
    secret: bytes,
    role: Role,
    uses: int,
    expires: int,
    vouched: str | None = None,
) -> Invite:
    """An invite that the issuer signs. ``secret`` is a fresh seed, which goes to whoever may join and to no broker."""
    invite = Invite(
        id=sealing.public_key(secret).hex(),
        issuer=issuer,
        role=role,
        uses=uses,
        expires=expires,
        n=state.n,
        head=state.head,
        state=vouched,
        sig=_UNSIGNED,
    )
    return replace(invite, sig=sealing.sign(seed, invite_bytes(invite, state.fingerprint)).hex())


def join_entry(
    state: State, invite: Invite, secret: bytes, *, name: str, seed: bytes, at: int, until: int | None = None
) -> bytes:
    """The entry by which the bearer of an invite becomes a member."""
    key = sealing.public_key(seed).hex()
    countersig = sealing.sign(secret, join_bytes(invite, key, name, until, state.fingerprint)).hex()
    return next_entry(state, "join", Join(name, invite, until, countersig), by=key, seed=seed, at=at)


def rotate_entry(state: State, member: str, *, seed: bytes, new_seed: bytes, compromised: bool, at: int) -> bytes:
    """The entry by which a member gets another key."""
    old, new = sealing.public_key(seed).hex(), sealing.public_key(new_seed).hex()
    countersig = sealing.sign(new_seed, rotation_bytes(member, old, new, state.fingerprint)).hex()
    return next_entry(state, "rotate", Rotate(new, compromised, countersig), by=member, seed=seed, at=at)
