"""Commands that use the bus: by the process that listens on this machine, or by joining it for a moment."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from parley.app import bus_socket
from parley.app.bus_operations import (
    AnyOperation,
    Ask,
    Discard,
    ListOutbox,
    ListPeers,
    Publish,
    Send,
    Unwedge,
    perform,
)
from parley.bus.fingerprint import parse_fingerprint
from parley.bus.home import BusHome, bus_home
from parley.bus.node import announced, joined
from parley.core import limits
from parley.core.bus_errors import StoreLocked

Note = Callable[[str], None]


def send(agent: str, topic: str, body: bytes, *, mdns: bool, note: Note) -> dict[str, Any]:
    """Publishes to one agent, now or when it is back."""
    return _done(Send(agent, topic, body), mdns, note)


def request(agent: str, topic: str, body: bytes, *, seconds: float, mdns: bool, note: Note) -> dict[str, Any]:
    """Asks one agent, and waits for its answer."""
    return _done(Ask(agent, topic, body, seconds), mdns, note)


def publish(topic: str, body: bytes, *, mdns: bool, note: Note) -> dict[str, Any]:
    """Publishes to all that are known to subscribe."""
    return _done(Publish(topic, body), mdns, note)


def peers(*, mdns: bool, note: Note) -> dict[str, Any]:
    """Who was met, and who is announced."""
    return _done(ListPeers(), mdns, note, ListPeers(fresh=mdns))


def outbox(note: Note) -> dict[str, Any]:
    """What waits to be sent, and what has expired."""
    return _done(ListOutbox(), False, note)


def unwedge(number: int, note: Note) -> dict[str, Any]:
    """Lets a message of the outbox be tried again."""
    return _done(Unwedge(number), False, note)


def discard(number: int, note: Note) -> dict[str, Any]:
    """Gives up a message of the outbox."""
    return _done(Discard(number), False, note)


def _done(operation: AnyOperation, mdns: bool, note: Note, alone: AnyOperation | None = None) -> dict[str, Any]:
    """``alone`` is what is asked of a bus that has only begun, where that differs."""
    home = bus_home()
    found = bus_socket.ask(home, operation)
    if found is not None:
        return found
    try:
        return asyncio.run(_alone(home, alone or operation, mdns, note))
    except StoreLocked:
        found = bus_socket.ask(home, operation)  # of a listener that has begun meanwhile
        if found is None:
            raise
        return found


async def _alone(home: BusHome, operation: AnyOperation, mdns: bool, note: Note) -> dict[str, Any]:
    async with joined(home, mdns=mdns, note=note) as node:
        if mdns and isinstance(operation, Send | Ask):
            await announced(node, parse_fingerprint(operation.agent), limits.BUS_RESOLVE_SECONDS)
        if isinstance(operation, Send | Publish):
            # Else the message would wait behind those, and the bus be gone before its turn comes.
            with suppress(TimeoutError):
                async with asyncio.timeout(limits.BUS_CLOSE_SECONDS):
                    await node.bus.drain()
        return await perform(node, operation)
