"""Heads: how far a roster goes, as its broker signs it, and what a head that somebody tells of means to a reader.

Each sealed message carries the newest head that its sender has. A broker that shows two members two rosters, or hides
the end of one from somebody, is found out by the first message that gets through from the other side: its own signature
stands under something that is not on the reader's chain.
"""

from collections.abc import Callable
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from parley.core import sealing
from parley.core.canonical import canonical_json
from parley.core.roster.entries import Count, Hex32, Hex64
from parley.core.roster.state import State

_HEAD: Final = b"parley roster head 1"

Verdict = Literal["known", "ahead", "split", "settled", "lie"]


class Head(msgspec.Struct, frozen=True):
    """The newest entry by number and hash, signed by the broker."""

    n: Count
    hash: Hex32
    sig: Annotated[Hex64, Meta(description="the broker's signature")]


def sign_head(n: int, digest: str, *, fingerprint: str, seed: bytes) -> Head:
    """What a broker says of a roster that it carries."""
    return Head(n, digest, sealing.sign(seed, _signed(n, digest, fingerprint)).hex())


def judge_head(state: State, hash_of: Callable[[int], str | None], head: Head) -> Verdict:
    """What a head means to whoever has this state; ``hash_of`` knows the hashes of the entries up to there.

    - ``known``: it is on the reader's own chain.
    - ``ahead``: the reader fetches up to it before it can tell; a broker that does not serve it has split the mesh.
    - ``split``: the broker signed it, and it is not on the reader's chain.
    - ``settled``: it is of a branch that an owner has declared void.
    - ``lie``: whoever tells of it has made it up, since no broker of this mesh signed it.
    """
    if head.hash in state.settled:
        return "settled"
    if head.n > state.n:
        return "ahead"
    if hash_of(head.n) == head.hash:
        return "known"
    return "split" if is_by_broker(head, state.broker_at(head.n), state.fingerprint) else "lie"


def is_by_broker(head: Head, key: str, fingerprint: str) -> bool:
    """Whether the broker with this key has signed the head."""
    signed = _signed(head.n, head.hash, fingerprint)
    return sealing.verify(bytes.fromhex(key), bytes.fromhex(head.sig), signed)


def _signed(n: int, digest: str, fingerprint: str) -> bytes:
    return b"\n".join((_HEAD, fingerprint.encode(), canonical_json([n, digest])))
