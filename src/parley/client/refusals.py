"""An answer that is not a success, as the error of the product's tree that it stands for."""

import math

import msgspec
from msgspec import UNSET

from parley.client.steps import Reply
from parley.core import untrusted_json
from parley.core.errors import ParleyError
from parley.core.wire_errors import retold
from parley.wire.answers import ErrorBody


def error_from(reply: Reply) -> ParleyError:
    """The error to raise: of the class that has the answer's code, with its details and its wait kept."""
    try:
        body = untrusted_json.decode(reply.body, ErrorBody)
    except msgspec.DecodeError:
        body = ErrorBody(error=f"The hub answered {reply.status} without a reason", code=f"HTTP_{reply.status}")
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
