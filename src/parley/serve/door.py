"""Whom a server lets in, and how often: the part of the shell that each server brings itself.

There are two budgets. A caller that proved who it is takes from its own. Everybody else takes from that of strangers,
by address, so that whoever guesses tokens uses up nobody else's.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from parley.core.errors import ParleyError, RateLimited
from parley.serve.drain import InFlight
from parley.serve.endpoint import Endpoint
from parley.serve.limiter import Decision, Key, RateLimiter
from parley.serve.request_ids import request_id

Scope = Mapping[str, Any]
_BEARER = b"bearer "
_NO_PATH: Mapping[str, str] = {}


class Visit:
    """One request, or one upgrade to a WebSocket, on its way in."""

    __slots__ = ("decision", "headers", "is_admitted", "path", "proof", "request_id", "scope")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.request_id = request_id(self.headers.get(b"x-request-id"))
        self.path = _NO_PATH
        """The named segments of the path."""
        self.decision: Decision | None = None
        """What the limiter said, for the headers of the answer."""
        self.is_admitted = False
        self.proof: Any = None
        """What an upgrade was admitted for, in the words of its server."""

    @property
    def token(self) -> bytes:
        """The bearer token; empty if there is none."""
        given = self.headers.get(b"authorization", b"")
        return given[len(_BEARER) :].strip() if given[: len(_BEARER)].lower() == _BEARER else b""

    @property
    def is_by_page(self) -> bool:
        """Whether a page in a browser made the request. ``Sec-Fetch-Site: none`` is a person who typed the address."""
        return b"origin" in self.headers or self.headers.get(b"sec-fetch-site", b"none") != b"none"

    @property
    def address(self) -> str:
        """Where the caller is, without its port."""
        client = self.scope["client"]
        return client[0] if client else "local"

    def take(self, limiter: RateLimiter | None, key: Key) -> None:
        """Takes one request from a budget. Raises ``RateLimited`` if there is nothing left in it."""
        if limiter is None:
            return
        self.decision = decision = limiter.take(key)
        if not decision.allowed:
            raise RateLimited(limit=decision.limit, retry_after=round(decision.retry_after, 3))


class Door:
    """The questions that a shell asks of its server. Each server answers them in a class of its own."""

    json_only: ClassVar[bool] = True
    """Whether a body must be said to be JSON: what a page can send without asking first is not."""

    def __init__(self, *, in_flight: InFlight, limiter: RateLimiter | None, strangers: RateLimiter | None) -> None:
        self.in_flight = in_flight
        self.limiter = limiter
        self.strangers = strangers

    @property
    def body_bytes_max(self) -> int:
        """The largest body that is read."""
        raise NotImplementedError

    def check_source(self, visit: Visit) -> None:
        """Raises ``HostForbidden`` or ``OriginForbidden`` for what was not meant for this server."""
        raise NotImplementedError

    def admit(self, endpoint: Endpoint[Any], visit: Visit) -> Key | None:
        """Whose budget the request takes from; None for one that is not counted. Raises why it may not come in."""
        raise NotImplementedError

    def admit_stranger(self, endpoint: Endpoint[Any], visit: Visit) -> None:
        """Looks at a request for a public endpoint before its body is read."""
        if endpoint.method != "GET":
            visit.take(self.strangers, self.address(visit))

    def admit_upgrade(self, visit: Visit) -> Key | None:
        """As ``admit``, for an upgrade to a WebSocket."""
        raise NotImplementedError

    def address(self, visit: Visit) -> str:
        """The key of a stranger's budget."""
        return visit.address

    def translate(self, fault: Exception) -> ParleyError | None:
        """The refusal that a fault of the store stands for; None for a fault of ours."""
        return None
