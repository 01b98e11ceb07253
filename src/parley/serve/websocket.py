"""A WebSocket on a connection that the shell has let in: the handshake, messages of a bounded size, and one end.

``websockets`` parses what comes. What goes out is written straight to the transport, so that the same bytes can go to
many sockets. What is said is the server's: it answers to ``heard``, and ends with ``close``.

A peer cannot make a socket hold much. The fragments of a message are put together as they come, so their number costs
nothing, and a peer that takes no answers to its pings is owed the newest alone.

After the close frame nothing more is said. What still comes is read for a moment and dropped: a close that leaves it
unread would reset the connection, and the peer might never see why it was closed.
"""

import asyncio
import logging
import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final, cast

from structlog.typing import FilteringBoundLogger
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from parley.core.errors import InvalidInput
from parley.serve.connections import Connections
from parley.serve.door import Visit
from parley.serve.security_headers import HeaderList, head_lines

CLOSE_SECONDS: Final = 5.0
"""How long a closing connection may take to send what is in its buffer, and its peer to end it, too."""
TURN_BYTES: Final = 16 * 1024
"""How much of what one peer says is heard before the others have their turn: some thousand frames, if they are empty.
A transport would hand over megabytes at once."""
CLOSE_REASON_BYTES_MAX: Final = 123
"""What fits a close frame beside its code (RFC 6455)."""

_library_log = logging.getLogger("parley.websockets")
_library_log.setLevel(logging.WARNING)  # it tells of every connection; the metrics do, too


class _Protocol(ServerProtocol):
    """The library's protocol with our words: its own tell a peer sizes in a form that changes with its version."""

    def fail(self, code: CloseCode | int, reason: str = "") -> None:
        super().fail(code, "Message too large" if code == CloseCode.MESSAGE_TOO_BIG else reason)


class WebSocket(asyncio.Protocol, ABC):
    """One connection. A server of ours says in a subclass what it hears and when it speaks."""

    write_buffer_bytes: ClassVar[int] = 64 * 1024
    """The transport's high-water mark: above it the socket is full."""

    def __init__(
        self,
        visit: Visit,
        connections: Connections,
        headers: HeaderList,
        log: FilteringBoundLogger,
        *,
        message_bytes_max: int,
    ) -> None:
        """``headers`` go with the answer to the upgrade, as with every answer of the shell."""
        self._request_id = visit.request_id
        self._connections = connections
        self._headers = (*headers, (b"x-request-id", visit.request_id.encode()))
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._protocol = _Protocol(max_size=message_bytes_max, logger=_library_log)
        self._transport: asyncio.Transport | None = None
        self._unread = b""
        self._message = bytearray()
        self._is_text = False
        self._late_pong = b""
        self._is_over = False
        self._abort_timer: asyncio.TimerHandle | None = None
        self.is_open = False
        """Whether it was opened and has not ended."""
        self.is_full = False
        """Whether the peer has to take what was written before it gets more."""

    # What the server answers to.

    @abstractmethod
    def opened(self) -> None:
        """The upgrade was answered."""

    @abstractmethod
    def heard(self, message: bytes) -> None:
        """A whole message came."""

    @abstractmethod
    def ended(self, code: int) -> None:
        """It was opened and is over, with this close code. Nothing is heard any more, and nothing can be said."""

    def ponged(self) -> None:
        """A pong came."""

    def filled(self) -> None:
        """The socket is full."""

    def drained(self) -> None:
        """The socket is no longer full."""

    # What the server asks for.

    def write(self, data: bytes) -> None:
        """Sends whole frames."""
        if self.is_open and self._transport is not None:
            self._transport.write(data)

    def ping(self) -> None:
        """Asks the peer for a pong."""
        self._protocol.send_ping(b"")
        self._flush()

    def close(self, code: int, reason: str) -> None:
        """Says goodbye with a close code; what was written before still goes out."""
        if self.is_open and self._protocol.state is State.OPEN:
            self._protocol.send_close(code, reason.encode()[:CLOSE_REASON_BYTES_MAX].decode(errors="ignore"))
            self._flush()
            self._finish()

    def abort(self) -> None:
        """Ends the connection without another word."""
        if self._transport is not None:
            self._transport.abort()

    def shutdown(self) -> None:
        """The server stops."""
        self.close(1001, "Server shutting down")
        if self._transport is not None:
            self._transport.close()

    # What the transport says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self.write_buffer_bytes)
        cast("set[Any]", self._connections.connections).add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None  # uvloop raises for whatever is asked of a transport that is gone
        self._connections.leave(self)
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        self._end()

    def data_received(self, data: bytes) -> None:
        if self._unread:  # of what the transport had taken off the line before it was paused
            self._unread += data
            return
        self._unread = data
        if len(data) > TURN_BYTES and self._transport is not None:
            self._transport.pause_reading()
        self._take_turn()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.is_full = True
        self.filled()

    def resume_writing(self) -> None:
        self.is_full = False
        self._flush()
        self.drained()

    def _take_turn(self) -> None:
        """Hears some of what came, and the rest once everybody else had a turn."""
        data, self._unread = self._unread[:TURN_BYTES], self._unread[TURN_BYTES:]
        try:
            self._receive(data)
        except Exception as fault:
            self._log.error("socket_failed", request_id=self._request_id, exc_info=fault)
            self.close(CloseCode.INTERNAL_ERROR, "Internal error")
        if self._transport is None:
            self._unread = b""
        elif self._unread:
            self._loop.call_soon(self._take_turn)
        elif not self._transport.is_reading():
            self._transport.resume_reading()

    def _receive(self, data: bytes) -> None:
        protocol = self._protocol
        protocol.receive_data(data)
        for event in protocol.events_received():
            if isinstance(event, Request):
                self._accept(event)
            elif isinstance(event, Frame) and self.is_open:
                self._take_frame(event)
        self._flush()
        if protocol.state is not State.OPEN and self.is_open:
            self._finish()
        if protocol.close_rcvd is not None and self._transport is not None:  # both have said it
            self._transport.close()

    def _accept(self, request: Request) -> None:
        """Says yes: whether this caller is let in was decided before."""
        response = self._protocol.accept(request)
        for name, value in self._headers:
            response.headers[name.decode()] = value.decode()
        self._protocol.send_response(response)
        self._flush()
        self.is_open = True
        self.opened()

    def _take_frame(self, received: Frame) -> None:
        if received.opcode is Opcode.PONG:
            self.ponged()
        elif received.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            if received.opcode is not Opcode.CONT:
                self._is_text = received.opcode is Opcode.TEXT
            self._message += received.data
            if received.fin:
                message = bytes(self._message)
                self._message.clear()
                if self._is_text and not _is_utf8(message):
                    self.close(CloseCode.INVALID_DATA, "Text that is not UTF-8")
                else:
                    self.heard(message)

    def _flush(self) -> None:
        """Writes what the protocol has to say by itself: the answer to the upgrade, pings, pongs and the end."""
        owed = self._protocol.data_to_send()
        if self._transport is None or self._is_over:
            return
        is_open = self._protocol.state is State.OPEN
        if self._late_pong and is_open and not self.is_full:
            self._transport.write(self._late_pong)
            self._late_pong = b""
        for data in owed:
            if self.is_full and is_open:  # then it is a pong, and whoever takes none is owed the newest alone
                self._late_pong = data
            elif data:
                self._transport.write(data)

    def _finish(self) -> None:
        """The close frame is on its way. Its peer may end the connection now, and has to after a while."""
        self._is_over = True
        if self._transport is not None:
            self._connections.waiting[self] = None
            half_close(self._transport)
            self._abort_timer = self._loop.call_later(CLOSE_SECONDS, self.abort)
        self._end()

    def _end(self) -> None:
        was_open, self.is_open = self.is_open, False
        if was_open:
            sent, received = self._protocol.close_sent, self._protocol.close_rcvd
            said = sent or received
            self.ended(int(CloseCode.ABNORMAL_CLOSURE if said is None else said.code))


def half_close(transport: asyncio.WriteTransport) -> None:
    """Tells the peer that nothing more comes, where that can be told."""
    with suppress(OSError):  # the peer may be gone
        if transport.can_write_eof():
            transport.write_eof()


def text_frame(text: bytes) -> bytes:
    """A text frame as a server sends it: whole and unmasked."""
    return frame_header(len(text)) + text


def frame_header(length: int) -> bytes:
    """The header of such a frame."""
    if length < 126:
        return bytes((0x81, length))
    if length < 65_536:
        return struct.pack("!BBH", 0x81, 126, length)
    return struct.pack("!BBQ", 0x81, 127, length)


def upgrade_head(scope: Mapping[str, Any]) -> bytes:
    """The head of a request to upgrade, as it is handed to the protocol of the WebSocket."""
    return b"GET %b HTTP/1.1\r\n%b\r\n" % (scope["raw_path"], head_lines(scope["headers"]))


def check_handshake(scope: Mapping[str, Any]) -> None:
    """Raises ``InvalidInput`` for an upgrade that the library would refuse in words and headers of its own."""
    judge = ServerProtocol()
    judge.receive_data(upgrade_head(scope))
    for request in judge.events_received():
        judge.accept(cast("Request", request))
    if judge.handshake_exc is not None:
        raise InvalidInput(f"This is not a valid upgrade to a WebSocket: {judge.handshake_exc}")


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
