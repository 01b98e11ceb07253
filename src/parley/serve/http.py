"""HTTP on a socket: uvicorn parses, and an answer goes out as one write.

ASGI sends an answer in two messages and so, in uvicorn, in two writes to the socket with every header checked on the
way. Our answers are whole and their headers our own, so the shell makes the bytes and this class writes them: one
system call per answer, and a third of the time that uvicorn's own way takes.

A request is heard before its token is known, so a stranger must not be able to use up a server with one. The head of a
request has a largest size. A connection that is in the middle of a request must go on with it: one that falls silent,
or sends so little that it could take for ever, is closed. Where there are too many connections, the one that has waited
longest for its next request makes room.
"""

import asyncio
from collections import OrderedDict
from http import HTTPStatus
from typing import Any, ClassVar, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from parley.core.errors import InvalidInput
from parley.serve.security_headers import head_lines
from parley.serve.shell import NOT_MODIFIED, Response, Shell

STATUS_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}

HEAD_BYTES_MAX: Final = 128 * 1024
"""Room for the longest query that means something: a thousand ids to filter events by."""
IDLE_LOOKS: Final = 3
"""Looks at a silent connection before it is closed that waits for its next request: more than a client's minute."""
PROGRESS_BYTES_MIN: Final = 16 * 1024
"""What must come between two looks at a connection that is in the middle of a request."""
LINGER_SECONDS: Final = 2.0
"""How long a refused sender is listened to before its connection is closed."""
_HEAD_TOO_LARGE: Final = "The head of the request is too large."
_HEADER_EXTRA_BYTES: Final = 4
"""A colon, a blank and the end of the line."""


class Connections(ServerState):
    """The connections of a server, those that wait for a request in the order in which they began to."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self.waiting: OrderedDict[HttpConnection, None] = OrderedDict()

    @property
    def busy(self) -> bool:
        """Whether a connection is open or a request is being answered."""
        return bool(self.connections or self.tasks)

    def make_room(self) -> None:
        """Closes the connection that has waited longest, if there are too many."""
        if len(self.connections) > self._most and self.waiting:
            oldest, _ = self.waiting.popitem(last=False)
            oldest.transport.abort()


class HttpConnection(HttpToolsProtocol):
    """One HTTP connection to a shell."""

    silence_seconds: ClassVar[float] = 30.0
    """A connection is looked at this often, and closed if it has not got on with what it began."""

    server_state: Connections

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._shell = cast("Shell[Any]", cast("Any", self).app)
        self._complaint, self._refused = "", False
        self._head_bytes = self._read_bytes = self._heard_bytes = 0
        self._silent_looks = 0
        self._unfinished: object | None = None
        self._look = self.loop.call_later(self.silence_seconds, self._close_if_stuck)
        self.server_state.waiting[self] = None
        self.server_state.make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._look.cancel()
        self.server_state.waiting.pop(self, None)
        super().connection_lost(exc)

    def eof_received(self) -> None:
        if self._refused:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._read_bytes = len(data)
        self._heard_bytes += self._read_bytes
        super().data_received(data)
        if self._head_is_read():
            self._head_bytes = 0
            return
        self._head_bytes += self._read_bytes
        if self._head_bytes > HEAD_BYTES_MAX and not self._refused:
            self.send_400_response(_HEAD_TOO_LARGE)

    def on_headers_complete(self) -> None:
        # Only large reads hold a large head; to add up the headers of every request would cost each of them.
        if self._head_bytes + self._read_bytes > HEAD_BYTES_MAX and self._head_size() > HEAD_BYTES_MAX:
            self._complaint = _HEAD_TOO_LARGE
            raise ValueError(_HEAD_TOO_LARGE)  # ends the parser, which refuses the request
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP gets the same shape of error and the same headers as everything else."""
        self._refuse(self._shell.refused(InvalidInput(self._complaint or msg)))

    def _should_upgrade_to_ws(self) -> bool:
        return bool(self._shell.upgrades)

    def handle_websocket_upgrade(self) -> None:
        """Lets the shell decide, and hands the connection over with the request that began it."""
        url = httptools.parse_url(self.url)
        scope = {**self.scope, "path": (url.path or b"").decode("latin-1"), "query_string": url.query or b""}
        protocol = self._shell.open_socket(scope, self)
        if isinstance(protocol, Response):
            self._refuse(protocol)
            return
        self._look.cancel()  # a feed has deadlines of its own
        self.server_state.waiting.pop(self, None)
        self.connections.discard(self)
        method, headers = self.scope["method"].encode(), head_lines(self.scope["headers"])
        protocol.connection_made(self.transport)
        protocol.data_received(b"%b %b HTTP/1.1\r\n%b\r\n" % (method, self.url, headers))
        self.transport.set_protocol(protocol)

    def on_response_complete(self) -> None:
        """As uvicorn's, without a timer of its own for each answer: the look at stuck connections closes idle ones."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self.server_state.waiting[self] = None

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.server_state.waiting.pop(self, None)
        task = self.loop.create_task(self._respond(cycle))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    async def _respond(self, cycle: RequestResponseCycle) -> None:
        try:
            response = await self._shell.respond(cycle.scope, cycle.receive)
            if response.streaming is not None:
                await cycle.run_asgi(cast("Any", response.streaming))
                return
            if self.flow.write_paused and not cycle.disconnected:
                await self.flow.drain()
        except BaseException as error:
            self.transport.close()
            if not isinstance(error, asyncio.CancelledError):
                self.logger.error("A request ended without an answer", exc_info=error)
            return
        if cycle.disconnected:
            return
        bodiless = cycle.scope["method"] == "HEAD"
        self.transport.write(rendered(response, self._shell.common_head, close=not cycle.keep_alive, bodiless=bodiless))
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _refuse(self, response: Response) -> None:
        """The last word on this connection. What is still on its way is read for a moment: a close that leaves it
        unread would reset the connection, and the sender might never see why."""
        self._refused = True
        self.transport.write(rendered(response, self._shell.common_head, close=True))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._look.cancel()
        self._look = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _head_is_read(self) -> bool:
        # uvicorn makes a new scope for each request and adds the method once its last header was parsed.
        return bool(self.scope) and "method" in self.scope

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + _HEADER_EXTRA_BYTES for name, value in self.headers)

    def _close_if_stuck(self) -> None:
        heard, self._heard_bytes = self._heard_bytes, 0
        before, self._unfinished = self._unfinished, self._unfinished_request()
        if self._unfinished is not None:
            stuck = not heard or (self._unfinished is before and heard < PROGRESS_BYTES_MIN)
        else:
            answering = not self.cycle.response_complete
            self._silent_looks = 0 if heard or answering else self._silent_looks + 1
            stuck = self._silent_looks >= IDLE_LOOKS
        if stuck:
            self.transport.close()
            return
        self._look = self.loop.call_later(self.silence_seconds, self._close_if_stuck)

    def _unfinished_request(self) -> object | None:
        """The request that the sender has not finished, or this connection before its first; None when it may wait."""
        if not self._head_is_read():
            return self.scope or self
        waits_for_body = self.cycle.more_body and not self.cycle.response_complete and not self.flow.read_paused
        return self.cycle if waits_for_body else None


def rendered(response: Response, common: bytes, *, close: bool = False, bodiless: bool = False) -> bytes:
    """An answer as bytes. One without a body tells its length all the same: a client takes none off the line."""
    status, headers, body, _ = response
    return b"".join(
        (
            STATUS_LINES[status],
            head_lines(headers),
            common,
            b"connection: close\r\ncontent-length: " if close else b"content-length: ",
            str(len(body)).encode(),
            b"\r\n\r\n",
            b"" if bodiless or status == NOT_MODIFIED else body,
        )
    )
