"""What an endpoint is: one entry of the table that routing, validation, the OpenAPI document and the docs come from."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from parley.core.errors import ParleyError
from parley.serve.params import Query

S = TypeVar("S")
Method = Literal["GET", "POST", "PATCH", "DELETE"]
Receive = Callable[[], Awaitable[Any]]
"""As in ASGI: what comes from the caller next, the last of which is that it has gone."""


async def _nothing_more() -> MutableMapping[str, Any]:
    """Of a caller that is never heard to go."""
    await asyncio.Event().wait()
    return {"type": "http.disconnect"}


class Call:
    """One request, as a handler sees it."""

    __slots__ = ("_receive", "body", "headers", "key", "path", "query")

    def __init__(
        self,
        path: Mapping[str, str],
        query: Query,
        body: Any,
        key: str | None,
        headers: Mapping[bytes, bytes],
        receive: Receive = _nothing_more,
    ) -> None:
        self.path = path
        self.query = query
        self.body = body
        """The decoded body, of the endpoint's ``body`` type."""
        self.key = key
        """The idempotency key, if there is one."""
        self.headers = headers
        self._receive = receive

    async def gone(self) -> None:
        """Returns once the caller has hung up. For a handler that waits: nobody would see what it answers then."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


class Answer(NamedTuple):
    """What a handler returns: a body that is encoded as JSON, or bytes of another type.

    With status 304 the body tells the length of what the caller has, and is not sent.
    """

    status: int
    body: Any
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers beyond those that every answer has; names in lower case."""
    stream: AsyncIterator[bytes] | None = None
    """What is sent instead of a body, as it comes, until it ends or the caller leaves."""


Handler = Callable[[S, Call], Awaitable[Answer]]


class Param(NamedTuple):
    """One query parameter."""

    name: str
    kind: Literal["integer", "string", "boolean"]
    meaning: str
    default: int | bool | None = None
    low: int | None = None
    high: int | None = None
    repeatable: bool = False
    required: bool = False
    choices: tuple[str, ...] = ()
    """The words that are allowed; the first is the default."""


class Endpoint(NamedTuple, Generic[S]):
    """One operation of a server's API."""

    method: Method
    path: str
    """With names in braces for its segments; ``{path}`` takes all that are left."""
    handler: Handler[S]
    summary: str
    answers: Mapping[int, Any]
    """Status to the type of the body, or to several; ``bytes`` for one that is not JSON, ``None`` for none."""
    errors: tuple[type[ParleyError], ...] = ()
    """Refusals of this endpoint beyond those that any endpoint may give."""
    params: tuple[Param, ...] = ()
    body: Any = None
    body_optional: bool = False
    takes_key: bool = False
    """Heeds ``Call.key``: a retry with the same key has one effect."""
    public: bool = False
    """Needs no token. What is not a read shares the budget of callers without a token."""
    token_only: bool = False
    """A session of the page is not enough: it must neither prolong itself nor lock programs out."""
    always_closed: bool = False
    """Needs a token or a session even where reads are open: the answer tells whether the caller has one."""
    content_type: str = "application/json"
    raw_body: bool = False
    """The handler gets the body as the bytes that came."""
    refusal: Callable[[ParleyError], Any] | None = None
    """Makes the body of a refusal, where callers speak another protocol than the API's."""
    may_take_long: bool = False
    """A stop does not wait for the answer, and the handler ends by itself when the feeds are closed."""
