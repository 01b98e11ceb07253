"""The transport on real sockets: mutual TLS 1.3 over TCP, from the standard library.

A connection is worth nothing before the handshake is over, and then it belongs to an agent of the same user, whose key
``peer`` names. The one that takes it says so with an empty frame, for which the one that dials waits: in TLS 1.3 the
handshake ends for the client before the server has looked at its certificate, so a refusal would else be seen only
later, as a connection that was lost.

``renew`` changes what is shown from the next connection on; those that there are stay. What the peer may do is not
asked here (``transport``).
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from parley.bus.fingerprint import Fingerprint
from parley.bus.listening_socket import listening_socket
from parley.bus.newcomers import DEFAULT_BOUNDS, ConnectionBounds, Doors, Newcomer
from parley.bus.tls_channel import SCRATCH_BYTES, TlsChannel
from parley.bus.tls_contexts import Credentials, TlsContexts, make_contexts
from parley.bus.transport import Accept, Address
from parley.core import limits
from parley.core.bus_errors import (
    BusError,
    CertificateExpired,
    ChainInvalid,
    ChannelClosed,
    FrameTooLarge,
    PeerUnreachable,
)

_PAUSE_SECONDS: Final = 0.1
"""Between two tries to accept where the system has no descriptor left."""
_WELCOME: Final = b""
_HAS_EXPIRED: Final = 10
"""X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL, which looks at it last: the certificate is one that the user issued."""

Reached = Callable[[Fingerprint, Address], None]
"""Is told where a peer was found."""


class Deadlines(NamedTuple):
    """How long others may take."""

    dial_seconds: float = limits.BUS_DIAL_SECONDS
    handshake_seconds: float = limits.BUS_HANDSHAKE_SECONDS
    frame_gap_seconds: float = limits.BUS_FRAME_GAP_SECONDS
    farewell_seconds: float = limits.BUS_FAREWELL_SECONDS


_DEADLINES: Final = Deadlines()


class TlsTransport:
    """A ``Transport``. Without a host it listens on all addresses of the machine, without a port on a free one."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        host: str | None = None,
        port: int = 0,
        reached: Reached | None = None,
        deadlines: Deadlines = _DEADLINES,
        bounds: ConnectionBounds = DEFAULT_BOUNDS,
    ) -> None:
        self._agent = credentials.agent
        self._contexts = make_contexts(credentials)
        self._host = host
        self._port = port
        self._reached = reached
        self._deadlines = deadlines
        self._doors = Doors(bounds)
        self._channels: set[TlsChannel] = set()
        self._scratch = bytearray(SCRATCH_BYTES)
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Task[None] | None = None
        self._is_closed = False

    def renew(self, credentials: Credentials) -> None:
        """Shows these from the next connection on. Raises ``ChainInvalid`` for those of another agent."""
        if credentials.agent != self._agent:
            raise ChainInvalid("another agent's certificate cannot take the place of this one's")
        self._contexts = make_contexts(credentials)

    async def listen(self, accept: Accept) -> Address:
        """Begins to take connections. Raises ``ListenRefused`` where it cannot."""
        self._require_open()
        assert self._listening is None, "a transport listens once"
        listening = listening_socket(self._host, self._port)
        host, port, *_ = listening.getsockname()
        self._listening = asyncio.get_running_loop().create_task(self._take_all(listening, accept))
        self._listening.add_done_callback(lambda _: listening.close())
        return Address(host, port)

    async def dial(self, address: Address, *, peer: Fingerprint) -> TlsChannel:
        """A channel to this peer. Raises ``PeerUnreachable`` if nobody, or somebody else, is found at the address.

        Raises ``CertificateExpired`` if whoever answers there shows a certificate of the user's that has ended.
        """
        self._require_open()
        channel = self._new_channel()
        try:
            async with asyncio.timeout(self._deadlines.dial_seconds):
                await self._connect(channel, address, self._contexts)
                found = channel.prove()
                if found != peer or found == self._agent:
                    raise ChainInvalid(f"it is agent {found.hex()} that answers there")
                if await channel.receive() != _WELCOME:
                    raise ChainInvalid("it does not greet as the bus does")
        except BaseException as error:
            channel.abort()
            self._channels.discard(channel)
            if isinstance(error, (OSError, BusError, ValueError, OverflowError)):  # a host can be no name at all
                raise _failure(address, peer, error) from error
            raise
        if self._reached is not None:
            self._reached(peer, address)
        return channel

    async def close(self) -> None:
        """Takes no more connections, and closes those that there are."""
        self._is_closed = True
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
        self._doors.end_newcomers()
        await asyncio.gather(*(channel.close() for channel in list(self._channels)))
        others = self._tasks - {asyncio.current_task()}
        if others:  # which notice that their channels are closed
            await asyncio.wait(others, timeout=self._deadlines.farewell_seconds)

    def _require_open(self) -> None:
        if self._is_closed:
            raise ChannelClosed("the transport is closed")

    def _new_channel(self) -> TlsChannel:
        channel = TlsChannel(
            frame_gap_seconds=self._deadlines.frame_gap_seconds,
            farewell_seconds=self._deadlines.farewell_seconds,
            scratch=self._scratch,
        )
        self._channels.add(channel)
        return channel

    async def _connect(self, channel: TlsChannel, address: Address, contexts: TlsContexts) -> None:
        await asyncio.get_running_loop().create_connection(
            lambda: channel,
            *address,
            ssl=contexts.dialling,
            server_hostname="",  # which asks for none
            ssl_handshake_timeout=self._deadlines.handshake_seconds,
            ssl_shutdown_timeout=self._deadlines.farewell_seconds,
        )

    async def _take_all(self, listening: socket.socket, accept: Accept) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, remote = await loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            task = loop.create_task(self._take(accepted, remote[0], accept))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await asyncio.sleep(0)  # others have their turn, however many wait to be taken

    async def _take(self, accepted: socket.socket, host: str, accept: Accept) -> None:
        """One connection, from its first moment to its last."""
        if self._is_closed:
            accepted.close()
            return
        newcomer = Newcomer(host, lambda: _hang_up(accepted))
        self._doors.arrive(newcomer)
        channel = self._new_channel()
        try:
            try:
                proven = await self._is_proven(channel, accepted)
            finally:
                self._doors.depart(newcomer)
            if proven and not self._is_closed and self._doors.enter(host):
                try:
                    await self._serve(channel, accept)
                finally:
                    self._doors.leave(host)
        finally:
            channel.abort()
            self._channels.discard(channel)

    async def _is_proven(self, channel: TlsChannel, accepted: socket.socket) -> bool:
        """Whether it is another agent of the user's that has come."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: channel,
                accepted,
                ssl=self._contexts.accepting,
                ssl_handshake_timeout=self._deadlines.handshake_seconds,
                ssl_shutdown_timeout=self._deadlines.farewell_seconds,
            )
            return channel.prove() != self._agent
        except (OSError, BusError) as error:  # it hung up, took too long, speaks no TLS, or is nobody's whom we know
            # asyncio leaves a cycle of it, its frames and 256 KiB of buffers; a flood would outrun the collector.
            error.with_traceback(None)
            return False

    async def _serve(self, channel: TlsChannel, accept: Accept) -> None:
        try:
            await channel.send(_WELCOME)
            await accept(channel)
        except (ChannelClosed, FrameTooLarge):
            pass  # which is how channels end
        finally:
            await channel.close()


def _hang_up(connection: socket.socket) -> None:
    """Ends it for whoever uses it, who then closes it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _failure(address: Address, peer: Fingerprint, error: Exception) -> BusError:
    where = f"{address.host} port {address.port}"
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_code == _HAS_EXPIRED:
        return CertificateExpired(f"the certificate that is shown at {where} has expired", peer=peer.hex())
    why = _reason(error)
    return PeerUnreachable(f"agent {peer.hex()} is not at {where}: {why}", peer=peer.hex(), tried=[list(address)])


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "nobody answered in time"
    if isinstance(error, ChannelClosed):  # asyncio ends a handshake that failed without saying why
        return "it hung up, as it does on a certificate that it refuses and when it has too many connections"
    if isinstance(error, ssl.SSLError):
        return f"the certificates were refused ({error.reason or error})"
    return str(error)
