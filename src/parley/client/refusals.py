"""What an answer means: what was asked for, or the error of the product's tree that a refusal stands for."""

import math
from typing import TypeVar

import msgspec
from msgspec import UNSET

from parley.client.call import Call
from parley.client.steps import Reply
from parley.core import untrusted_json
from parley.core.errors import InternalError, ParleyError
from parley.core.wire_errors import retold
from parley.wire.answers import ErrorBody

T = TypeVar("T")


def answer_of(call: Call[T], reply: Reply) -> T:
    """The answer that was asked for. Raises the error that a refusal stands for."""
    if reply.status >= 300:
        raise error_from(reply)
    try:
        return msgspec.json.decode(reply.body, type=call.answer)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # an answer may be of any size, not of any form
        raise InternalError(f"The answer to {call.method} {call.path} cannot be read: {error}") from error


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
