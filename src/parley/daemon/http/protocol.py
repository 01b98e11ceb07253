"""HTTP on a daemon's socket: ``Api.respond`` makes an answer, and it goes out as one write. A stream goes out as it
comes."""

from typing import Any, cast

import msgspec
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from parley.core.errors import InvalidInput
from parley.daemon.http.shell import ANSWER_HEAD, Api, Finished
from parley.serve.http import AnsweringProtocol, whole_answer
from parley.wire.answers import error_body


class DaemonHttpProtocol(AnsweringProtocol):
    """One HTTP connection."""

    answers = Api

    async def answer(self, cycle: RequestResponseCycle, app: Api) -> bytes | None:
        response = await app.respond(cast("Any", cycle.scope), cast("Any", cycle.receive))
        if not isinstance(response, Finished):
            await cycle.run_asgi(cast("Any", response))
            return None
        bodiless = cycle.scope["method"] == "HEAD"
        close = not cycle.keep_alive
        return whole_answer(response.status_code, response.head, response.body, close=close, bodiless=bodiless)

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP gets the same shape of error and the same headers as everything else."""
        body = msgspec.json.encode(error_body(InvalidInput(msg)))
        self.transport.write(whole_answer(400, ANSWER_HEAD, body, close=True))
        self.transport.close()
