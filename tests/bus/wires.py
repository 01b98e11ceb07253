"""Agents on real sockets: what they show of themselves, one that answers everything, and others who are no agents."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from parley.bus.fingerprint import Fingerprint, fingerprint_of
from parley.bus.frames import framed
from parley.bus.tls_contexts import ALPN, Credentials, make_contexts
from parley.bus.tls_transport import TlsTransport
from parley.bus.transport import Address, Channel
from parley.bus.x509 import make_certificates
from parley.core.bus_errors import ChannelClosed
from parley.core.clock import SystemClock
from parley.core.sealing import public_key
from tests.bus.agents import ADA, BOB, BOB_NAME, DAY, USER

HOST: Final = "127.0.0.1"
SECONDS: Final = 30.0
"""A deadline for what must happen; nothing waits for it to pass."""


def credentials(seed: bytes, user: bytes = USER, *, ended: bool = False) -> Credentials:
    """What the agent with this seed shows."""
    issued = SystemClock().now_ms() - (10 * DAY if ended else 0)
    made = make_certificates(user, public_key(seed), issued_at_ms=issued, expires_at_ms=issued + 5 * DAY)
    return Credentials(seed, made)


class Listener:
    """An agent that listens, sends back each frame, and keeps account of who came."""

    def __init__(self, transport: TlsTransport) -> None:
        self.transport = transport
        self.address = Address("", 0)
        self.came: list[Fingerprint] = []
        self.received: list[bytes] = []
        self.ended: asyncio.Queue[BaseException] = asyncio.Queue()

    async def serve(self, channel: Channel) -> None:
        self.came.append(channel.peer)
        try:
            while True:
                self.received.append(bytes(await channel.receive()))
                await channel.send(self.received[-1])
        except BaseException as error:
            self.ended.put_nowait(error)
            raise


@asynccontextmanager
async def listening(shown: Credentials | None = None, **options: Any) -> AsyncIterator[Listener]:
    """Bob, unless somebody else is named."""
    listener = Listener(TlsTransport(shown or credentials(BOB), host=HOST, **options))
    listener.address = await listener.transport.listen(listener.serve)
    try:
        yield listener
    finally:
        await listener.transport.close()


@asynccontextmanager
async def dialling(shown: Credentials | None = None, **options: Any) -> AsyncIterator[TlsTransport]:
    """Ada, unless somebody else is named."""
    transport = TlsTransport(shown or credentials(ADA), host=HOST, **options)
    try:
        yield transport
    finally:
        await transport.close()


async def echo(channel: Channel, frame: bytes = b"hello") -> None:
    """The other side is served."""
    async with asyncio.timeout(SECONDS):
        await channel.send(frame)
        assert await channel.receive() == frame


async def is_served(listener: Listener, seed: bytes = ADA) -> None:
    """The control of an attack: whoever is polite is served while it lasts."""
    async with dialling(credentials(seed)) as transport:
        channel = await transport.dial(listener.address, peer=BOB_NAME)
        await echo(channel)
        assert fingerprint_of(public_key(seed)) in listener.came


async def end_of(channel: Channel) -> ChannelClosed:
    """Why the channel ended."""
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                await channel.receive()
    except ChannelClosed as error:
        return error


class Raw(NamedTuple):
    """A connection that keeps no rules."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def rest(self) -> bytes:
        """What still comes, until the other side hangs up."""
        try:
            async with asyncio.timeout(SECONDS):
                return await self.reader.read()
        except ConnectionError:
            return b""

    async def close(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def raw(address: Address, context: ssl.SSLContext | None = None) -> AsyncIterator[Raw]:
    """Somebody who connects, with TLS or without, and does as it likes."""
    connection = Raw(*await asyncio.open_connection(*address, ssl=context, server_hostname="" if context else None))
    try:
        yield connection
    finally:
        await connection.close()


def adas_context() -> ssl.SSLContext:
    """Ada's own, for one that has her key and keeps no rules after the handshake."""
    return make_contexts(credentials(ADA)).dialling


def stranger_context() -> ssl.SSLContext:
    """A client without a certificate that trusts everybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([ALPN])
    return context


WELCOME: Final = framed(b"")
