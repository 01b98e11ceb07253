"""Connections to a server that is attacked, from addresses of this machine's own."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.campaign.doors.servers import Target

HOME = "127.0.0.1"
SOURCES = [f"127.0.0.{number}" for number in range(2, 10)]
"""Where strangers come from. Each has ports, and in some servers a budget, of its own."""


@asynccontextmanager
async def line_to(
    target: Target, source: str = HOME, *, in_clear: bool = False
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to the server, with TLS if it speaks that; ``in_clear`` leaves it out."""
    tls = None if in_clear else target.tls
    reader, writer = await asyncio.open_connection(
        HOME, target.port, local_addr=(source, 0), ssl=tls, limit=1024 * 1024
    )
    try:
        yield reader, writer
    finally:
        writer.close()


def greeting(target: Target) -> bytes:
    """The first bytes of a client that speaks TLS."""
    heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = target.tls or ssl.create_default_context()
    speaker = context.wrap_bio(heard, said, server_hostname="localhost")
    try:
        speaker.do_handshake()
    except ssl.SSLWantReadError:
        return said.read()
    raise AssertionError("a handshake needs an answer")
