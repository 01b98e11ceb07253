"""A guest: an application that the hub serves at a path of its own without knowing what it is.

It stands behind everything that guards the API: Host and Origin, the token, rate limits, the size of a body, and the
refusal of new work at a stop. It answers each request as a whole. A request of a guest may take long, so a stop does
not wait for it. What a guest does to the workspace it does through the API, like anybody, with one exception: whoever
asked the guest was counted for that, so what the guest asks in turn is not counted again. A pass that this hub made up
and hands to the guest with every request tells those requests.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from parley.core.errors import ParleyError
from parley.serve.endpoint import Answer, Call, Endpoint

if TYPE_CHECKING:
    from parley.hub.hub import Hub

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

PASS_HEADER = b"x-parley-guest-pass"
"""Given to a guest with every request, and by the guest with what it asks on that behalf."""
_KEPT_BY_THE_HUB = frozenset({b"content-type", b"content-length"})


class Guest(Protocol):
    """An ASGI application for HTTP requests. Made before the hub's event loop runs, and used only in it."""

    paths: tuple[str, ...]
    """Where it answers; nothing below."""

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answers one request."""
        ...

    def refusal(self, error: ParleyError) -> Any:
        """The body of an answer in which the hub refuses a request for it, in the protocol of its callers."""
        ...

    async def aclose(self) -> None:
        """Ends what it has begun. No request comes after."""
        ...


def guest_endpoints(guest: Guest) -> "tuple[Endpoint[Hub], ...]":
    """A guest's paths as endpoints; a session of the page does not open them."""
    return tuple(
        Endpoint(
            "POST",
            path,
            _handler(guest, path),
            "A guest of the hub",
            {200: bytes},
            token_only=True,
            raw_body=True,
            refusal=guest.refusal,
            may_take_long=True,
        )
        for path in guest.paths
    )


def _handler(guest: Guest, path: str) -> "Callable[[Hub, Call], Awaitable[Answer]]":
    async def handle(hub: "Hub", call: Call) -> Answer:
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [*(dict(call.headers) | {PASS_HEADER: hub.guest_pass}).items()],
            "client": None,
            "server": None,
        }
        exchange = _Exchange(call.body)
        await guest(scope, exchange.receive, exchange.send)
        return exchange.answer()

    return handle


class _Exchange:
    """One request and its answer, as a guest sees them."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._status = 500
        self._headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []

    async def receive(self) -> dict[str, Any]:
        body, self._body = self._body, None
        if body is None:
            await asyncio.Event().wait()  # nothing more comes; whoever waits for it is cancelled with its request
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = [(bytes(name).lower(), bytes(value)) for name, value in message.get("headers", ())]
        elif message["type"] == "http.response.body":
            self._parts.append(message.get("body", b""))

    def answer(self) -> Answer:
        others = tuple(header for header in self._headers if header[0] not in _KEPT_BY_THE_HUB)
        kind = dict(self._headers).get(b"content-type", b"application/json")
        return Answer(self._status, b"".join(self._parts), kind, others)
