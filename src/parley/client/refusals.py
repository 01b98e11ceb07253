"""An answer that is not a success, as the error of the product's tree that it stands for."""

import math
from typing import Any

import msgspec
from msgspec import UNSET

from parley.client.steps import Reply
from parley.core.errors import ERRORS, ParleyError, Unavailable
from parley.wire.answers import ErrorBody

_TRANSIENT_STATUSES = frozenset({429, 502, 503, 504})
_decode_body = msgspec.json.Decoder(ErrorBody).decode


class UnknownRefusal(ParleyError):
    """A refusal with a code that this version does not know, or with no code at all. ``status`` tells what kind."""

    def __init__(
        self, message: str, *, code: str, status: int, details: dict[str, Any], retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.details = dict(details)
        self.retry_after_seconds = retry_after or 0.0
        # The class attributes are constants of a known error; here they are facts about one answer.
        self.__dict__.update(code=code, status=status, transient=status in _TRANSIENT_STATUSES)


def error_from(reply: Reply) -> ParleyError:
    """The error to raise: of the class that has the answer's code, with its details and its wait kept."""
    try:
        body = _decode_body(reply.body)
    except msgspec.MsgspecError:
        body = ErrorBody(error=f"The hub answered {reply.status} without a reason", code=f"HTTP_{reply.status}")
    details = {} if body.details is UNSET else body.details
    wait = retry_after_seconds(reply)
    kind = _class_for(body.code, reply.status)
    if kind is None:
        return UnknownRefusal(body.error, code=body.code, status=reply.status, details=details, retry_after=wait)
    # Each class has a constructor for those who raise it first; here the message and the details are already made.
    error = kind.__new__(kind, body.error)
    ParleyError.__init__(error, body.error)
    error.details = dict(details)
    if isinstance(error, Unavailable) and wait is not None:
        error.retry_after_seconds = wait
    return error


def retry_after_seconds(reply: Reply) -> float | None:
    """The wait that the answer asks for, if it asks for one that we understand."""
    try:
        seconds = float(reply.retry_after or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _class_for(code: str, status: int) -> type[ParleyError] | None:
    known = ERRORS.get(code)
    if known is None or known.status == status:
        return known
    # Some classes share a code and differ by status, such as a body that is not declared as JSON.
    return next((kind for kind in known.__subclasses__() if kind.status == status), known)
