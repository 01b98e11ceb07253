"""Revocation: the user key states which keys are revoked and which generation it is.

A statement holds everything that its user ever revoked. One *covers* another when it revokes at least as much, and a
newer one always covers those before it, since it is made from them. Peers keep what they were given and drop what is
covered, so the newest wins. Two statements that do not cover each other come from a user key that was restored from a
backup: both are kept, what either revokes stays revoked, and the next statement covers both. So nothing is ever
un-revoked, whatever arrives in whatever order.

A statement is bound to its user by its signature alone: it can be handed on by anybody.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from parley.bus.blocks import LENGTH_BYTES, BlockReader, Buffer, Malformed
from parley.bus.caveats import Count, Time
from parley.bus.fingerprint import Fingerprint, Hex32, fingerprint_of
from parley.bus.signed import Signed, read_signed, sign
from parley.core import limits, sealing
from parley.core.bus_errors import OtherUser, RevocationsFull, StatementInvalid

TAG: Final = b"parley bus revocation 1\n"
_TEXT_BYTES_MAX: Final = 128 * limits.BUS_REVOKED_MAX
STATEMENT_BYTES_MAX: Final = LENGTH_BYTES + _TEXT_BYTES_MAX + sealing.SIGNATURE_BYTES


class Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a user has revoked by now. ``revoked`` are fingerprints, sorted, each once."""

    generation: Count
    revoked: Annotated[tuple[Hex32, ...], Meta(max_length=limits.BUS_REVOKED_MAX)]
    stated_at_ms: Time
    """For people; which statement is the newest, its content says."""
    user: Hex32
    """The public key."""

    def __post_init__(self) -> None:
        if not all(before < after for before, after in pairwise(self.revoked)):
            raise ValueError("revoked fingerprints must be sorted and distinct")

    def covers(self, other: "Statement") -> bool:
        """Whether everything that the other one revokes is revoked by this one."""
        return self.generation >= other.generation and {*self.revoked} >= {*other.revoked}


class Revocations(NamedTuple):
    """Everything known to be revoked by one user."""

    generation: int = 0
    revoked: frozenset[Fingerprint] = frozenset()
    statements: tuple[Signed[Statement], ...] = ()
    """The statements that say so, for handing on; none covers another."""

    def merge(self, new: Signed[Statement]) -> "Revocations":
        """With a statement more, which ``decode_statement`` or ``state`` gave. Raises ``RevocationsFull``."""
        if any(known.value.covers(new.value) for known in self.statements):
            return self
        kept = (*(known for known in self.statements if not new.value.covers(known.value)), new)
        if len(kept) > limits.BUS_STATEMENTS_MAX:
            raise RevocationsFull(f"there are {limits.BUS_STATEMENTS_MAX} statements of which none covers another")
        return Revocations(
            max(self.generation, new.value.generation),
            self.revoked | {Fingerprint(bytes.fromhex(each)) for each in new.value.revoked},
            kept,
        )


NOTHING_REVOKED: Final = Revocations()


def state(
    user_seed: bytes, known: Revocations, more: Iterable[Fingerprint] = (), *, next_generation: bool, now_ms: int
) -> Signed[Statement]:
    """A statement that revokes what is known to be revoked and these. Raises ``RevocationsFull``."""
    revoked = known.revoked | frozenset(more)
    if len(revoked) > limits.BUS_REVOKED_MAX:
        raise RevocationsFull(f"at most {limits.BUS_REVOKED_MAX} keys can be revoked one by one")
    statement = Statement(
        generation=known.generation + next_generation,
        revoked=tuple(sorted(each.hex() for each in revoked)),
        stated_at_ms=now_ms,
        user=sealing.public_key(user_seed).hex(),
    )
    return sign(statement, TAG, user_seed)


def decode_statement(data: Buffer, *, user: Fingerprint | None = None) -> Signed[Statement]:
    """A statement whose signature holds. Raises ``StatementInvalid``; ``OtherUser`` if it is not this user's."""
    reader = BlockReader(data)
    try:
        found = read_signed(reader, Statement, _TEXT_BYTES_MAX)
        reader.end()
    except Malformed as error:
        raise StatementInvalid(f"the statement cannot be read: {error}") from error
    public = bytes.fromhex(found.value.user)
    if not found.is_by(public, TAG):
        raise StatementInvalid("the statement was not signed by the user whom it names")
    if user is not None and fingerprint_of(public) != user:
        raise OtherUser("the statement is another user's", user=fingerprint_of(public).hex())
    return found
