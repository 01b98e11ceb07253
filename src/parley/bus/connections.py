"""The connections of a bus: one for each peer, dialled when there is something to say, or taken.

Two agents may dial each other at once, and a peer may dial anew what this side has not lost yet; ``rivals`` says which
connection stays.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from parley.bus.connection import Connection, Owner
from parley.bus.fingerprint import Fingerprint, short
from parley.bus.link import Link
from parley.bus.link_frames import Hello
from parley.bus.rivals import Rival, keeps_new
from parley.bus.transport import Address, Channel, Resolver, Transport
from parley.bus.trust import Trust
from parley.core import limits
from parley.core.bus_errors import BusClosed, BusError, CertificateExpired, ChannelClosed, PeerUnreachable
from parley.core.clock import Clock

_log: Final = logging.getLogger(__name__)


class Connections:
    """Belongs to one event loop."""

    def __init__(
        self,
        trust: Trust,
        transport: Transport,
        resolver: Resolver,
        clock: Clock,
        *,
        instance: bytes,
        topics: Callable[[], tuple[str, ...]],
    ) -> None:
        self._trust = trust
        self._transport = transport
        self._resolver = resolver
        self._clock = clock
        self._owner: Owner | None = None
        self._instance = instance
        self._topics = topics
        self._number = 0
        self._live: dict[Connection, None] = {}
        """In the order in which they came, so that they end in the same one each time."""
        self._ready: dict[Fingerprint, Connection] = {}
        self._dialling: dict[Fingerprint, asyncio.Task[Connection]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._announced = _Moments()
        self._met = _Moments()
        self._closed = False
        resolver.watch(self._announced.come)

    async def listen(self, owner: Owner) -> Address:
        """Begins to take connections, and tells their owner of all that happens on any of them."""
        self._owner = owner
        return await self._transport.listen(self._take)

    def current(self, peer: Fingerprint) -> Connection | None:
        """The connection to the peer, if there is one."""
        connection = self._ready.get(peer)
        return None if connection is None or connection.ended else connection

    def all(self) -> list[Connection]:
        """Every connection whose peer is known."""
        return [each for each in self._ready.values() if not each.ended]

    async def to(self, peer: Fingerprint, *, patience_seconds: float = 0.0) -> Connection:
        """The connection to the peer, dialled if there is none.

        Raises ``PeerUnreachable``, or the reason for which the peer refused this side or this side the peer. When no
        address of the peer is known, it waits for it to be announced as long as ``patience_seconds``.
        """
        connection = self.current(peer)
        if connection is not None:
            return connection
        if self._closed:
            raise BusClosed("the bus is closed")
        if not self._resolver.candidates(peer):
            await self._announcement(peer, patience_seconds)
            connection = self.current(peer)
            if connection is not None:
                return connection
        dialling = self._dialling.get(peer)
        if dialling is None:
            dialling = self._dialling[peer] = asyncio.ensure_future(self._dial(peer))
            dialling.add_done_callback(lambda task: self._dialled(peer, task))
        while not dialling.done():
            await asyncio.wait({dialling, self._met.next(peer)}, return_when=asyncio.FIRST_COMPLETED)
            connection = self.current(peer)
            if connection is not None:
                return connection
        if dialling.cancelled():
            raise BusClosed("the bus was closed")
        return dialling.result()

    async def close(self) -> None:
        """Ends them all, and the transport."""
        self._closed = True
        for task in list(self._dialling.values()):
            task.cancel()
        for connection in list(self._live):
            connection.end(ChannelClosed("the bus was closed"))
        await asyncio.gather(*self._dialling.values(), *self._running, return_exceptions=True)
        await self._transport.close()

    async def _dial(self, peer: Fingerprint) -> Connection:
        tried: list[list[str | int]] = []
        failure: BusError | None = None
        for address in self._resolver.candidates(peer):
            try:
                return await self._dial_at(address, peer)
            except BusError as error:
                taken = self.current(peer)
                if taken is not None:
                    return taken
                if not error.transient:
                    raise
                tried.append(list(address))
                failure = failure if isinstance(failure, CertificateExpired) else error
        if failure is not None and not isinstance(failure, PeerUnreachable | ChannelClosed):
            raise failure
        why = "no address is known" if failure is None else str(failure)
        raise PeerUnreachable(f"{short(peer)} cannot be reached: {why}", tried=tried)

    async def _dial_at(self, address: Address, peer: Fingerprint) -> Connection:
        number = self._next_number()
        try:
            async with asyncio.timeout(limits.BUS_DIAL_SECONDS):
                channel = await self._transport.dial(address, peer=peer)
        except TimeoutError as error:
            raise PeerUnreachable(f"{address.host}:{address.port} does not answer") from error
        if channel.peer != peer:
            await channel.close()
            raise PeerUnreachable(f"somebody else answers at {address.host}:{address.port}")
        connection = self._connection(channel, number, dialled=True)
        running = asyncio.ensure_future(self._run(connection))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        await connection.ready
        return self.current(peer) or connection

    async def _take(self, channel: Channel) -> None:
        """Runs a connection that was dialled by the other side."""
        of_peer = sum(each.peer == channel.peer for each in self._live)
        if (
            self._closed
            or len(self._live) >= limits.BUS_CONNECTIONS_MAX
            or of_peer >= limits.BUS_CONNECTIONS_PER_PEER_MAX
        ):
            await channel.close()
            return
        await self._run(self._connection(channel, self._next_number(), dialled=False))

    async def _run(self, connection: Connection) -> None:
        self._live[connection] = None
        try:
            assert self._owner is not None
            await connection.run(_Settled(self._owner, self))
        finally:
            self._live.pop(connection, None)
            if self._ready.get(connection.peer) is connection:
                del self._ready[connection.peer]

    def _connection(self, channel: Channel, number: int, *, dialled: bool) -> Connection:
        trust = self._trust
        hello = Hello(self._instance, number, trust.chain, self._topics(), trust.statements())
        return Connection(channel, Link(trust, channel.peer), hello, self._clock, dialled=dialled)

    def settle(self, connection: Connection) -> bool:
        """Makes it the one of its peer, unless another one is to stay, and tells which."""
        old = self.current(connection.peer)
        if old is not None:
            we_are_smaller = self._trust.agent < connection.peer
            stays = keeps_new(_rival(old), _rival(connection), we_are_smaller=we_are_smaller)
            other = old if stays else connection
            other.end(ChannelClosed("another connection to the same peer took its place"))
            if not stays:
                return False
        self._ready[connection.peer] = connection
        self._met.come(connection.peer)
        return True

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _dialled(self, peer: Fingerprint, task: asyncio.Task[Connection]) -> None:
        self._dialling.pop(peer, None)
        if not task.cancelled():
            task.exception()  # whoever waited was told; nobody may have

    async def _announcement(self, peer: Fingerprint, seconds: float) -> None:
        """Waits for the peer to be announced, or to call, and no longer than this."""
        if seconds > 0:
            moments = {self._announced.next(peer), self._met.next(peer)}
            await asyncio.wait(moments, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)


class _Moments:
    """Something that happens to a peer now and then, and whoever waits for the next time."""

    def __init__(self) -> None:
        self._waiting: dict[Fingerprint, asyncio.Future[None]] = {}

    def next(self, peer: Fingerprint) -> "asyncio.Future[None]":
        """Done once it happens. Everybody who waits shares it, so it must not be cancelled."""
        if peer not in self._waiting:
            self._waiting[peer] = asyncio.get_running_loop().create_future()
        return self._waiting[peer]

    def come(self, peer: Fingerprint) -> None:
        """It happens."""
        waiting = self._waiting.pop(peer, None)
        if waiting is not None:
            waiting.set_result(None)


class _Settled:
    """Looks whether a connection stays before its owner hears of it."""

    def __init__(self, owner: Owner, connections: Connections) -> None:
        self._connections = connections
        self._owner = owner
        self.arrived = owner.arrived
        self.topics_told = owner.topics_told
        self.learned = owner.learned
        self.renewed = owner.renewed

    def met(self, connection: Connection) -> None:
        if self._connections.settle(connection):
            self._owner.met(connection)


def _rival(connection: Connection) -> Rival:
    hello = connection.link.met
    assert hello is not None
    return Rival(connection.dialled, connection.number, hello.number, hello.instance)
