"""A subscriber on a raw socket: it sends whatever it is told to and reads when it is told to, and only then."""

import asyncio
import json
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from parley.hub.transaction import Tx
from parley.wire.requests import CreateMessage
from tests.hub.feed.frames import CLOSE, PING, PONG, TEXT, Received
from tests.hub.hubs import DEADLINE_SECONDS, OpenHub

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


class Refused(Exception):
    """The upgrade was answered with something other than 101."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status, self.headers = status, headers
        self.body: Any = json.loads(body) if body.startswith(b"{") else body


class RawFeed:
    """One connection after its upgrade."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: dict[str, str]) -> None:
        self.headers = headers
        self._reader = reader
        self._writer = writer

    @property
    def local_port(self) -> int:
        return self._writer.get_extra_info("sockname")[1]

    async def hello(self, after: int | None = 0, subscriptions: Any = ...) -> dict[str, Any]:
        """Says hello and returns the hub's ``hello_ok``."""
        message: dict[str, Any] = {"type": "hello", "after_event_id": after}
        if subscriptions is not ...:
            message["subscriptions"] = subscriptions
        self.send(TEXT, json.dumps(message).encode())
        answer = json.loads((await self.frame()).payload)
        assert answer["type"] == "hello_ok"
        return answer

    def send(self, opcode: int, payload: bytes = b"", *, fin: bool = True) -> None:
        """Sends one masked frame."""
        length, mask = len(payload), os.urandom(4)
        first = (0x80 if fin else 0) | opcode
        if length < 126:
            head = struct.pack("!BB", first, 0x80 | length)
        elif length < 65_536:
            head = struct.pack("!BBH", first, 0x80 | 126, length)
        else:
            head = struct.pack("!BBQ", first, 0x80 | 127, length)
        repeated = (mask * (length // 4 + 1))[:length]
        masked = (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(length, "big")
        self._writer.write(head + mask + masked)

    async def sent(self) -> None:
        """Returns when most of what was said is on its way."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self._writer.drain()

    async def frame(self) -> Received:
        """The next frame. Raises ``IncompleteReadError`` or ``ConnectionError`` when there is none any more."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            first, length = await self._reader.readexactly(2)
            if length == 126:
                (length,) = struct.unpack("!H", await self._reader.readexactly(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", await self._reader.readexactly(8))
            return Received(first & 0x0F, await self._reader.readexactly(length))

    async def event(self) -> dict[str, Any]:
        """The next event; pings before it are answered."""
        while True:
            received = await self.frame()
            if received.opcode == PING:
                self.send(PONG, received.payload)
                continue
            assert received.opcode == TEXT, (received.opcode, received.payload[:100])
            return json.loads(received.payload)

    async def events(self, until: int) -> list[dict[str, Any]]:
        """Events up to the one with this id, which must come."""
        found = [await self.event()]
        while found[-1]["event_id"] < until:
            found.append(await self.event())
        return found

    async def ids(self, count: int) -> list[int]:
        """The ids of the next so many events."""
        return [(await self.event())["event_id"] for _ in range(count)]

    async def closing(self) -> Received:
        """The close frame, whatever comes before it."""
        while True:
            received = await self.frame()
            if received.opcode == CLOSE:
                return received

    async def ended(self) -> None:
        """Returns when the hub has ended the connection."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            try:
                while await self._reader.read(65_536):
                    pass
            except ConnectionError:
                pass

    def reset(self) -> None:
        """Vanishes as a crashed machine's kernel would say it: with RST."""
        end: socket.socket = self._writer.get_extra_info("socket")
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def half_close(self) -> None:
        """Sends FIN and goes on reading."""
        self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()


async def upgrade(
    hub: OpenHub,
    path: str | None = None,
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    *,
    receive_bytes: int | None = None,
) -> RawFeed:
    """Opens a feed. ``headers`` replace those of the same name. Raises ``Refused``."""
    end = socket.socket()
    if receive_bytes is not None:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    end.setblocking(False)
    await asyncio.get_running_loop().sock_connect(end, ("127.0.0.1", hub.hub.port))
    reader, writer = await asyncio.open_connection(sock=end, limit=receive_bytes or 65_536)
    sent = {
        "Host": f"127.0.0.1:{hub.hub.port}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": KEY,
        **dict(headers),
    }
    target = path if path is not None else f"/ws?token={hub.token}"
    lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items()), "", ""]
    writer.write("\r\n".join(lines).encode("latin-1"))
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await _answer(reader, writer)
    except BaseException:
        writer.close()
        raise


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> RawFeed:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(head[0].split(" ")[1])
    received = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    if status != 101:
        body = await reader.read()
        raise Refused(status, received, body)
    assert received["sec-websocket-accept"] == ACCEPT
    return RawFeed(reader, writer, received)


@asynccontextmanager
async def feed(hub: OpenHub, **options: Any) -> AsyncIterator[RawFeed]:
    """A raw feed that is closed at the end of the block."""
    opened = await upgrade(hub, **options)
    try:
        yield opened
    finally:
        opened.close()


async def post_many(hub: OpenHub, topic_id: str, count: int, content: str = "hello") -> int:
    """Posts messages in one commit, which takes a fraction of the time of as many requests; the last event's id."""
    from parley.hub.rules.messages import create_message

    urls = hub.hub.settings.urls

    def rule(tx: Tx) -> int:
        for _ in range(count):
            result = create_message(tx, CreateMessage(topic_id, "ann", content), urls)
        assert result.event_id is not None
        return result.event_id

    return await hub.hub.store.write(rule)


async def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition that another task or thread will bring about."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            if condition():
                return
            await asyncio.sleep(0.001)
