"""What the hub's feed and the broker's connections promise alike to whoever speaks WebSocket to them."""

import asyncio
import logging
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.shell.lines import KEY, UPGRADE
from tests.conformance.shell.servers import SERVERS, Served, line_to, until
from tests.hub.feed.frames import CLOSE, CONTINUATION, PING, TEXT

MIB = 1024 * 1024


@pytest.fixture(params=["hub", "broker"])
async def served(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Served]:
    async with SERVERS[request.param](tmp_path) as opened:
        yield opened


def masked(opcode: int, payload: bytes, *, fin: bool = True) -> bytes:
    """A frame as a client sends it, with a mask that changes nothing."""
    head = struct.pack("!BBQ", (0x80 if fin else 0) | opcode, 0xFF, len(payload))
    if opcode >= CLOSE:
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | len(payload))
    return head + bytes(4) + payload


async def end_of(reader: asyncio.StreamReader) -> tuple[int, str]:
    """The code and the reason of the close frame, which is the last that comes."""
    while True:
        first, length = await reader.readexactly(2)
        if length == 126:
            (length,) = struct.unpack("!H", await reader.readexactly(2))
        payload = await reader.readexactly(length)
        if first & 0x0F == CLOSE:
            assert await reader.read() == b""
            return int.from_bytes(payload[:2], "big"), payload[2:].decode()


NOT_TEXT = (1007, "Text that is not UTF-8")
TOO_LARGE = (1009, "Message too large")
MISTAKES = {
    "no utf-8": (masked(TEXT, b'{"type":"\xff"}'), NOT_TEXT),
    "no utf-8 in two fragments": (
        masked(TEXT, b'{"type":"\xc3', fin=False) + masked(CONTINUATION, b'("}'),
        NOT_TEXT,
    ),
    "too large": (masked(TEXT, b" " * MIB), TOO_LARGE),
    "too large in two fragments": (
        masked(TEXT, b" " * (200 * 1024), fin=False) + masked(CONTINUATION, b" " * (200 * 1024)),
        TOO_LARGE,
    ),
    "no mask": (b"\x81\x02hi", (1002, "incorrect masking")),
    "no beginning": (masked(CONTINUATION, b"hi"), (1002, "unexpected continuation frame")),
}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_mistake_has_its_code_also_for_a_sender_that_goes_on(
    served: Served, mistake: str, caplog: pytest.LogCaptureFixture
) -> None:
    """And neither the connection nor its mistake is worth a line in the log: a stranger can have many of both."""
    caplog.set_level(logging.INFO)
    said, end = MISTAKES[mistake]
    async with line_to(served) as (reader, writer):
        writer.write(served.head("GET /ws", served.bearer, *UPGRADE, KEY))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said + masked(PING, b"more") * 10_000)
        assert await end_of(reader) == end
    await until(lambda: not served.server.connections.connections)
    assert caplog.records == []


async def test_a_server_that_stops_does_not_wait_for_those_who_were_told(served: Served) -> None:
    async with line_to(served) as (reader, writer):
        writer.write(served.head("GET /ws", served.bearer, *UPGRADE, KEY))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(masked(TEXT, b'{"type":"\xff"}'))
        await end_of(reader)
        (lingering,) = served.server.connections.connections
        assert lingering in served.server.connections.waiting, "it makes room where there are too many"
        await served.server.stop(60)
        assert not served.server.connections.connections
