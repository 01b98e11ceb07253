"""The network between buses: late, cut, partitioned, and listened to by somebody who plays back what was said.

A connection keeps its frames in order and gives up none while it lasts, as TCP does; what a partition holds back comes
after it. A connection that is cut may tell both ends, one, or none, and then only the silence tells. Whoever listens
has every envelope, and puts it into any connection again. TLS lets nobody do that; here the bus stands alone.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from parley.bus.blocks import Buffer
from parley.bus.fingerprint import Fingerprint
from parley.bus.transport import Accept, Address, Frame
from parley.core.bus_errors import ChannelClosed, PeerUnreachable
from parley.core.limits import BUS_DIAL_SECONDS
from tests.simulation.bus.lives import Life

HOST: Final = "simulated"


class Weather(NamedTuple):
    """How long frames take, in seconds."""

    least: float = 0.001
    most: float = 0.01


CALM: Final = Weather()


class Wires:
    """Everybody who can be reached, and what is between them."""

    def __init__(self, rng: random.Random, heard: Callable[[Fingerprint, Fingerprint, bytes, bool], None]) -> None:
        """``heard`` is told of each frame that one agent hands over to another, and when that takes it."""
        self.weather = CALM
        self.frames = 0
        self.channels: dict[SimulatedChannel, None] = {}
        self._rng = rng
        self._heard = heard
        self._listening: dict[Address, SimulatedTransport] = {}
        self._ports = 0
        self._apart: set[Fingerprint] = set()

    def latency(self) -> float:
        """For the next frame."""
        return self._rng.uniform(*self.weather)

    def tell(self, sender: Fingerprint, recipient: Fingerprint, frame: bytes, *, arrived: bool) -> None:
        self.frames += not arrived
        self._heard(sender, recipient, frame, arrived)

    def partition(self, agent: Fingerprint) -> None:
        """Nothing reaches the agent, or anybody from there."""
        self._apart.add(agent)

    def heal(self, agent: Fingerprint) -> None:
        """Ends ``partition``."""
        self._apart.discard(agent)
        for channel in list(self.channels):
            channel.go_on()

    def are_apart(self, one: Fingerprint, other: Fingerprint) -> bool:
        return one in self._apart or other in self._apart

    def listen(self, transport: "SimulatedTransport") -> Address:
        self._ports += 1
        address = Address(HOST, self._ports)
        self._listening[address] = transport
        return address

    def shut(self, transport: "SimulatedTransport") -> None:
        self._listening = {at: each for at, each in self._listening.items() if each is not transport}

    async def connect(self, dialer: "SimulatedTransport", address: Address, peer: Fingerprint) -> "SimulatedChannel":
        await asyncio.sleep(self.latency())
        listener = self._listening.get(address)
        if listener is not None and self.are_apart(dialer.agent, listener.agent):
            await asyncio.sleep(BUS_DIAL_SECONDS)
            listener = None
        if listener is None or listener.accept is None or listener.agent != peer:
            raise PeerUnreachable("nobody answers there", tried=[list(address)])
        ours, theirs = SimulatedChannel(self, dialer, peer), SimulatedChannel(self, listener, dialer.agent)
        ours.other, theirs.other = theirs, ours
        self.channels |= {ours: None, theirs: None}
        listener.life.begin(listener.serve(theirs))
        return ours


class SimulatedTransport:
    """A ``Transport`` of one agent in one life."""

    def __init__(self, wires: Wires, agent: Fingerprint, life: Life) -> None:
        self.agent = agent
        self.life = life
        self.accept: Accept | None = None
        self._wires = wires

    async def listen(self, accept: Accept) -> Address:
        self.accept = accept
        return self._wires.listen(self)

    async def dial(self, address: Address, *, peer: Fingerprint) -> "SimulatedChannel":
        return await self._wires.connect(self, address, peer)

    async def close(self) -> None:
        self._wires.shut(self)
        for channel in self._channels():
            await channel.close()

    def die(self, rng: random.Random) -> None:
        """Its process has ended: the other ends are told, or not."""
        self._wires.shut(self)
        for channel in self._channels():
            channel.cut(here=False, there=rng.random() < 0.5)

    async def serve(self, channel: "SimulatedChannel") -> None:
        assert self.accept is not None
        try:
            await self.accept(channel)
        finally:
            await channel.close()

    def _channels(self) -> "list[SimulatedChannel]":
        return [each for each in self._wires.channels if each.owner is self]


class SimulatedChannel:
    """A ``Channel``: one end of a connection."""

    other: "SimulatedChannel"

    def __init__(self, wires: Wires, owner: SimulatedTransport, peer: Fingerprint) -> None:
        self.owner = owner
        self.taken = 0
        self._wires = wires
        self._peer = peer
        self._under_way: deque[bytes | None] = deque()
        """To this end; None is the other's goodbye."""
        self._arrived: deque[bytes | None] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_told = False
        self._is_cut = False
        self._changed = asyncio.Event()

    @property
    def peer(self) -> Fingerprint:
        return self._peer

    async def send(self, *frames: Frame) -> None:
        for frame in frames:
            if self._is_told:
                raise ChannelClosed("the connection has ended")
            whole = b"".join(frame) if isinstance(frame, tuple) else bytes(frame)
            self._wires.tell(self.owner.agent, self._peer, whole, arrived=False)
            self.other.put(whole)

    async def receive(self) -> Buffer:
        while not self._arrived:
            if self._is_told:
                raise ChannelClosed("the connection has ended")
            self._changed.clear()
            await self._changed.wait()
        frame = self._arrived.popleft()
        if frame is None:
            self._is_told = True
            raise ChannelClosed("the other side has closed the connection")
        self.taken += 1
        self._wires.tell(self._peer, self.owner.agent, frame, arrived=True)
        return frame

    async def close(self) -> None:
        """What is under way from here still arrives."""
        self.other.put(None)
        self._is_told = True
        self._changed.set()
        self._wires.channels.pop(self, None)

    def put(self, frame: bytes | None) -> None:
        """A frame sets out for this end."""
        if not self._is_cut:
            self._under_way.append(frame)
            self.go_on()

    def cut(self, *, here: bool, there: bool) -> None:
        """Nothing goes through any more; each end is told, or not."""
        for end, is_told in ((self, here), (self.other, there)):
            end._is_cut = True
            end._under_way.clear()
            end._is_told = end._is_told or is_told
            end._changed.set()
            self._wires.channels.pop(end, None)

    def go_on(self) -> None:
        """Lets the next frame arrive, unless one is about to."""
        if self._timer is None and self._under_way and not self._wires.are_apart(self.owner.agent, self._peer):
            self._timer = asyncio.get_running_loop().call_later(self._wires.latency(), self._arrive)

    def _arrive(self) -> None:
        self._timer = None
        if self._under_way and not self._wires.are_apart(self.owner.agent, self._peer):
            # Whatever set out up to now comes along: frames on one connection do not wait for each other.
            self._arrived += self._under_way
            self._under_way.clear()
            self._changed.set()
