"""HTTP on a hub's socket: ``Shell.respond`` makes an answer, and it goes out as one write."""

from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from parley.core.errors import InvalidInput
from parley.hub.http.shell import NOT_MODIFIED, Response, Shell
from parley.serve import SECURITY_HEADERS, head_lines, request_id
from parley.serve.http import AnsweringProtocol, whole_answer
from parley.wire.answers import error_body
from parley.workspace.log import encode_json


class HubHttpProtocol(AnsweringProtocol):
    """One HTTP connection."""

    answers = Shell

    async def answer(self, cycle: RequestResponseCycle, app: Shell) -> bytes:
        response = await app.respond(cycle.scope, cycle.receive)
        return render(response, app.common_head, close=not cycle.keep_alive, head=cycle.scope["method"] == "HEAD")

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP gets the same shape of error and the same headers as everything else."""
        body = encode_json(error_body(InvalidInput(msg)))
        headers = [(b"content-type", b"application/json"), (b"x-request-id", request_id(None).encode())]
        app = cast(Any, self).app
        common = app.common_head if isinstance(app, Shell) else head_lines(SECURITY_HEADERS)
        self.transport.write(render(Response(400, headers, body), common, close=True))
        self.transport.close()


def render(response: Response, common: bytes, *, close: bool = False, head: bool = False) -> bytes:
    """The answer as bytes."""
    bodiless = head or response.status == NOT_MODIFIED
    return whole_answer(
        response.status, head_lines(response.headers) + common, response.body, close=close, bodiless=bodiless
    )
