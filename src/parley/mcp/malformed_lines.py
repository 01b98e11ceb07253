"""The lines that are messages of the protocol; whoever sent another one hears what is wrong with it.

The SDK passes over a line that it cannot read. A program that asked something in such a line, with half a surrogate
pair in a text perhaps, would wait for its answer for ever. So what the SDK would not read is answered here, under the
id of the question where one can be made out. A question whose id is neither a text nor a whole number reads as a
notification to the SDK; it is refused, too.
"""

import json
from typing import Any, Final, Self, cast

import msgspec
from mcp_types import INVALID_REQUEST, PARSE_ERROR, JSONRPCNotification, jsonrpc_message_adapter
from pydantic import ValidationError

from parley.core.untrusted_json import decode_by
from parley.mcp.wire import Incoming, Outgoing

_NO_JSON: Final = "json_invalid"
"""What the SDK's reader calls a text that is not JSON to it."""


class Understood:
    """``Incoming`` without the lines that no server can make sense of."""

    def __init__(self, incoming: Incoming, outgoing: Outgoing) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while True:
            line = await anext(self._incoming)
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValidationError as error:
                await self._refuse(line, no_json=error.errors(include_url=False)[0]["type"] == _NO_JSON)
                continue
            if not isinstance(message, JSONRPCNotification) or "id" not in _read(line):
                return line
            await self._refuse(line, no_json=False)

    async def _refuse(self, line: str, *, no_json: bool) -> None:
        answer = refusal(line, no_json=no_json)
        if answer is not None:
            await self._outgoing.write(json.dumps(answer) + "\n")
            await self._outgoing.flush()


def refusal(line: str, *, no_json: bool) -> dict[str, Any] | None:
    """The answer to a line that is no message; None where nobody waits for one.

    Nobody does after an empty line, or after an answer: to refuse it under its id would answer another question.
    """
    if not line.strip():
        return None
    found = _read(line)
    if "method" not in found and ("result" in found or "error" in found):
        return None
    code, words = (PARSE_ERROR, "Not JSON in UTF-8") if no_json else (INVALID_REQUEST, "Not a request of JSON-RPC 2.0")
    return {"jsonrpc": "2.0", "id": _id_of(found), "error": {"code": code, "message": words}}


def _read(line: str) -> dict[str, Any]:
    """The members of the object, as far as it is one."""
    try:
        read: Any = decode_by(json.loads, line)
    except msgspec.DecodeError:
        return {}
    return cast("dict[str, Any]", read) if isinstance(read, dict) else {}


def _id_of(found: dict[str, Any]) -> str | int | None:
    given = found.get("id")
    return given if isinstance(given, (str, int)) and not isinstance(given, bool) else None
