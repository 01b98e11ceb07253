"""What an endpoint is: one entry of the table that routing, validation, the OpenAPI document and the docs come from."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from parley.core.errors import ParleyError
from parley.hub.http.params import Query

if TYPE_CHECKING:
    from parley.hub.hub import Hub

Method = Literal["GET", "POST", "PATCH"]


class Call:
    """One request, as a handler sees it."""

    __slots__ = ("body", "key", "path", "query")

    def __init__(self, path: Mapping[str, str], query: Query, body: Any, key: str | None) -> None:
        self.path = path
        self.query = query
        self.body = body
        """The decoded body, of the endpoint's ``body`` type."""
        self.key = key
        """The idempotency key, if there is one."""


class Answer(NamedTuple):
    """What a handler returns: a body that is encoded as JSON, or bytes of another type."""

    status: int
    body: Any
    content_type: bytes = b"application/json"


Handler = Callable[["Hub", Call], Awaitable[Answer]]


class Param(NamedTuple):
    """One query parameter."""

    name: str
    kind: Literal["integer", "string"]
    meaning: str
    default: int | None = None
    low: int | None = None
    high: int | None = None
    repeatable: bool = False
    required: bool = False


class Endpoint(NamedTuple):
    """One operation of the API."""

    method: Method
    path: str
    handler: Handler
    summary: str
    answers: Mapping[int, Any]
    """Status to the type of the body, or to several; ``bytes`` for one that is not JSON."""
    errors: tuple[type[ParleyError], ...] = ()
    """Refusals of this endpoint beyond those that any endpoint may give."""
    params: tuple[Param, ...] = ()
    body: Any = None
    body_optional: bool = False
    public: bool = False
    """Needs no token and is not rate limited."""
    content_type: str = "application/json"
