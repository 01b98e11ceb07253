"""A WebSocket without a network: what is kept for its peer, and in which order what is owed to it goes out."""

import asyncio
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs
from structlog.typing import FilteringBoundLogger

from parley.serve.connections import Connections
from parley.serve.door import Visit
from parley.serve.websocket import TURN_BYTES, WebSocket, upgrade_head
from tests.conformance.shell.lines import KEY, UPGRADE

PING, CLOSE = b"\x89\x82\0\0\0\0hi", b"\x88\x82\0\0\0\0\x03\xe8"
PONG, CLOSED = b"\x8a\x02hi", b"\x88\x02\x03\xe8"
BEGINNING, NOTHING_MORE, END = b"\x01\x82\0\0\0\0hi", b"\x00\x80\0\0\0\0", b"\x80\x81\0\0\0\0!"


class Wire(asyncio.Transport):
    """Keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_ended = self.is_paused = False
        self._closing = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.is_ended = True

    def is_reading(self) -> bool:
        return not self.is_paused

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        self._closing = True

    def abort(self) -> None:
        self._closing = True

    def is_closing(self) -> bool:
        return self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...


class Socket(WebSocket):
    """Remembers what it hears."""

    def __init__(self, visit: Visit) -> None:
        logger: FilteringBoundLogger = structlog.get_logger()
        super().__init__(visit, Connections(8), [(b"x-frame-options", b"DENY")], logger, message_bytes_max=1_024)
        self.messages: list[bytes] = []
        self.code = 0
        self.on_message: Callable[[], None] = lambda: None

    def opened(self) -> None: ...

    def heard(self, message: bytes) -> None:
        self.messages.append(message)
        self.on_message()

    def ended(self, code: int) -> None:
        self.code = code


@pytest.fixture
async def socket() -> Socket:
    """A socket whose peer has taken the answer to its upgrade, and said nothing since."""
    lines = [line.lower().split(": ", 1) for line in (*UPGRADE, KEY.replace("Sec-", "sec-"), "Host: x")]
    headers = [(name.encode(), value.encode()) for name, value in lines]
    headers[3] = (b"sec-websocket-key", KEY.partition(": ")[2].encode())
    scope = {"headers": headers, "raw_path": b"/ws", "client": None}
    made = Socket(Visit(scope))
    made.connection_made(Wire())
    made.data_received(upgrade_head(scope))
    wire_of(made).written = b""
    return made


def wire_of(socket: Socket) -> Wire:
    assert isinstance(socket._transport, Wire)
    return socket._transport


async def test_the_newest_pong_goes_out_when_there_is_room_again(socket: Socket) -> None:
    socket.pause_writing()
    socket.data_received(PING * 3)
    assert wire_of(socket).written == b""
    socket.resume_writing()
    assert wire_of(socket).written == PONG


@pytest.mark.parametrize("reads", [(PING + CLOSE,), (PING, CLOSE)], ids=["at once", "one after the other"])
async def test_the_end_is_told_and_nothing_after_it(socket: Socket, reads: tuple[bytes, ...]) -> None:
    socket.pause_writing()
    for each in reads:
        socket.data_received(each)
    socket.resume_writing()
    assert wire_of(socket).written in (CLOSED, PONG + CLOSED)
    assert wire_of(socket).is_closing()
    assert socket.code == 1000


async def test_a_message_is_put_together_and_its_fragments_cost_nothing_however_many(socket: Socket) -> None:
    socket.data_received(BEGINNING + NOTHING_MORE)
    flood = NOTHING_MORE * 1_000
    tracemalloc.start()
    try:
        for _ in range(30):
            socket.data_received(flood)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 100_000
    socket.data_received(END)
    assert socket.messages == [b"hi!"]


async def test_after_its_close_a_socket_says_and_hears_nothing_and_waits_for_its_peer(socket: Socket) -> None:
    socket.close(4001, "enough")
    wire = wire_of(socket)
    said = wire.written
    assert said.endswith(b"enough")
    assert (wire.is_ended, wire.is_closing(), socket.code) == (True, False, 4001)
    socket.data_received(b"\x81\x82\0\0\0\0hi" + PING)
    socket.write(b"late")
    socket.close(1000, "again")
    assert (wire.written, socket.messages) == (said, [])
    socket.data_received(CLOSE)
    assert wire.is_closing()


async def test_a_fault_of_ours_ends_its_own_connection_and_is_logged(socket: Socket) -> None:
    def fail() -> None:
        raise RuntimeError("a secret of the inside")

    socket.on_message = fail
    with capture_logs() as logged:
        socket.data_received(b"\x81\x82\0\0\0\0hi")
    assert [entry["event"] for entry in logged] == ["socket_failed"]
    assert socket.code == 1011
    assert b"secret" not in wire_of(socket).written


async def test_a_peer_that_says_much_at_once_is_heard_in_turns(socket: Socket) -> None:
    """A transport takes megabytes off the line at once, and nobody else would be answered meanwhile."""
    said = b"\x81\x82\0\0\0\0hi"
    count = 3 * TURN_BYTES // len(said) + 1
    heard: list[int] = []
    socket.data_received(said * (count - 1))
    socket.data_received(said)
    while True:
        heard.append(len(socket.messages))
        if not wire_of(socket).is_paused:
            break
        await asyncio.sleep(0)
    assert heard == [TURN_BYTES // len(said) * turn for turn in (1, 2, 3)] + [count]
    socket.data_received(said)
    assert len(socket.messages) == count + 1
