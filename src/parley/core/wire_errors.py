"""An error that another process told of, raised here as the class that it was there.

All modules of errors are loaded for it: a code is known whatever this process raises itself. A code that this version
does not know is kept, with the status that says what kind of refusal it is.
"""

from collections.abc import Mapping
from typing import Any, Final

from parley.core import broker_errors, bus_errors, daemon_errors, pipeline_errors
from parley.core.errors import ERRORS, ParleyError, Unavailable

SPEAKERS: Final = (broker_errors, bus_errors, daemon_errors, pipeline_errors)
"""Modules whose errors are registered as they are loaded."""

_TRANSIENT_STATUSES: Final = frozenset({429, 502, 503, 504})


class UnknownRefusal(ParleyError):
    """A refusal with a code that this version does not know, or with no code at all. ``status`` tells what kind."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int,
        details: Mapping[str, Any],
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.details = dict(details)
        self.retry_after_seconds = retry_after or 0.0
        # The class attributes are constants of a known error; here they are facts about one answer.
        self.__dict__.update(code=code, status=status, transient=status in _TRANSIENT_STATUSES)


def every_error() -> tuple[type[ParleyError], ...]:
    """The classes that have a code of their own, of all modules."""
    return tuple(ERRORS.values())


def retold(
    message: str,
    *,
    code: str,
    status: int,
    details: Mapping[str, Any],
    retry_after: float | None = None,
    hint: str | None = None,
) -> ParleyError:
    """The error to raise: of the class that has the code, with its details, its wait and its advice kept."""
    kind = _class_for(code, status)
    if kind is None:
        return UnknownRefusal(message, code=code, status=status, details=details, retry_after=retry_after)
    # Each class has a constructor for those who raise it first; here the message and the details are already made.
    error = kind.__new__(kind, message)
    ParleyError.__init__(error, message)
    error.details = dict(details)
    if isinstance(error, Unavailable) and retry_after is not None:
        error.retry_after_seconds = retry_after
    if hint is not None:
        error.hint = hint
    return error


def _class_for(code: str, status: int) -> type[ParleyError] | None:
    known = ERRORS.get(code)
    if known is None or known.status == status:
        return known
    # Some classes share a code and differ by status, such as a body that is not declared as JSON.
    return next((kind for kind in known.__subclasses__() if kind.status == status), known)
