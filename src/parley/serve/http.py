"""HTTP on a socket: uvicorn parses, and an answer goes out as one write.

ASGI sends an answer in two messages and so, in uvicorn, in two writes to the socket with every header checked on the
way. Our answers are whole and their headers our own, so a server makes the bytes and this class writes them: one
system call per answer, and a third of the time that uvicorn's own way takes.

A request is heard before its token is known, so a stranger must not be able to use up a server with one: the head of a
request has a largest size, and a connection that falls silent in the middle of a request is closed.
"""

import asyncio
from http import HTTPStatus
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

STATUS_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}

HEAD_BYTES_MAX: Final = 128 * 1024
"""Room for the longest query that means something: a thousand ids to filter events by."""

IDLE_LOOKS: Final = 3
"""Looks at a silent connection before it is closed that waits for its next request: more than a client's minute."""


class AnsweringProtocol(HttpToolsProtocol):
    """One HTTP connection. A subclass says what is answered."""

    silence_seconds: ClassVar[float] = 30.0
    """A connection is looked at this often, and closed if it has said nothing since while a request is unfinished."""

    answers: ClassVar[type]
    """The applications whose answers are made here; any other is served as uvicorn serves it."""

    async def answer(self, cycle: RequestResponseCycle, app: Any) -> bytes | None:
        """The whole answer to a request; None when it has been sent already, as a stream is."""
        raise NotImplementedError

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
        read = self._head_is_read()
        if self._heard or (read and not self.cycle.more_body and not self.cycle.response_complete):
            self._silent_looks = 0  # whoever waits for an answer, or follows a stream, has nothing to say
        else:
            self._silent_looks += 1
        unfinished = not read or (self.cycle.more_body and not self.cycle.response_complete)
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
        if not isinstance(app, self.answers):
            super()._start_asgi_task(cycle, app)
            return
        task = self.loop.create_task(self._respond(cycle, app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    async def _respond(self, cycle: RequestResponseCycle, app: Any) -> None:
        try:
            data = await self.answer(cycle, app)
            if data is not None and self.flow.write_paused and not cycle.disconnected:
                await self.flow.drain()
        except BaseException as error:
            self.transport.close()
            if not isinstance(error, asyncio.CancelledError):
                self.logger.error("A request ended without an answer", exc_info=error)
            return
        if data is None or cycle.disconnected:
            return
        self.transport.write(data)
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()


def whole_answer(status: int, head: bytes, body: bytes, *, close: bool = False, bodiless: bool = False) -> bytes:
    """An answer as bytes. One without a body tells its length all the same: a client takes none off the line."""
    return b"".join(
        (
            STATUS_LINES[status],
            head,
            b"connection: close\r\ncontent-length: " if close else b"content-length: ",
            str(len(body)).encode(),
            b"\r\n\r\n",
            b"" if bodiless else body,
        )
    )
