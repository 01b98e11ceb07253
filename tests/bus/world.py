"""Buses of one user on a network in memory, started, stopped and restarted at will."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from parley.bus import Chain, Fingerprint, MeshStore, fingerprint_of
from parley.bus.bus import Bus
from parley.bus.memory_store import MemoryMeshStore
from parley.bus.memory_transport import MemoryNetwork
from parley.bus.options import BusOptions
from parley.bus.revocation import NOTHING_REVOKED, Revocations
from parley.bus.static_resolver import StaticResolver
from parley.bus.trust import Identity
from parley.core.clock import Clock, ManualClock
from parley.core.sealing import public_key
from tests.bus.agents import NOW, chain_of
from tests.bus.timeless import TimelessLoop


class World:
    """A network, who is announced on it, and the buses."""

    def __init__(self) -> None:
        self.network = MemoryNetwork()
        self.resolver = StaticResolver()
        loop = asyncio.get_running_loop()
        self.clock: Clock = loop.clock if isinstance(loop, TimelessLoop) else ManualClock(NOW)
        self._buses: list[Bus] = []

    async def bus(
        self,
        seed: bytes,
        *,
        store: MeshStore | None = None,
        chain: Chain | None = None,
        revocations: Revocations = NOTHING_REVOKED,
        announced: bool = True,
        **options: Any,
    ) -> Bus:
        """A bus of the agent with this seed."""
        bus = await Bus.bind_with(
            Identity(seed, chain or chain_of(seed), revocations),
            store=store or MemoryMeshStore(),
            resolver=self.resolver,
            transport=self.network.transport(name_of(seed)),
            options=BusOptions(**options),
            clock=self.clock,
        )
        self._buses.append(bus)
        if announced:
            self.resolver.announce(bus.fingerprint, bus.address)
        return bus

    async def crash(self, bus: Bus) -> None:
        """Ends a bus in the middle of whatever it does; its store keeps what it has."""
        self._buses.remove(bus)
        await bus.close(0)

    async def close(self) -> None:
        for bus in self._buses:
            await bus.close()


def name_of(seed: bytes) -> Fingerprint:
    """The fingerprint of the agent with this seed."""
    return fingerprint_of(public_key(seed))


async def quiet() -> None:
    """Waits until nobody has anything to do but wait for a timer."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, TimelessLoop)
    await loop.quiet()


@asynccontextmanager
async def echo(world: World, seed: bytes, topic: str = "echo", **more: Any) -> AsyncIterator[Bus]:
    """A bus that answers what it is asked."""
    bus = await world.bus(seed, **more)

    async def answer(message: Any) -> bytes:
        return message.body

    bus.handle(topic, answer)
    yield bus
