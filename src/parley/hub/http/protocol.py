"""HTTP on a socket: uvicorn parses, and an answer goes out as one write.

ASGI sends an answer in two messages and so, in uvicorn, in two writes to the socket with every header checked on the
way. Our answers are whole and their headers our own, so ``Shell.respond`` makes the bytes and this class writes them:
one system call per answer, and a third of the time that uvicorn's own way takes.

A request is heard before its token is known, so a stranger must not be able to use up the hub with one: the head of a
request has a largest size, and a connection that falls silent in the middle of a request is closed.
"""

import asyncio
from http import HTTPStatus
from typing import Any, ClassVar, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from parley.core.errors import InvalidInput
from parley.hub.http.shell import NOT_MODIFIED, Response, Shell, head_lines
from parley.serve import SECURITY_HEADERS, request_id
from parley.wire.answers import error_body
from parley.workspace.log import encode_json

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}

HEAD_BYTES_MAX: Final = 128 * 1024
"""Room for the longest query that means something: a thousand ids to filter events by."""


IDLE_LOOKS: Final = 3
"""Looks at a silent connection before it is closed that waits for its next request: more than a client's minute."""


class HubHttpProtocol(HttpToolsProtocol):
    """One HTTP connection."""

    silence_seconds: ClassVar[float] = 30.0
    """A connection is looked at this often, and closed if it has said nothing since while a request is unfinished."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._head_bytes = 0
        self._heard = False
        self._silent_looks = 0
        self._look = self.loop.call_later(self.silence_seconds, self._close_if_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        self._look.cancel()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        self._look.cancel()  # a feed has deadlines of its own
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        self._heard = True
        super().data_received(data)
        if self._head_is_read():
            self._head_bytes = 0
            return
        self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def _head_is_read(self) -> bool:
        # uvicorn makes a new scope for each request and adds the method once its last header was parsed.
        return bool(self.scope) and "method" in self.scope

    def _close_if_silent(self) -> None:
        unfinished = not self._head_is_read() or (self.cycle.more_body and not self.cycle.response_complete)
        self._silent_looks = 0 if self._heard else self._silent_looks + 1
        if self._silent_looks >= (1 if unfinished else IDLE_LOOKS):
            self.transport.close()
            return
        self._heard = False
        self._look = self.loop.call_later(self.silence_seconds, self._close_if_silent)

    def on_response_complete(self) -> None:
        """As uvicorn's, without a timer of its own for each answer: the look at silent connections closes idle ones."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if isinstance(app, Shell):
            task = self.loop.create_task(self._respond(cycle, app))
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)
        else:
            super()._start_asgi_task(cycle, app)

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP gets the same shape of error and the same headers as everything else."""
        body = encode_json(error_body(InvalidInput(msg)))
        headers = [(b"content-type", b"application/json"), (b"x-request-id", request_id(None).encode())]
        app = cast(Any, self).app
        common = app.common_head if isinstance(app, Shell) else head_lines(SECURITY_HEADERS)
        self.transport.write(render(Response(400, headers, body), common, close=True))
        self.transport.close()

    async def _respond(self, cycle: RequestResponseCycle, shell: Shell) -> None:
        try:
            response = await shell.respond(cycle.scope, cycle.receive)
            data = render(response, shell.common_head, close=not cycle.keep_alive, head=cycle.scope["method"] == "HEAD")
            if self.flow.write_paused and not cycle.disconnected:
                await self.flow.drain()
        except BaseException as error:
            self.transport.close()
            if not isinstance(error, asyncio.CancelledError):
                self.logger.error("A request ended without an answer", exc_info=error)
            return
        if cycle.disconnected:
            return
        self.transport.write(data)
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()


def render(response: Response, common: bytes, *, close: bool = False, head: bool = False) -> bytes:
    """The answer as bytes. To HEAD the length is told but the body not sent: the client takes none off the line."""
    return b"".join(
        (
            _STATUS_LINES[response.status],
            head_lines(response.headers),
            common,
            b"connection: close\r\ncontent-length: " if close else b"content-length: ",
            str(len(response.body)).encode(),
            b"\r\n\r\n",
            b"" if head or response.status == NOT_MODIFIED else response.body,
        )
    )
