"""Accepting a message: once for each id of its sender, wholly or not at all.

The order is the contract. *Authentication*: the sender is a member now, whatever it was when it connected. *B0*: the id
was seen before, and the answer is what it was, or that it belongs to something else. *B1*: the message is well formed
and the sender has budget. *B2*: it can go where it should. *B3*: id, message, history, one delivery for each recipient
and mentions are written. Nothing but the sender's budget is written before the last refusal, so that no refusal leaves
an id behind.

The mesh's row is locked first. So the numbers of a mesh's history are given in the order of their commits, and two
brokers that are sent the same message at once see each other's.
"""

from typing import Final, NamedTuple

import msgspec

from parley.broker.policy import DAY_MS, Policy
from parley.broker.rules.limits import consume_budget, remember_budget
from parley.broker.rules.recipients import Recipients, find_recipients
from parley.broker.tx import Tx
from parley.core.broker_errors import MembershipEnded, QuotaExceeded
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
from parley.wire.broker import Accepted, RefusedSend, Send, body_bytes, problem_of, wire_fingerprint

MESSAGE: Final = "bm_"
RANKS: Final = {"now": 0, "next": 1, "low": 2}
"""The order in which priorities are delivered."""

_SENDER: Final = "SELECT state, pubkey, display_name FROM member WHERE member_id = ? AND mesh_id = ?"
_KNOWN: Final = (
    "SELECT broker_message_id, history_id, request_fingerprint, first_seen_ms, history_available"
    " FROM client_message_dedupe WHERE mesh_id = ? AND sender_id = ? AND client_message_id = ?"
)
_HISTORY: Final = (
    "INSERT INTO message_history (mesh_id, broker_message_id, client_message_id, sender_id, sender_key, sender_name,"
    " kind, ref, priority, reply_to, meta, key_epoch, body_bytes, recipients, accepted_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING history_id"
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


class _Sender(NamedTuple):
    pubkey: str
    display_name: str
    free_bytes: int


def incoming(mesh_id: str, member_id: str, send: Send) -> Incoming:
    """What ``accept`` wants. The hashing is done here, before the transaction and outside its lock."""
    try:
        return Incoming(mesh_id, member_id, send, body_bytes(send), wire_fingerprint(send))
    except InvalidInput:
        return Incoming(mesh_id, member_id, send, None, None)


def accept(tx: Tx, message: Incoming, policy: Policy) -> AcceptOutcome:
    """Takes the message or tells why not. A refusal is a value: its transaction commits, with the budget it cost."""
    try:
        return _decide(tx, message, policy)
    except (Refused, Unavailable) as error:
        return AcceptOutcome(refusal(message.send.client_message_id, error))


def refusal(client_message_id: str, error: ParleyError) -> RefusedSend:
    """The answer to a message that was not taken."""
    wait = round(error.retry_after_seconds * 1000) if isinstance(error, Unavailable) and error.transient else None
    return RefusedSend(client_message_id, problem_of(error), wait)


def _decide(tx: Tx, message: Incoming, policy: Policy) -> AcceptOutcome:
    sender = _authenticate(tx, message)
    known = _seen_before(tx, message)
    if known is not None:
        return AcceptOutcome(known)
    send, body, fingerprint = message.send, *_well_formed(message, policy)
    key = (message.member_id, send.client_message_id)
    wait_ms = consume_budget(tx, *key, window_ms=policy.rate_window_ms, messages=policy.rate_messages)
    if wait_ms is not None:
        raise RateLimited(limit=policy.rate_messages, retry_after=wait_ms / 1000)
    try:
        if len(body) > sender.free_bytes:
            raise QuotaExceeded("The mesh holds as many bytes as it may", free_bytes=max(0, sender.free_bytes))
        recipients = find_recipients(tx, message.mesh_id, message.member_id, send)
    except (Refused, Unavailable):
        remember_budget(tx, *key, window_ms=policy.rate_window_ms)
        raise
    history_id, message_id = _write(tx, message, sender, body, fingerprint, recipients, policy)
    answer = Accepted(
        send.client_message_id,
        201,
        message_id,
        history_id,
        duplicate=False,
        first_seen_at=iso(tx.now_ms),
        recipients=len(recipients.member_ids),
    )
    return AcceptOutcome(answer, recipients.member_ids)


def _authenticate(tx: Tx, message: Incoming) -> _Sender:
    mesh = tx.one(f"SELECT stored_bytes, bytes_max FROM mesh WHERE mesh_id = ?{tx.for_update}", message.mesh_id)
    member = tx.one(_SENDER, message.member_id, message.mesh_id)
    if mesh is None or member is None:
        raise MembershipEnded("There is no such member in this mesh", reason="unknown")
    if member[0] != "active":
        raise MembershipEnded("The sender is no longer a member of this mesh", reason=member[0])
    return _Sender(member[1], member[2], mesh[1] - mesh[0])


def _seen_before(tx: Tx, message: Incoming) -> Accepted | None:
    client_id = message.send.client_message_id
    known = tx.one(_KNOWN, message.mesh_id, message.member_id, client_id)
    if known is None:
        return None
    broker_message_id, history_id, fingerprint, first_seen_ms, available = known
    if message.fingerprint != bytes(fingerprint):
        raise IdempotencyKeyReused(
            f"The id {client_id} belongs to another message of this sender",
            client_message_id=client_id,
            conflict="request_fingerprint_mismatch",
            broker_fingerprint_prefix=fingerprint_prefix(bytes(fingerprint)),
        )
    return Accepted(
        client_id,
        200,
        broker_message_id,
        history_id,
        duplicate=True,
        history_available=bool(available),
        first_seen_at=iso(first_seen_ms),
    )


def _well_formed(message: Incoming, policy: Policy) -> tuple[bytes, bytes]:
    send, body, fingerprint = message.send, message.body, message.fingerprint
    if body is None or fingerprint is None:
        raise InvalidInput("The body is not base64, or a part of the message cannot be hashed", field="body")
    if len(body) > policy.inline_bytes_max:
        raise PayloadTooLarge("The body is too large", bytes=len(body), bytes_max=policy.inline_bytes_max)
    if len(msgspec.json.encode(send.meta)) > MESSAGE_META_BYTES_MAX:
        raise PayloadTooLarge("meta is too large", field="meta", bytes_max=MESSAGE_META_BYTES_MAX)
    if send.fingerprint != fingerprint.hex():
        raise InvalidInput("The fingerprint is not that of the message", field="fingerprint")
    return body, fingerprint


def _write(
    tx: Tx,
    message: Incoming,
    sender: _Sender,
    body: bytes,
    fingerprint: bytes,
    recipients: Recipients,
    policy: Policy,
) -> tuple[int, str]:
    send, mesh_id, now = message.send, message.mesh_id, tx.now_ms
    message_id = tx.new_id(MESSAGE)
    row = tx.one(
        _HISTORY,
        *(mesh_id, message_id, send.client_message_id, message.member_id, sender.pubkey, sender.display_name),
        *(send.kind, send.ref, send.priority, send.reply_to, msgspec.json.encode(send.meta).decode(), send.key_epoch),
        *(len(body), len(recipients.member_ids), now),
    )
    assert row is not None
    history_id: int = row[0]
    tx.run(_MESSAGE, message_id, mesh_id, body)
    expires_ms = now + policy.dedupe_days * DAY_MS if policy.dedupe_days else None
    tx.run(
        _DEDUPE,
        *(mesh_id, message.member_id, send.client_message_id, message_id, history_id),
        *(fingerprint, send.kind, send.ref, now, expires_ms),
    )
    rank, mentioned = RANKS[send.priority], recipients.mentioned
    if recipients.member_ids:
        rows = ((mesh_id, message_id, each, rank, int(each in mentioned), now) for each in recipients.member_ids)
        tx.many(_DELIVERY, rows)
    if mentioned:
        tx.many(_MENTION, ((each, message_id) for each in sorted(mentioned)))
    tx.run(_STORED, len(body), mesh_id)
    return history_id, message_id
