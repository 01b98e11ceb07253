"""A user, her agents, and a stranger, with keys that are the same in each run."""

from typing import Final

from parley.bus import (
    NOTHING_REVOKED,
    Caveats,
    Chain,
    Head,
    Revocations,
    certify,
    decode,
    encode,
    fingerprint_of,
    open_envelope,
)
from parley.bus.envelope import Opened
from parley.core.sealing import public_key

NOW: Final = 1_767_225_600_000
DAY: Final = 24 * 3_600_000
USER, ADA, BOB, CAROL, STRANGER, MALLORY = (bytes([number]) * 32 for number in range(1, 7))
USER_NAME, ADA_NAME, BOB_NAME = (fingerprint_of(public_key(seed)) for seed in (USER, ADA, BOB))
HOLDS: Final = Caveats(expires_at_ms=NOW + 90 * DAY, generation=0)


def chain_of(
    subject: bytes = ADA,
    caveats: Caveats = HOLDS,
    *,
    issuer: bytes = USER,
    parent: Chain | None = None,
    role: str = "agent",
) -> Chain:
    """The chain of the agent with this seed."""
    return certify(issuer, public_key(subject), role=role, caveats=caveats, now_ms=NOW, parent=parent)


def envelope_of(
    payload: bytes = b"hello", *, sender: bytes = ADA, recipient: bytes = BOB, chain: Chain | None = None
) -> bytes:
    """An envelope as it travels."""
    head = Head(
        fingerprint_of(public_key(sender)), fingerprint_of(public_key(recipient)), bytes(range(24)), 7, bytes(range(16))
    )
    return encode(head, payload, chain=(chain or chain_of(sender)).encode(), seed=sender) + payload


def opened_by_bob(data: bytes, *, now_ms: int = NOW, revocations: Revocations = NOTHING_REVOKED) -> Opened:
    """What Bob makes of these bytes."""
    return open_envelope(decode(data), recipient=BOB_NAME, user=USER_NAME, now_ms=now_ms, revocations=revocations)
