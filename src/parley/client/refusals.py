"""What an answer means: what was asked for, or the error of the product's tree that a refusal stands for."""

import math
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET

from parley.client.call import Call
from parley.client.steps import Reply
from parley.core import untrusted_json
from parley.core.errors import InternalError, ParleyError
from parley.core.wire_errors import retold
from parley.wire.answers import ErrorBody

T = TypeVar("T")
UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""What decoding an answer may raise. It is our own hub's: of any size, so not bounded as what strangers send."""


def answer_of(call: Call[T], reply: Reply) -> T:
    """The answer that was asked for. Raises the error that a refusal stands for."""
    if reply.status >= 300:
        raise error_from(reply)
    return decoded(reply.body, call.answer, f"The answer to {call.method} {call.path}")


def decoded(text: bytes | str, kind: type[T], name: str) -> T:
    """The JSON in its type. Raises ``InternalError``, which calls the text by its name."""
    try:
        return msgspec.json.decode(text, type=kind)
    except UNREADABLE as error:
        raise InternalError(f"{name} cannot be read: {error}") from error


def error_from(reply: Reply) -> ParleyError:
    """The error to raise: of the class that has the answer's code, with its details and its wait kept."""
    try:
        body = untrusted_json.decode(reply.body, ErrorBody)
    except msgspec.DecodeError:
        body = ErrorBody(error=f"The answer was {reply.status}, without a reason", code=f"HTTP_{reply.status}")
    return retold(
        body.error,
        code=body.code,
        status=reply.status,
        details={} if body.details is UNSET else body.details,
        retry_after=retry_after_seconds(reply),
        hint=None if body.hint is UNSET else body.hint,
    )


def retry_after_seconds(reply: Reply) -> float | None:
    """The wait that the answer asks for, if it asks for one that we understand."""
    try:
        seconds = float(reply.retry_after or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
