"""Buses of one user on a network in memory, started, stopped and restarted at will."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from parley.bus import Chain, Fingerprint, MeshStore, fingerprint_of
from parley.bus.bus import Bus
from parley.bus.envelope import Head, encode
from parley.bus.link_frames import Answer, Hello, Refusal, decode_frame, encode_frame
from parley.bus.memory_store import MemoryMeshStore
from parley.bus.memory_transport import MemoryNetwork
from parley.bus.message import BusMessage, encode_message
from parley.bus.options import BusOptions
from parley.bus.revocation import NOTHING_REVOKED, Revocations
from parley.bus.static_resolver import StaticResolver
from parley.bus.transport import Channel
from parley.bus.trust import Identity
from parley.core.clock import ManualClock
from parley.core.sealing import public_key
from tests.bus.agents import NOW, chain_of
from tests.bus.timeless import TimelessLoop


class World:
    """A network, who is announced on it, and the buses."""

    def __init__(self) -> None:
        self.network = MemoryNetwork()
        self.resolver = StaticResolver()
        loop = asyncio.get_running_loop()
        self.clock = loop.clock if isinstance(loop, TimelessLoop) else ManualClock(NOW)
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


class Caller:
    """Somebody on the network who says whatever the test wants: a channel of an agent, without a bus."""

    def __init__(self, world: World, seed: bytes) -> None:
        self._world = world
        self._seed = seed
        self.sequence = 0

    async def call(self, bus: Bus) -> Channel:
        """A channel to the bus, on which nothing was said yet."""
        return await self._world.network.transport(name_of(self._seed)).dial(bus.address, peer=bus.fingerprint)

    async def meet(self, bus: Bus, chain: Chain | None = None, **more: Any) -> Channel:
        """A channel on which both sides have said hello."""
        channel = await self.call(bus)
        hello = Hello(
            more.pop("instance", secrets.token_bytes(16)),
            more.pop("number", 1),
            (chain or chain_of(self._seed)).encode(),
            more.pop("topics", ()),
            more.pop("statements", ()),
        )
        await channel.send(encode_frame(hello))
        assert isinstance(decode_frame(await channel.receive()), Hello)
        return channel

    def envelope(self, bus: Bus, message: BusMessage, **more: Any) -> bytes:
        """An envelope for the bus, with the next sequence."""
        self.sequence += 1
        head = Head(
            more.pop("sender", name_of(self._seed)),
            more.pop("recipient", bus.fingerprint),
            more.pop("nonce", secrets.token_bytes(24)),
            more.pop("sequence", self.sequence),
            more.pop("message_id", secrets.token_bytes(16)),
            "sealed" in more,
        )
        payload = more.pop("sealed", encode_message(message))
        chain: Chain = more.pop("chain", None) or chain_of(self._seed)
        return encode(head, payload, chain=chain.encode(), seed=more.pop("seed", self._seed)) + payload

    async def ask(self, channel: Channel, frame: bytes) -> Answer | Refusal:
        """What the bus answers to a frame."""
        await channel.send(frame)
        while True:
            said = decode_frame(await channel.receive())
            if isinstance(said, Answer | Refusal):
                return said


@asynccontextmanager
async def echo(world: World, seed: bytes, topic: str = "echo", **more: Any) -> AsyncIterator[Bus]:
    """A bus that answers what it is asked."""
    bus = await world.bus(seed, **more)

    async def answer(message: Any) -> bytes:
        return message.body

    bus.handle(topic, answer)
    yield bus
