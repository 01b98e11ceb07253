"""HTTP on a socket: uvicorn parses, and an answer goes out as one write.

ASGI sends an answer in two messages and so, in uvicorn, in two writes to the socket with every header checked on the
way. Our answers are whole and their headers our own, so ``Shell.respond`` makes the bytes and this class writes them:
one system call per answer, and a third of the time that uvicorn's own way takes.
"""

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from parley.core.errors import InvalidInput
from parley.hub.http.shell import Response, Shell
from parley.serve import SECURITY_HEADERS
from parley.wire.answers import error_body
from parley.workspace.log import encode_json

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class HubHttpProtocol(HttpToolsProtocol):
    """One HTTP connection."""

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if isinstance(app, Shell):
            task = self.loop.create_task(self._respond(cycle, app))
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)
        else:
            super()._start_asgi_task(cycle, app)

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP gets the same shape of error as everything else."""
        body = encode_json(error_body(InvalidInput(msg)))
        headers = [(b"content-type", b"application/json"), (b"connection", b"close"), *SECURITY_HEADERS]
        self.transport.write(render(Response(400, headers, body)))
        self.transport.close()

    async def _respond(self, cycle: RequestResponseCycle, shell: Shell) -> None:
        try:
            response = await shell.respond(cycle.scope, cycle.receive)
            data = render(response, close=not cycle.keep_alive, head=cycle.scope["method"] == "HEAD")
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


def render(response: Response, *, close: bool = False, head: bool = False) -> bytes:
    """The answer as bytes. To HEAD the length is told but the body not sent: the client takes none off the line."""
    headers = [b"%b: %b\r\n" % header for header in response.headers]
    return b"".join(
        (
            _STATUS_LINES[response.status],
            *headers,
            b"connection: close\r\ncontent-length: " if close else b"content-length: ",
            str(len(response.body)).encode(),
            b"\r\n\r\n",
            b"" if head else response.body,
        )
    )
