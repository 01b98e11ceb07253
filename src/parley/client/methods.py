"""Methods of clients, made from descriptions of calls: a description is written once and serves both kinds."""

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from parley.client.call import Call, Caller
from parley.core.errors import InvalidInput

P = ParamSpec("P")
T = TypeVar("T")
Description = Callable[Concatenate[Caller, P], Call[T]]


class Blocking(Protocol):
    """A client that blocks."""

    caller: Caller

    def perform(self, call: Call[T]) -> T:
        """Carries out a call that was described."""
        ...


class Awaiting(Protocol):
    """A client that is awaited."""

    caller: Caller

    async def perform(self, call: Call[T]) -> T:
        """Carries out a call that was described."""
        ...


def blocking(describe: Description[P, T]) -> Callable[Concatenate[Blocking, P], T]:
    """The method of a client that blocks."""

    @functools.wraps(describe)
    def method(client: Blocking, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client.perform(described(describe, client.caller, *args, **kwargs))

    return method


def awaiting(describe: Description[P, T]) -> Callable[Concatenate[Awaiting, P], Coroutine[Any, Any, T]]:
    """The method of a client that is awaited."""

    @functools.wraps(describe)
    async def method(client: Awaiting, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await client.perform(described(describe, client.caller, *args, **kwargs))

    return method


def described(describe: Description[P, T], caller: Caller, /, *args: P.args, **kwargs: P.kwargs) -> Call[T]:
    """A call, described. Raises ``InvalidInput`` for what cannot be sent."""
    try:
        return describe(caller, *args, **kwargs)
    except UnicodeEncodeError as error:  # half of a surrogate pair, as Python makes of bytes that are no text
        raise InvalidInput(f"A text cannot be written as UTF-8: {error.reason}") from None
    except RecursionError:
        raise InvalidInput("A value is nested too deeply") from None
