"""The judgement of ``admit`` as a function of facts, and the checks that every store makes of what it is given."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from parley.bus.chain import CallLimit
from parley.bus.mesh_store import Bounds, ExpiredItem, Held, KnownPeer, NewOutboxItem, OutboxItem, Verdict
from parley.core.bus_errors import OutboxFull, SequenceRefused, StoreInputInvalid
from parley.core.limits import (
    BUS_BACKOFF_MS_MAX,
    BUS_MESSAGE_ID_MS,
    BUS_OUTBOX_MS_MAX,
    BUS_SEQUENCE_JUMP_MAX,
    BUS_SEQUENCE_MAX,
    BUS_STORED_BYTES_MAX,
    REASON_CHARS_MAX,
)

FINGERPRINT_BYTES: Final = 32
DIGEST_BYTES: Final = 32
AGENT_KEY_BYTES: Final = 32
NONCE_BYTES: Final = 24
MESSAGE_ID_BYTES: Final = 16
_MS_MAX: Final = 2**53
_LIMIT_MAX: Final = 1_000_000


class Facts(NamedTuple):
    """What a store knows that bears on a message."""

    nonce_is_known: bool
    mark: int
    """The peer's highest sequence so far; 0 for a new peer."""
    seen_at: int | None
    """When the peer's message with this id was accepted."""
    calls: list[int]
    """What was accepted under each certificate with a limit."""
    held: Held


def judge(
    facts: Facts, sequence: int, payload_bytes: int | None, call_limits: Iterable[CallLimit], bounds: Bounds, now: int
) -> Verdict:
    """The first of ``admit``'s refusals that applies. What is not kept has no payload, and finds no box full."""
    if facts.nonce_is_known:
        return "replay"
    if not facts.mark < sequence <= BUS_SEQUENCE_MAX:
        return "bad_sequence"
    if facts.seen_at is not None and not is_outdated(facts.seen_at, now):
        return "duplicate"
    if any(calls >= limit.calls_max for calls, limit in zip(facts.calls, call_limits, strict=True)):
        return "spent"
    if payload_bytes is not None and bounds.exhausted(facts.held, payload_bytes) is not None:
        return "full"
    return "accepted"


def is_outdated(seen_at: int, now: int) -> bool:
    """Whether a message id need not be remembered any longer."""
    return seen_at + BUS_MESSAGE_ID_MS <= now


def latest_wait(now: int) -> int:
    """The longest that anything waits from now."""
    return now + BUS_BACKOFF_MS_MAX


def latest_expiry(now: int) -> int:
    """The longest that anything is kept from now."""
    return now + BUS_OUTBOX_MS_MAX


def check_arrival(
    peer: bytes, nonce: bytes, sequence: int, message_id: bytes, payload: bytes, call_limits: Iterable[CallLimit]
) -> None:
    """Raises ``StoreInputInvalid`` for what ``admit`` must not be given."""
    check_length("peer", peer, FINGERPRINT_BYTES)
    check_length("nonce", nonce, NONCE_BYTES)
    check_length("message_id", message_id, MESSAGE_ID_BYTES)
    _check_payload(payload)
    if sequence < 0:
        raise StoreInputInvalid("sequence is negative", argument="sequence")
    certificates = [limit.certificate for limit in call_limits]
    for certificate in certificates:
        check_length("certificate", certificate, FINGERPRINT_BYTES)
    if len(set(certificates)) < len(certificates):
        raise StoreInputInvalid("a certificate is limited twice", argument="call_limits")


def check_item(item: NewOutboxItem, now: int) -> None:
    """Raises ``StoreInputInvalid`` for what cannot be kept for sending."""
    check_length("peer", item.peer, FINGERPRINT_BYTES)
    check_length("message_id", item.message_id, MESSAGE_ID_BYTES)
    check_length("digest", item.digest, DIGEST_BYTES)
    _check_payload(item.payload)
    check_time("now", now)
    check_time("not_before", item.not_before)
    if not now < item.expires_at <= latest_expiry(now):
        raise StoreInputInvalid(
            f"expires_at must be after now, by {BUS_OUTBOX_MS_MAX} ms at most", argument="expires_at"
        )


def check_peer(peer: KnownPeer) -> None:
    """Raises ``StoreInputInvalid`` for what cannot be kept of a peer."""
    check_length("fingerprint", peer.fingerprint, FINGERPRINT_BYTES)
    check_length("agent_key", peer.agent_key, AGENT_KEY_BYTES)
    check_time("seen_at", peer.seen_at)
    if any(not topic or "\n" in topic for topic in peer.topics):
        raise StoreInputInvalid("a topic is empty or more than a line", argument="topics")


def check_length(name: str, value: bytes, length: int) -> None:
    """Raises ``StoreInputInvalid`` unless the bytes have this length."""
    if len(value) != length:
        raise StoreInputInvalid(f"{name} has {len(value)} bytes, not {length}", argument=name)


def check_time(name: str, value: int) -> None:
    """Raises ``StoreInputInvalid`` for a time before the epoch or beyond any."""
    if not 0 <= value <= _MS_MAX:
        raise StoreInputInvalid(f"{name} is not a time in milliseconds: {value}", argument=name)


def check_id(name: str, value: int) -> None:
    """Raises ``StoreInputInvalid`` for an id that no store can have given."""
    if not 0 <= value <= BUS_SEQUENCE_MAX:
        raise StoreInputInvalid(f"{name} is out of range: {value}", argument=name)


def check_page(after: int, limit: int) -> None:
    """Raises ``StoreInputInvalid`` for a page that cannot be."""
    check_id("after", after)
    if not 1 <= limit <= _LIMIT_MAX:
        raise StoreInputInvalid(f"limit must be from 1 to {_LIMIT_MAX}", argument="limit")


def check_room(bounds: Bounds, held: Held, payload_bytes: int) -> None:
    """Raises ``OutboxFull`` if one more message would break a bound."""
    bound = bounds.exhausted(held, payload_bytes)
    if bound is not None:
        most = getattr(bounds, bound)
        raise OutboxFull(f"The outbox is full: {bound} {most:,}", bound=bound, most=most)


def check_jump(floor: int, upcoming: int) -> None:
    """Raises ``SequenceRefused`` if the counter must not go from ``upcoming`` to ``floor``."""
    if floor >= BUS_SEQUENCE_MAX or floor - upcoming > BUS_SEQUENCE_JUMP_MAX:
        raise SequenceRefused(
            f"The counter stands at {upcoming} and must not jump to {floor}", upcoming=upcoming, floor=floor
        )


def check_end(upcoming: int) -> None:
    """Raises ``SequenceRefused`` when there is no such sequence any more.

    The last of all is never used: the end of a reserved block must be a number that a file can hold, too.
    """
    if upcoming >= BUS_SEQUENCE_MAX:
        raise SequenceRefused("The counter has come to its end", upcoming=upcoming)


def note_of(item: OutboxItem, now: int) -> ExpiredItem:
    """What is kept of a message that has expired."""
    why = item.wedged or item.last_error
    return ExpiredItem(item.id, item.peer, item.message_id, item.attempts, item.created_at, now, why)


def said(text: str) -> str:
    """What a reason or an error says, as it is kept: of a bounded length, and text that can be stored."""
    return text[:REASON_CHARS_MAX].encode("utf-8", "backslashreplace").decode()


def _check_payload(payload: bytes) -> None:
    if len(payload) > BUS_STORED_BYTES_MAX:
        raise StoreInputInvalid(
            f"payload has {len(payload)} bytes, more than {BUS_STORED_BYTES_MAX}", argument="payload"
        )
