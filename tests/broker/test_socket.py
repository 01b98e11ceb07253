"""A daemon's WebSocket whose peer reads no more: what is owed to it, and in which order it goes out."""

import asyncio
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from parley.broker.socket import BrokerSocket
from tests.conformance.shell.lines import KEY, UPGRADE

PING, CLOSE = b"\x89\x82\0\0\0\0hi", b"\x88\x82\0\0\0\0\x03\xe8"
PONG, CLOSED = b"\x8a\x02hi", b"\x88\x02\x03\xe8"


class Wire(asyncio.Transport):
    """Keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self._closing = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self._closing = True

    def abort(self) -> None:
        self._closing = True

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def application(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def full_socket() -> tuple[BrokerSocket, Wire]:
    """A socket whose peer has taken the answer to its upgrade, and nothing since."""
    config = uvicorn.Config(application, interface="asgi3", lifespan="off", log_config=None, ws_ping_interval=None)
    config.load()
    socket, wire = BrokerSocket(config, ServerState(), []), Wire()
    socket.connection_made(wire)
    socket.data_received(b"GET /ws HTTP/1.1\r\nHost: x\r\n" + "\r\n".join((*UPGRADE, KEY, "", "")).encode())
    async with asyncio.timeout(60):
        while not wire.written.endswith(b"\r\n\r\n"):  # noqa: ASYNC110 - nothing tells of what is written
            await asyncio.sleep(0)
    wire.written = b""
    socket.pause_writing()
    return socket, wire


async def test_the_newest_pong_goes_out_when_there_is_room_again() -> None:
    socket, wire = await full_socket()
    socket.data_received(PING * 3)
    assert wire.written == b""
    socket.resume_writing()
    assert wire.written == PONG


@pytest.mark.parametrize("reads", [(PING + CLOSE,), (PING, CLOSE)], ids=["at once", "one after the other"])
async def test_the_end_is_told_and_nothing_after_it(reads: tuple[bytes, ...]) -> None:
    socket, wire = await full_socket()
    for each in reads:
        socket.data_received(each)
    socket.resume_writing()
    assert wire.written in (CLOSED, PONG + CLOSED)
