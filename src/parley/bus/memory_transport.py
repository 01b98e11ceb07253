"""A network in memory: the transport of tests and simulations, with the troubles that they need.

Whoever is given a transport of an agent is that agent to everybody else, as a network of real sockets has it of whoever
holds the agent's key. Connections can be *severed* (they break, and no new ones are made) and *held* (frames are under
way and do not arrive) between two agents, until that is over.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from parley.bus.fingerprint import Fingerprint
from parley.bus.transport import Accept, Address, Frame
from parley.core.bus_errors import ChannelClosed, FrameTooLarge, PeerUnreachable
from parley.core.limits import BUS_FRAME_BYTES_MAX

HOST: Final = "memory"
FRAMES_UNDER_WAY: Final = 64
"""What a connection takes before a sender has to wait for the receiver."""


class MemoryNetwork:
    """Everybody who can be reached, and what is between them."""

    def __init__(self) -> None:
        self._listening: dict[Address, MemoryTransport] = {}
        self._ports = 0
        self._severed: set[frozenset[Fingerprint]] = set()
        self._held: set[frozenset[Fingerprint]] = set()
        self._channels: set[MemoryChannel] = set()

    def transport(self, agent: Fingerprint) -> "MemoryTransport":
        """The transport of this agent; a new one each time, as after a restart."""
        return MemoryTransport(self, agent)

    def sever(self, one: Fingerprint, other: Fingerprint) -> None:
        """Breaks every connection between the two. What is under way does not arrive."""
        self._severed.add(frozenset((one, other)))
        for channel in [each for each in self._channels if {each.owner.agent, each.peer} == {one, other}]:
            channel.break_off()

    def mend(self, one: Fingerprint, other: Fingerprint) -> None:
        """Ends ``sever``."""
        self._severed.discard(frozenset((one, other)))

    def hold(self, one: Fingerprint, other: Fingerprint) -> None:
        """Nothing that one says reaches the other from now on, and neither notices."""
        self._held.add(frozenset((one, other)))

    def release(self, one: Fingerprint, other: Fingerprint) -> None:
        """Ends ``hold``: what was held arrives."""
        self._held.discard(frozenset((one, other)))
        for channel in self._channels:
            channel.look_again()

    def connections(self, one: Fingerprint, other: Fingerprint) -> int:
        """How many there are between the two."""
        return sum(each.owner.agent == one and each.peer == other for each in self._channels)

    def open(self, transport: "MemoryTransport", accept: Accept) -> Address:
        self._ports += 1
        address = Address(HOST, self._ports)
        self._listening[address] = transport
        transport.accept = accept
        return address

    def shut(self, transport: "MemoryTransport") -> None:
        self._listening = {at: each for at, each in self._listening.items() if each is not transport}

    def connect(self, dialer: "MemoryTransport", address: Address, peer: Fingerprint) -> "MemoryChannel":
        listener = self._listening.get(address)
        if listener is None or listener.accept is None or frozenset((dialer.agent, listener.agent)) in self._severed:
            raise PeerUnreachable(f"nobody answers at {address.host}:{address.port}", tried=[list(address)])
        if listener.agent != peer:
            raise PeerUnreachable(f"somebody else answers at {address.host}:{address.port}", tried=[list(address)])
        between = frozenset((dialer.agent, listener.agent))
        there, back = (_Pipe(lambda: between in self._held) for _ in range(2))
        ours = MemoryChannel(dialer, peer, inward=back, outward=there, closed=self._channels.discard)
        theirs = MemoryChannel(listener, dialer.agent, inward=there, outward=back, closed=self._channels.discard)
        self._channels |= {ours, theirs}
        listener.take(theirs)
        return ours

    def channels_of(self, transport: "MemoryTransport") -> "list[MemoryChannel]":
        return [each for each in self._channels if each.owner is transport]


class MemoryTransport:
    """A ``Transport`` of one agent."""

    def __init__(self, network: MemoryNetwork, agent: Fingerprint) -> None:
        self.agent = agent
        self.accept: Accept | None = None
        self._network = network
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, accept: Accept) -> Address:
        return self._network.open(self, accept)

    async def dial(self, address: Address, *, peer: Fingerprint) -> "MemoryChannel":
        await asyncio.sleep(0)  # as a real one, it lets others run
        return self._network.connect(self, address, peer)

    async def close(self) -> None:
        self._network.shut(self)
        for channel in self._network.channels_of(self):
            await channel.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def take(self, channel: "MemoryChannel") -> None:
        task = asyncio.ensure_future(self._serve(channel))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, channel: "MemoryChannel") -> None:
        assert self.accept is not None
        try:
            await self.accept(channel)
        finally:
            await channel.close()


class MemoryChannel:
    """A ``Channel``: one end of two pipes."""

    def __init__(
        self,
        owner: MemoryTransport,
        peer: Fingerprint,
        *,
        inward: "_Pipe",
        outward: "_Pipe",
        closed: "Callable[[MemoryChannel], None]",
    ) -> None:
        self.owner = owner
        self._peer = peer
        self._inward = inward
        self._outward = outward
        self._closed = closed

    @property
    def peer(self) -> Fingerprint:
        return self._peer

    async def send(self, *frames: Frame) -> None:
        for frame in frames:
            whole = b"".join(frame) if isinstance(frame, tuple) else bytes(frame)
            if len(whole) > BUS_FRAME_BYTES_MAX:
                raise FrameTooLarge(f"a frame has at most {BUS_FRAME_BYTES_MAX} bytes, not {len(whole)}")
            await self._outward.put(whole)

    async def receive(self) -> bytes:
        return await self._inward.take()

    async def close(self) -> None:
        """What the other side has not read yet it still reads, as on a socket."""
        self._inward.break_off()
        self._outward.end()
        self._closed(self)

    def break_off(self) -> None:
        """As when the network is gone: nothing more arrives on either side."""
        self._inward.break_off()
        self._outward.break_off()
        self._closed(self)

    def look_again(self) -> None:
        self._inward.notify()


class _Pipe:
    """Frames in one direction."""

    def __init__(self, is_held: Callable[[], bool]) -> None:
        self._is_held = is_held
        self._frames: deque[bytes] = deque()
        self._ended = False
        self._waiting: set[asyncio.Future[None]] = set()

    async def put(self, frame: bytes) -> None:
        while not self._ended and len(self._frames) >= FRAMES_UNDER_WAY:
            await self._wait()
        if self._ended:
            raise ChannelClosed("the connection has ended")
        self._frames.append(frame)
        self.notify()

    async def take(self) -> bytes:
        while self._is_held() or not (self._frames or self._ended):
            await self._wait()
        if not self._frames:
            raise ChannelClosed("the connection has ended")
        frame = self._frames.popleft()
        self.notify()
        await asyncio.sleep(0)  # whoever floods the other side leaves time to others
        return frame

    def end(self) -> None:
        self._ended = True
        self.notify()

    def break_off(self) -> None:
        self._frames.clear()
        self.end()

    def notify(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    async def _wait(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)
