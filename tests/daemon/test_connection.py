"""The socket of a mesh, where the machine above it can do nothing."""

import asyncio
import base64
import hashlib

import pytest
from websockets.asyncio.server import ServerConnection, serve

from parley.daemon import connection as connections
from parley.wire.broker import ErrorFrame, Problem, encode_frame

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
FRAMES = 400
LARGE = encode_frame(ErrorFrame(Problem("INTERNAL", "x" * 100_000, 500, True)))
"""So many of these are more than the buffers on the way hold."""
SECONDS = 60


class Listener:
    """Whom a connection tells of itself."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_open = asyncio.Event()
        self.lost_with: list[int | None] = []

    def opened(self, connection: object) -> None:
        self.is_open.set()

    def heard(self, connection: object, data: bytes | str) -> None:
        raise AssertionError("nothing was said")

    def lost(self, connection: object, code: int | None, reason: str) -> None:
        self.lost_with.append(code)


class Attentive(Listener):
    """Remembers what it hears."""

    def __init__(self, url: str, count: int) -> None:
        super().__init__(url)
        self.said: list[str] = []
        self.heard_all = asyncio.Event()
        self._count = count

    def heard(self, connection: object, data: bytes | str) -> None:
        self.said.append(data if isinstance(data, str) else data.decode())
        if len(self.said) == self._count:
            self.heard_all.set()


class DeafServer:
    """Opens WebSockets, and reads nothing that comes on them."""

    def __init__(self) -> None:
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._let_in, "127.0.0.1", 0)
        return f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/ws"

    async def __aexit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._server.close()
        await self._server.wait_closed()

    async def _let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        writer.write(_answer(await reader.readuntil(b"\r\n\r\n")))
        await writer.drain()


def _answer(request: bytes) -> bytes:
    """The upgrade that a WebSocket's client waits for."""
    key = next(line.split(b": ")[1] for line in request.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key"))
    accept = base64.b64encode(hashlib.sha1(key + GUID.encode()).digest())
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
    )


async def test_a_connection_that_was_left_ends_although_nobody_reads_at_its_other_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As behind a router that forgot it: what was written stays in full buffers, and a goodbye cannot follow it."""
    monkeypatch.setattr(connections, "LEAVE_SECONDS", 0.1)
    async with DeafServer() as url, asyncio.timeout(SECONDS):
        listener = Listener(url)
        connection = connections.Connection(listener)
        await listener.is_open.wait()
        for _ in range(FRAMES):
            connection.send(LARGE)
        connection.leave(1008, "nothing was heard for too long")
        await connection.closed()
    assert listener.lost_with == [], "who left is told nothing more"


async def test_what_comes_in_pieces_is_heard_whole_and_in_its_order() -> None:
    async def speak(socket: ServerConnection) -> None:
        await socket.send("first")
        await socket.send(["in ", "two ", "pieces"])
        await socket.send("last")
        await socket.wait_closed()

    async with serve(speak, "127.0.0.1", 0) as server, asyncio.timeout(SECONDS):
        _, port = next(iter(server.sockets)).getsockname()
        listener = Attentive(f"ws://127.0.0.1:{port}/ws", 3)
        connection = connections.Connection(listener)
        await listener.heard_all.wait()
        connection.leave(1000, "")
        await connection.closed()
    assert listener.said == ["first", "in two pieces", "last"]
