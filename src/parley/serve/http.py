"""HTTP on a socket: uvicorn parses, and an answer goes out as one write.

ASGI sends an answer in two messages and so, in uvicorn, in two writes to the socket with every header checked on the
way. Our answers are whole and their headers our own, so the shell makes the bytes and this class writes them: one
system call per answer, and a third of the time that uvicorn's own way takes.

A request is heard before its token is known, so a stranger must not be able to use up a server with one. The head of a
request has a largest size, and so has the number of requests that wait for their answers on a connection. A connection
must get on with what it began: a sender in the middle of a request that falls silent, or sends so little that it could
take for ever, is cut off, and so is a reader that does not take its answer. Where there are too many connections, the
one whose caller has been waited for longest makes room.

Answers leave in the order of the requests, refusals included: of two that change places, each would be taken for the
other's.
"""

import asyncio
from collections import deque
from http import HTTPStatus
from typing import Any, ClassVar, Final, cast
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from parley.core.errors import InvalidInput
from parley.serve.connections import Connections
from parley.serve.security_headers import head_lines
from parley.serve.shell import NOT_MODIFIED, Response, Shell
from parley.serve.websocket import half_close, upgrade_head

STATUS_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}

HEAD_BYTES_MAX: Final = 128 * 1024
"""Room for the longest query that means something: a thousand ids to filter events by."""
HEADERS_MAX: Final = 128
"""Several times what browsers and proxies send; each costs far more memory than the four bytes that one can have."""
PIPELINED_MAX: Final = 64
"""Requests that may wait behind the one that is being answered; hardly any client sends even one."""
IDLE_LOOKS: Final = 3
"""Looks at a silent connection before it is closed that waits for its next request: more than a client's minute."""
PROGRESS_BYTES_MIN: Final = 16 * 1024
"""What must come, or be taken, between two looks at a connection that is in the middle of a request or an answer."""
LINGER_SECONDS: Final = 2.0
"""How long a refused sender is listened to before its connection is closed."""
_NO_HTTP: Final = "Invalid HTTP request received."
_TOO_MANY_HEADERS: Final = "The request has too many headers."
_HEAD_TOO_LARGE: Final = "The head of the request is too large."
_BODY_TOO_THIN: Final = "The body of the request is nearly all framing."
_HEADER_EXTRA_BYTES: Final = 4
"""A colon, a blank and the end of the line."""


class _Nowhere(list[tuple[bytes, bytes]]):
    """Where headers go that nobody reads."""

    def append(self, _: tuple[bytes, bytes]) -> None:
        """Keeps none."""


_NOWHERE: Final = _Nowhere()


class HttpConnection(HttpToolsProtocol):
    """One HTTP connection to a shell."""

    silence_seconds: ClassVar[float] = 30.0
    """A connection is looked at this often, and closed if it has not got on with what it began."""

    server_state: Connections
    parser: httptools.HttpRequestParser  # pyright: ignore[reportIncompatibleVariableOverride]
    cycle: RequestResponseCycle | None  # pyright: ignore[reportIncompatibleVariableOverride]
    """The newest request, which has a body, an answer, both or neither yet; None before the first."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._shell = cast("Shell[Any]", cast("Any", self).app)
        super().on_message_begin()
        self._common_scope, self.scope = self.scope, cast("Any", None)
        self._complaint, self._refused = "", False
        self._last_word: Response | None = None
        self._answering: RequestResponseCycle | None = None
        self._queued: deque[RequestResponseCycle] = deque()
        self._head_bytes = self._read_bytes = self._heard_bytes = self._framing_bytes = self._unsent_bytes = 0
        self._is_first, self._in_message = True, False
        self._silent_looks = 0
        self._unfinished: object | None = None
        self._look = self.loop.call_later(self.silence_seconds, self._close_if_stuck)
        self.server_state.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._look.cancel()
        self.server_state.leave(self)
        if self._answering is not None:  # uvicorn tells only the newest of several requests
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)

    def abort(self) -> None:
        self.transport.abort()

    def eof_received(self) -> None:
        if self._refused:
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.server_state.waiting[self] = None

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unsent_bytes = 0
        if self._answering is not None and not self._answering.more_body:
            self.server_state.waiting.pop(self, None)

    def data_received(self, data: bytes) -> None:
        while data and not self._refused:
            data = self._parse(data)

    def _parse(self, data: bytes) -> bytes:
        """What is left of the data after a request to upgrade that is answered like any other."""
        rest = b""
        self._is_first = not self._in_message
        self._read_bytes = len(data)
        self._heard_bytes += self._read_bytes
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
            if self._should_upgrade():
                self._upgrade(rest)
                return b""
        except httptools.HttpParserError:
            self.send_400_response(_NO_HTTP)
            return b""
        if self._in_message:
            self._bound_framing()
        return rest

    def _bound_framing(self) -> None:
        """Refuses what goes on for ever without becoming a head, or a body."""
        if not self._head_is_read():
            self._head_bytes += self._read_bytes
            if self._head_bytes > HEAD_BYTES_MAX:
                self.send_400_response(_HEAD_TOO_LARGE)
            elif len(self.headers) > HEADERS_MAX:
                self.send_400_response(_TOO_MANY_HEADERS)
        elif self._open_body() is not None:
            self._framing_bytes += self._read_bytes
            if self._framing_bytes > HEAD_BYTES_MAX:
                self.send_400_response(_BODY_TOO_THIN)

    def on_message_begin(self) -> None:
        # As uvicorn's, without making anew for each request what they have in common.
        self.url, self.headers, self.expect_100_continue = b"", [], False
        self.scope = {**self._common_scope, "headers": self.headers}
        self._in_message, self._silent_looks = True, -1  # the first look after it finds that something was said
        # Of a read that another request comes first in, it is not known how much belongs to this one.
        self._head_bytes = 0 if self._is_first else -self._read_bytes
        self._is_first = False

    def on_headers_complete(self) -> None:
        """As uvicorn's, for one application at the root, with what may not pass."""
        # Only large reads hold a large head; to add up the headers of every request would cost each of them.
        read, parser, scope = self._read_bytes, self.parser, self.scope
        if (read > HEAD_BYTES_MAX or read + self._head_bytes > HEAD_BYTES_MAX) and self._head_size() > HEAD_BYTES_MAX:
            self._complain(_HEAD_TOO_LARGE)
        if len(self.headers) > HEADERS_MAX:
            self._complain(_TOO_MANY_HEADERS)
        if self.url[:1] != b"/":
            self._check_target()
        if len(self._queued) >= PIPELINED_MAX:
            self._complain("Too many requests wait for their answers on this connection.")
        version = parser.get_http_version()
        scope["method"] = parser.get_method().decode("ascii")
        if version != "1.1":
            scope["http_version"] = version
        if parser.should_upgrade():
            if self._has_body():  # the parser would take the body for the next request
                self._complain("A request to upgrade must not have a body.")
            if self._should_upgrade():
                return
        self._framing_bytes = -read
        url = httptools.parse_url(self.url)
        scope["raw_path"] = raw_path = url.path
        scope["path"] = unquote(raw_path.decode("ascii")) if b"%" in raw_path else raw_path.decode("ascii")
        scope["query_string"] = url.query or b""
        before = self.cycle
        cycle = RequestResponseCycle(
            scope,
            self.transport,
            self.flow,
            self.logger,
            self.access_logger,
            access_log=False,
            default_headers=[],
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue and version == "1.1",
            keep_alive=version != "1.0" and parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        self.cycle = cycle  # pyright: ignore[reportIncompatibleVariableOverride]
        self.headers = _NOWHERE  # trailers come after the body and decide nothing
        if before is None or before.response_complete:
            self._start(cycle)
        else:
            self.flow.pause_reading()
            self._queued.appendleft(cycle)

    def on_body(self, body: bytes) -> None:
        self._framing_bytes = -self._read_bytes
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        self._in_message = False
        cycle = self.cycle
        if cycle is None or not cycle.more_body:
            return
        cycle.more_body = False
        cycle.message_event.set()
        if cycle is self._answering:
            self.server_state.waiting.pop(self, None)

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP gets the same shape of error and the same headers as everything else."""
        self._refuse(self._shell.refused(InvalidInput(self._complaint or msg)))

    def _should_upgrade_to_ws(self) -> bool:
        return bool(self._shell.upgrades)

    def _upgrade(self, rest: bytes) -> None:
        """Lets the shell decide, and hands the connection over with the request that began it."""
        if self._answering is not None or self._queued:
            self.send_400_response("An upgrade must wait for the answers to what was asked before it.")
            return
        if rest:
            self.send_400_response("What follows an upgrade must wait for its answer.")
            return
        if self.flow.write_paused:  # whoever takes the connection over would not be told that its socket is full
            self.send_400_response("An upgrade must wait until the answers before it have been taken.")
            return
        try:
            url = httptools.parse_url(self.url)
        except httptools.HttpParserInvalidURLError:
            self.send_400_response(_NO_HTTP)
            return
        path, query = (url.path or b"").decode("latin-1"), url.query or b""
        scope = {**self.scope, "path": path, "query_string": query, "raw_path": self.url}
        opened = self._shell.open_socket(scope, self.server_state)
        if isinstance(opened, Response):
            self._refuse(opened)
            return
        self._look.cancel()  # a socket has deadlines of its own
        self.server_state.leave(self)
        opened.connection_made(self.transport)
        opened.data_received(upgrade_head(scope))
        self.transport.set_protocol(opened)

    def on_response_complete(self) -> None:
        """As uvicorn's, without a timer of its own for each answer: the look at stuck connections closes idle ones."""
        self._answering = None
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self._queued:
            self.server_state.waiting[self] = None
            self.loop.call_soon(self._take_next)
        elif self._last_word is not None:
            self._end_with(self._last_word)
        else:
            self.flow.resume_reading()
            self.server_state.waiting[self] = None

    def _take_next(self) -> None:
        """One request of a connection at a time, and in between whoever is new may come first."""
        if not self.transport.is_closing():
            self._start(self._queued.pop())

    def _start(self, cycle: RequestResponseCycle) -> None:
        self._answering = cycle
        if not cycle.more_body:
            self.server_state.waiting.pop(self, None)
        self.tasks.add(self.loop.create_task(self._respond(cycle)))

    async def _respond(self, cycle: RequestResponseCycle) -> None:
        try:
            body = None if cycle.more_body or cycle.disconnected else bytes(cycle.body)
            response = await self._shell.respond(cycle.scope, cycle.receive, body)
            if self.flow.write_paused and not cycle.disconnected:
                self.server_state.waiting[self] = None
                await self.flow.drain()
            if response.streaming is not None:
                await cycle.run_asgi(cast("Any", response.streaming))
            elif not cycle.disconnected:
                self._write(cycle, response)
        except BaseException as error:
            self.transport.close()
            if not isinstance(error, asyncio.CancelledError):
                self.logger.error("A request ended without an answer", exc_info=error)
        finally:
            self.tasks.discard(asyncio.current_task())  # pyright: ignore[reportArgumentType]

    def _write(self, cycle: RequestResponseCycle, response: Response) -> None:
        if cycle.waiting_for_100_continue and cycle.more_body:
            cycle.keep_alive = False  # its sender may leave the body out: what comes next could be either
        bodiless = cycle.scope["method"] == "HEAD"
        self.transport.write(rendered(response, self._shell.common_head, close=not cycle.keep_alive, bodiless=bodiless))
        cycle.response_started = cycle.response_complete = True
        if not cycle.keep_alive:
            self._linger() if cycle.more_body else self.transport.close()
        self.on_response_complete()

    def _complain(self, complaint: str) -> None:
        """Ends the parser, which refuses the request."""
        self._complaint = complaint
        raise ValueError(complaint)

    def _check_target(self) -> None:
        """A request may name the whole address instead of a path: then it must be that of ``Host``."""
        authority = self.url.partition(b"://")[2].partition(b"/")[0]
        if self.url != b"*" and dict(self.headers).get(b"host", b"").lower() != authority.lower():
            self._complain("The target of the request names another host than its Host header.")

    def _has_body(self) -> bool:
        return any(
            name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
            for name, value in self.headers
        )

    def _refuse(self, response: Response) -> None:
        """The last word on this connection, in its turn: after the answers to what was asked before."""
        self._refused = True
        self.headers.clear()
        cycle = self._open_body()
        if cycle is not None:  # it is the request whose body was not understood
            if cycle.response_started:
                self._linger() if cycle.response_complete else self.transport.abort()
                return
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle is self._answering:
                self._answering = None
            else:
                self._queued.popleft()
        if self._answering is None and not self._queued:
            self._end_with(response)
        else:
            self._last_word = response

    def _end_with(self, response: Response) -> None:
        self.transport.write(rendered(response, self._shell.common_head, close=True))
        self._linger()

    def _linger(self) -> None:
        """Says nothing more. What is still on its way is read for a moment: a close that leaves it unread would reset
        the connection, and the sender might never see why."""
        self._refused = True
        self.server_state.waiting[self] = None
        self.flow.resume_reading()
        half_close(self.transport)
        self._look.cancel()
        self._look = self.loop.call_later(LINGER_SECONDS, self._close)

    def _close(self) -> None:
        self.transport.close()
        self._look = self.loop.call_later(self.silence_seconds, self._close_if_stuck)

    def _head_is_read(self) -> bool:
        # uvicorn makes a new scope for each request and adds the method once its last header was parsed.
        return bool(self.scope) and "method" in self.scope

    def _open_body(self) -> RequestResponseCycle | None:
        """The newest request, if its body is not whole."""
        return self.cycle if self.cycle is not None and self.cycle.more_body else None

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + _HEADER_EXTRA_BYTES for name, value in self.headers)

    def _close_if_stuck(self) -> None:
        if not (self._reader_is_stuck() or self._sender_is_stuck()):
            self._look = self.loop.call_later(self.silence_seconds, self._close_if_stuck)
        elif self.transport.get_write_buffer_size():
            self.transport.abort()  # a close would wait for the reader
        else:
            self.transport.close()

    def _reader_is_stuck(self) -> bool:
        """While writing is paused nothing is added to what was not sent: it must get less."""
        waits = self.flow.write_paused or self.transport.is_closing()
        before, now = self._unsent_bytes, self.transport.get_write_buffer_size() if waits else 0
        self._unsent_bytes = now
        return before > 0 and now > 0 and before - now < PROGRESS_BYTES_MIN

    def _sender_is_stuck(self) -> bool:
        if self._refused or self.transport.is_closing():
            return False
        heard, self._heard_bytes = self._heard_bytes, 0
        before, self._unfinished = self._unfinished, self._unfinished_request()
        if self._unfinished is None:
            is_busy = self._answering is not None or self._queued
            self._silent_looks = 0 if is_busy else self._silent_looks + 1
            return self._silent_looks >= IDLE_LOOKS
        in_vain = isinstance(self._unfinished, RequestResponseCycle) and self._unfinished.response_complete
        return not heard or (self._unfinished is before and (heard < PROGRESS_BYTES_MIN or in_vain))

    def _unfinished_request(self) -> object | None:
        """The request that the sender has not finished, or this connection before its first; None when it may wait."""
        if not self._head_is_read():
            return self.scope or self
        return None if self.flow.read_paused else self._open_body()


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
