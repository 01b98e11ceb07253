"""What the daemon's tests stand on: messages, rows and databases, without a process."""

import base64
from collections.abc import Callable
from typing import Any, TypeVar, cast

import apsw
from msgspec.structs import replace

from parley.daemon.inbox.events import DaemonEvent
from parley.daemon.inbox.receive import Opened, SealedMessage
from parley.daemon.outbox.accept import (
    Destination,
    Message,
    Sealed,
    Taken,
    accept,
    message_fingerprint,
    sealed_fingerprint,
)
from parley.sqlite import run_batch
from parley.wire.broker import CarriedMessage, Push

T = TypeVar("T")
NOW = 1_767_225_600_000
DAY = 24 * 3_600_000
ALICE, BOB = "a" * 64, "b" * 64


def commit(db: apsw.Connection, write: Callable[[apsw.Connection], T]) -> T:
    """Runs one rule as the writer would; what it raises is raised."""
    outcome = run_batch(db, [write])[0]
    if outcome.error is not None:
        raise outcome.error
    return cast("T", outcome.value)


def message(client_id: str = "m-1", text: str = "hello", **changes: Any) -> Message:
    destination = Destination("mesh_1", "bob", "dm", BOB)
    return replace(Message(client_id, destination, text.encode()), **changes)


def sealed(asked: Message) -> Sealed:
    """Not secret, but frozen: as good as sealed for a rule that never looks inside."""
    body = b"sealed:" + asked.payload
    return Sealed(ALICE, body, 3, sealed_fingerprint(asked, body, 3))


def put(db: apsw.Connection, asked: Message, *, now_ms: int = NOW, in_flight: bool = False) -> Taken:
    fingerprint, made = message_fingerprint(asked), sealed(asked)
    row_id = f"out_{asked.client_message_id}"
    return commit(
        db, lambda tx: accept(tx, asked, fingerprint, made, row_id=row_id, now_ms=now_ms, in_flight=in_flight)
    )


def push(delivery_id: int = 1, client_id: str = "m-1", text: str = "hello", **changes: Any) -> Push:
    carried = CarriedMessage(
        broker_message_id=f"bm_{client_id}",
        history_id=delivery_id,
        client_message_id=client_id,
        sender=ALICE,
        sender_id="mem_alice",
        sender_name="alice",
        kind="dm",
        ref=BOB,
        priority="next",
        body=base64.b64encode(b"sealed:" + text.encode()).decode(),
        accepted_at="2026-01-01T00:00:00.000Z",
    )
    return Push(delivery_id, 1, False, replace(carried, **changes))


def opens(sealed_message: SealedMessage) -> Opened | None:
    """Opens what ``sealed`` made."""
    plain = sealed_message.sealed.removeprefix(b"sealed:")
    return None if plain == sealed_message.sealed else Opened(plain.decode(), {})


def opens_nothing(sealed_message: SealedMessage) -> Opened | None:
    return None


def event(number: int) -> DaemonEvent:
    return DaemonEvent(number, NOW, "system", None, None, {})
