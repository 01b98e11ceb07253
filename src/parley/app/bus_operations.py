"""What can be asked of this machine's bus, by a command that owns it or by one that asks the process that does."""

import asyncio
import base64
from typing import Any, Final

import msgspec

from parley.bus.fingerprint import Fingerprint, parse_fingerprint
from parley.bus.mesh_store import ExpiredItem, OutboxItem
from parley.bus.node import Node
from parley.bus.options import Delivery, Peer
from parley.core.clock import iso

ANNOUNCED_SECONDS: Final = 2.5
"""How long a bus that has only begun waits for others to be announced, before it lists who is there."""


class Send(msgspec.Struct, frozen=True, tag_field="do", tag="send"):
    """Publish to one agent."""

    agent: str
    topic: str
    body: bytes


class Ask(msgspec.Struct, frozen=True, tag_field="do", tag="request"):
    """Ask one agent, and wait for its answer."""

    agent: str
    topic: str
    body: bytes
    seconds: float


class Publish(msgspec.Struct, frozen=True, tag_field="do", tag="publish"):
    """Publish to all that subscribe."""

    topic: str
    body: bytes


class ListPeers(msgspec.Struct, frozen=True, tag_field="do", tag="peers"):
    """Who is there."""

    fresh: bool = False
    """Whether the bus has only begun, and has heard of nobody yet."""


class ListOutbox(msgspec.Struct, frozen=True, tag_field="do", tag="outbox"):
    """What waits to be sent."""


class Unwedge(msgspec.Struct, frozen=True, tag_field="do", tag="unwedge"):
    """Let a message of the outbox be tried again."""

    id: int


class Discard(msgspec.Struct, frozen=True, tag_field="do", tag="discard"):
    """Give up a message of the outbox."""

    id: int


AnyOperation = Send | Ask | Publish | ListPeers | ListOutbox | Unwedge | Discard


async def perform(node: Node, operation: AnyOperation) -> dict[str, Any]:
    """What the command prints with ``--json``. Raises what the bus raises."""
    bus = node.bus
    match operation:
        case Send(agent, topic, body):
            return _delivery(await bus.publish_to(parse_fingerprint(agent), topic, body))
        case Ask(agent, topic, body, seconds):
            answer = await bus.request(parse_fingerprint(agent), topic, body, timeout=seconds)
            return {"agent": parse_fingerprint(agent).hex(), "topic": topic, **told_body(answer)}
        case Publish(topic, body):
            return {"deliveries": [_delivery(each) for each in await bus.publish(topic, body)]}
        case ListPeers(fresh):
            if fresh:
                await asyncio.sleep(ANNOUNCED_SECONDS)
            return {"peers": [_peer(node, each) for each in bus.peers()]}
        case ListOutbox():
            outbox = await bus.outbox()
            return {"waiting": list(map(_waiting, outbox.waiting)), "expired": list(map(_expired, outbox.expired))}
        case Unwedge(number):
            return {"id": number, "changed": await bus.unwedge(number)}
        case Discard(number):
            return {"id": number, "changed": await bus.discard(number)}


def told_body(body: bytes) -> dict[str, str | None]:
    """A body as JSON has it: as text if it is some, else in base64."""
    try:
        return {"body": body.decode(), "body_base64": None}
    except UnicodeDecodeError:
        return {"body": None, "body_base64": base64.b64encode(body).decode()}


def _delivery(delivery: Delivery) -> dict[str, Any]:
    error = delivery.error
    return {
        "agent": delivery.peer.hex(),
        "outcome": delivery.outcome,
        "outbox_id": delivery.outbox_id,
        "error": None if error is None else {"code": error.code, "message": str(error)},
    }


def _peer(node: Node, peer: Peer) -> dict[str, Any]:
    return {
        "agent": peer.fingerprint.hex(),
        "connected": peer.connected,
        "role": peer.role,
        "topics": list(peer.topics),
        "seen_at": None if peer.seen_at is None else iso(peer.seen_at),
        "addresses": [f"{host} port {port}" for host, port in node.resolver.candidates(peer.fingerprint)],
    }


def _waiting(item: OutboxItem) -> dict[str, Any]:
    return {
        **_item(item),
        "attempts": item.attempts,
        "not_before": iso(item.not_before),
        "expires_at": iso(item.expires_at),
        "wedged": item.wedged,
        "last_error": item.last_error,
    }


def _expired(item: ExpiredItem) -> dict[str, Any]:
    return {**_item(item), "attempts": item.attempts, "expired_at": iso(item.expired_at), "why": item.why}


def _item(item: OutboxItem | ExpiredItem) -> dict[str, Any]:
    return {
        "id": item.id,
        "agent": Fingerprint(item.peer).hex(),
        "message_id": item.message_id.hex(),
        "created_at": iso(item.created_at),
    }
