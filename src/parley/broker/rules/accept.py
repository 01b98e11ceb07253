"""Accepting messages: each once for each id of its sender, wholly or not at all.

The order is the contract. *Authentication*: the sender is a member now, whatever it was when it connected. *B0*: the id
was seen before, and the answer is what it was, or that it belongs to something else. *B1*: the message is well formed
and the sender has budget. *B2*: it can go where it should. *B3*: id, message, history, one delivery for each recipient
and mentions are written. Nothing but the sender's budget is written before the last refusal, so that no refusal leaves
an id behind.

The mesh's row is locked first. So the numbers of a mesh's history are given in the order of their commits, and two
brokers that are sent the same message at once see each other's.

Messages that wait go through the phases side by side: each phase asks the database once for all that are left in it.
They are judged one after the other, and each counts for those behind it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from parley.broker.policy import DAY_MS, Policy
from parley.broker.rules.limits import consume_budget, remember_budget
from parley.broker.rules.parts import parts_without_repetition
from parley.broker.rules.recipients import Recipients, find_recipients
from parley.broker.tx import Row, Tx
from parley.core.broker_errors import KeyEpochOver, MembershipEnded, QuotaExceeded
from parley.core.clock import iso
from parley.core.errors import (
    IdempotencyKeyReused,
    InvalidInput,
    ParleyError,
    PayloadTooLarge,
    RateLimited,
    Refused,
    Unavailable,
)
from parley.core.fingerprint import fingerprint_prefix
from parley.core.limits import MESSAGE_META_BYTES_MAX
from parley.core.metadata import check_metadata
from parley.wire.broker import Accepted, RefusedSend, Send, body_bytes, problem_of, wire_fingerprint

MESSAGE: Final = "bm_"
RANKS: Final = {"now": 0, "next": 1, "low": 2}
"""The order in which priorities are delivered."""

_MESH: Final = (
    "SELECT bytes_max - stored_bytes, CASE WHEN EXISTS (SELECT 1 FROM roster AS r WHERE r.mesh_id = mesh.mesh_id)"
    " THEN key_epoch END FROM mesh WHERE mesh_id = ?"
)
_KEY_OWNER: Final = "SELECT member_id FROM member_key WHERE mesh_id = ? AND pubkey = ?"
_SENDER: Final = "SELECT state, pubkey, display_name FROM member WHERE member_id = ? AND mesh_id = ?"
_KNOWN: Final = (
    "SELECT broker_message_id, history_id, request_fingerprint, first_seen_ms, history_available"
    " FROM client_message_dedupe WHERE mesh_id = ? AND sender_id = ? AND client_message_id = ?"
)
_HISTORY: Final = (
    "INSERT INTO message_history (mesh_id, broker_message_id, client_message_id, sender_id, sender_key, sender_name,"
    " kind, ref, priority, reply_to, meta, key_epoch, body_bytes, recipients, accepted_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING broker_message_id, history_id"
)
_MESSAGE: Final = "INSERT INTO message (broker_message_id, mesh_id, body) VALUES (?, ?, ?)"
_DEDUPE: Final = (
    "INSERT INTO client_message_dedupe (mesh_id, sender_id, client_message_id, broker_message_id, history_id,"
    " request_fingerprint, destination_kind, destination_ref, first_seen_ms, expires_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_DELIVERY: Final = (
    "INSERT INTO delivery_queue (mesh_id, broker_message_id, recipient_id, priority_rank, mentioned, state, queued_ms)"
    " VALUES (?, ?, ?, ?, ?, 'queued', ?)"
)
_MENTION: Final = "INSERT INTO mention_index (mentioned_id, broker_message_id) VALUES (?, ?)"
_STORED: Final = "UPDATE mesh SET stored_bytes = stored_bytes + ? WHERE mesh_id = ?"


class Incoming(NamedTuple):
    """A message as it came, with what can be computed from it alone. ``body`` is None when it cannot be read."""

    mesh_id: str
    member_id: str
    send: Send
    body: bytes | None
    fingerprint: bytes | None


class AcceptOutcome(NamedTuple):
    """The answer, and whom a delivery was made for."""

    answer: Accepted | RefusedSend
    woken: tuple[str, ...] = ()


class _Case:
    """A message on its way through the phases. ``outcome`` is set when it needs no more of them."""

    __slots__ = ("body", "display_name", "message", "message_id", "outcome", "pubkey", "recipients")

    def __init__(self, message: Incoming) -> None:
        self.message = message
        self.outcome: AcceptOutcome | None = None
        self.pubkey = self.display_name = self.message_id = ""
        self.body = b""
        self.recipients = Recipients((), frozenset())

    @property
    def key(self) -> tuple[str, str]:
        """What the limiter knows the message by."""
        return self.message.member_id, self.message.send.client_message_id


def incoming(mesh_id: str, member_id: str, send: Send) -> Incoming:
    """What ``accept`` wants. The hashing is done here, before the transaction and outside its lock."""
    try:
        body = body_bytes(send)
        return Incoming(mesh_id, member_id, send, body, wire_fingerprint(send, body))
    except InvalidInput:
        return Incoming(mesh_id, member_id, send, None, None)


def accept(tx: Tx, message: Incoming, policy: Policy) -> AcceptOutcome:
    """Takes one message, as ``accept_all`` does."""
    return accept_all(tx, [message], policy)[0]


def accept_all(tx: Tx, messages: Sequence[Incoming], policy: Policy) -> list[AcceptOutcome]:
    """Takes each message or tells why not. A refusal is a value: its transaction commits, with the budget it cost."""
    outcomes: list[AcceptOutcome] = []
    for part in parts_without_repetition(messages, _identity):
        cases = [_Case(message) for message in part]
        _decide(tx, cases, policy)
        outcomes += [each.outcome for each in cases if each.outcome is not None]
    return outcomes


def refusal(client_message_id: str, error: ParleyError) -> RefusedSend:
    """The answer to a message that was not taken."""
    wait = round(error.retry_after_seconds * 1000) if isinstance(error, Unavailable) and error.transient else None
    return RefusedSend(client_message_id, problem_of(error), wait)


def _identity(message: Incoming) -> tuple[str, str, str]:
    return message.mesh_id, message.member_id, message.send.client_message_id


def _decide(tx: Tx, cases: list[_Case], policy: Policy) -> None:
    free_bytes, epochs = _lock_meshes(tx, cases)
    left = _authenticate(tx, cases, free_bytes)
    known = _known(tx, [case.message for case in left])
    left = _judge(left, (lambda case, row=row: _seen_before(case, row) for row in known))
    left = _judge(left, (lambda case: _well_formed(case, policy, epochs) for _ in left))
    left = _sealed_by(tx, left)
    waits = consume_budget(tx, [case.key for case in left], policy.rate_window_ms, policy.rate_messages)
    left = _judge(left, (lambda case, wait=wait: _within_budget(wait, policy) for wait in waits))
    found = find_recipients(tx, [(each.message.mesh_id, each.message.member_id, each.message.send) for each in left])
    counted = left
    left = _judge(left, (lambda case, each=each: _deliverable(case, each, free_bytes) for each in found))
    remember_budget(tx, [case.key for case in counted if case.outcome is not None], policy.rate_window_ms)
    if left:
        _write(tx, left, policy)


def _judge(cases: list[_Case], verdicts: Iterable[Callable[[_Case], None]]) -> list[_Case]:
    """Lets each case through its own check, in order; those that are not decided by it."""
    for case, verdict in zip(cases, verdicts, strict=True):
        try:
            verdict(case)
        except (Refused, Unavailable) as error:
            case.outcome = AcceptOutcome(refusal(case.message.send.client_message_id, error))
    return [case for case in cases if case.outcome is None]


def _lock_meshes(tx: Tx, cases: list[_Case]) -> tuple[dict[str, int], dict[str, int | None]]:
    """How many bytes each mesh has room for, and the key epoch of those that have a roster. The locks are taken in
    order, so that no two batches wait in a circle."""
    mesh_ids = sorted({case.message.mesh_id for case in cases})
    rows = tx.each(_MESH + tx.for_update, [(mesh_id,) for mesh_id in mesh_ids])
    found = {mesh_id: each[0] for mesh_id, each in zip(mesh_ids, rows, strict=True) if each}
    return {mesh_id: free for mesh_id, (free, _) in found.items()}, {name: epoch for name, (_, epoch) in found.items()}


def _authenticate(tx: Tx, cases: list[_Case], free_bytes: dict[str, int]) -> list[_Case]:
    def check(case: _Case, member: list[Row]) -> None:
        if not member or case.message.mesh_id not in free_bytes:
            raise MembershipEnded("There is no such member in this mesh", reason="unknown")
        state, case.pubkey, case.display_name = member[0]
        if state != "active":
            raise MembershipEnded("The sender is no longer a member of this mesh", reason=state)

    rows = tx.each(_SENDER, [(case.message.member_id, case.message.mesh_id) for case in cases])
    return _judge(cases, (lambda case, row=row: check(case, row) for row in rows))


def _known(tx: Tx, messages: Sequence[Incoming]) -> list[Row | None]:
    """What is kept of each message that was seen before."""
    rows = tx.each(_KNOWN, [_identity(message) for message in messages])
    return [found[0] if found else None for found in rows]


def _seen_before(case: _Case, known: Row | None) -> None:
    if known is None:
        return
    message, client_id = case.message, case.message.send.client_message_id
    broker_message_id, history_id, fingerprint, first_seen_ms, available = known
    if message.fingerprint != bytes(fingerprint):
        raise IdempotencyKeyReused(
            f"The id {client_id} belongs to another message of this sender",
            client_message_id=client_id,
            conflict="request_fingerprint_mismatch",
            broker_fingerprint_prefix=fingerprint_prefix(bytes(fingerprint)),
        )
    answer = Accepted(
        client_id,
        200,
        broker_message_id,
        history_id,
        duplicate=True,
        history_available=bool(available),
        first_seen_at=iso(first_seen_ms),
    )
    case.outcome = AcceptOutcome(answer)


def _sealed_by(tx: Tx, cases: list[_Case]) -> list[_Case]:
    """Keeps the key that a body was sealed under, if it is not the sender's newest: only with it can it be opened."""

    def check(case: _Case, owner: list[Row]) -> None:
        if owner != [(case.message.member_id,)]:
            raise InvalidInput("This key is none of the sender's", field="sender_key")
        case.pubkey = case.message.send.sender_key or case.pubkey

    older = [case for case in cases if case.message.send.sender_key not in (None, case.pubkey)]
    rows = tx.each(_KEY_OWNER, [(case.message.mesh_id, case.message.send.sender_key) for case in older])
    _judge(older, (lambda case, row=row: check(case, row) for row in rows))
    return [case for case in cases if case.outcome is None]


def _well_formed(case: _Case, policy: Policy, epochs: dict[str, int | None]) -> None:
    epoch = epochs[case.message.mesh_id]
    if epoch is not None and case.message.send.key_epoch not in (None, epoch):
        raise KeyEpochOver("The mesh has another key", key_epoch=epoch)
    send, body, fingerprint = case.message.send, case.message.body, case.message.fingerprint
    if body is None or fingerprint is None:
        raise InvalidInput("The body is not base64, or a part of the message cannot be hashed", field="body")
    if len(body) > policy.inline_bytes_max:
        raise PayloadTooLarge("The body is too large", bytes=len(body), bytes_max=policy.inline_bytes_max)
    check_metadata("meta", send.meta, MESSAGE_META_BYTES_MAX, field="meta")
    if send.fingerprint != fingerprint.hex():
        raise InvalidInput("The fingerprint is not that of the message", field="fingerprint")
    case.body = body


def _within_budget(wait_ms: int | None, policy: Policy) -> None:
    if wait_ms is not None:
        raise RateLimited(limit=policy.rate_messages, retry_after=wait_ms / 1000)


def _deliverable(case: _Case, found: Recipients | ParleyError, free_bytes: dict[str, int]) -> None:
    mesh_id, size = case.message.mesh_id, len(case.body)
    if size > free_bytes[mesh_id]:
        raise QuotaExceeded("The mesh holds as many bytes as it may", free_bytes=max(0, free_bytes[mesh_id]))
    if isinstance(found, ParleyError):
        raise found
    case.recipients = found
    free_bytes[mesh_id] -= size


def _write(tx: Tx, cases: list[_Case], policy: Policy) -> None:
    now = tx.now_ms
    for case in cases:
        case.message_id = tx.new_id(MESSAGE)
    numbers: dict[str, int] = dict(tx.many(_HISTORY, [_history(case, now) for case in cases]))
    tx.many(_MESSAGE, [(case.message_id, case.message.mesh_id, case.body) for case in cases])
    expires_ms = now + policy.dedupe_days * DAY_MS if policy.dedupe_days else None
    tx.many(
        _DEDUPE,
        [
            (
                *(*_identity(case.message), case.message_id, numbers[case.message_id], case.message.fingerprint),
                *(case.message.send.kind, case.message.send.ref, now, expires_ms),
            )
            for case in cases
        ],
    )
    tx.many(_DELIVERY, [row for case in cases for row in _deliveries(case, now)])
    tx.many(_MENTION, [(each, case.message_id) for case in cases for each in sorted(case.recipients.mentioned)])
    sizes: dict[str, int] = {}
    for case in cases:
        sizes[case.message.mesh_id] = sizes.get(case.message.mesh_id, 0) + len(case.body)
        case.outcome = _accepted(case, numbers[case.message_id], now)
    tx.many(_STORED, [(size, mesh_id) for mesh_id, size in sizes.items()])


def _history(case: _Case, now: int) -> Row:
    message, send = case.message, case.message.send
    return (
        *(message.mesh_id, case.message_id, send.client_message_id, message.member_id, case.pubkey, case.display_name),
        *(send.kind, send.ref, send.priority, send.reply_to, msgspec.json.encode(send.meta).decode(), send.key_epoch),
        *(len(case.body), len(case.recipients.member_ids), now),
    )


def _deliveries(case: _Case, now: int) -> Iterable[Row]:
    rank, (member_ids, mentioned) = RANKS[case.message.send.priority], case.recipients
    return ((case.message.mesh_id, case.message_id, each, rank, int(each in mentioned), now) for each in member_ids)


def _accepted(case: _Case, history_id: int, now: int) -> AcceptOutcome:
    member_ids = case.recipients.member_ids
    answer = Accepted(
        case.message.send.client_message_id,
        201,
        case.message_id,
        history_id,
        duplicate=False,
        first_seen_at=iso(now),
        recipients=len(member_ids),
    )
    return AcceptOutcome(answer, member_ids)
