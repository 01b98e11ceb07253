"""What every HTTP request passes, in this order: headers that say one thing, our Host and Origin, a known path, a hub
that is not stopping, the token or a session of the page, the rate limits, a body of bearable size and the right shape.
Then the handler, and one way out for answers and errors.

This is plain ASGI on the hot path of every write, so it keeps to dictionaries and bytes.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import apsw
import msgspec
from starlette.routing import compile_path

from parley.core.errors import (
    HostForbidden,
    InternalError,
    InvalidAuth,
    InvalidInput,
    MethodNotAllowed,
    MissingAuth,
    NotFound,
    OriginForbidden,
    ParleyError,
    RateLimited,
    Refused,
)
from parley.hub.http.endpoint import Answer, Call, Endpoint
from parley.hub.http.guest import PASS_HEADER
from parley.hub.http.params import Query
from parley.hub.http.writes import idempotency_key
from parley.hub.page_access import require_origin
from parley.serve import (
    SECURITY_HEADERS,
    Decision,
    RateLimiter,
    head_lines,
    host_allowed,
    origin_allowed,
    request_id,
)
from parley.serve.bodies import decode_body, read_body, refusal_headers, require_json
from parley.sqlite import translate
from parley.wire.answers import error_body
from parley.wire.server_file import PROTOCOL_VERSION
from parley.workspace.log import encode_json

if TYPE_CHECKING:
    from parley.hub.hub import Hub

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = dict[bytes, bytes]

SLOW_SECONDS: Final = 1.0
"""A request that took longer is a problem worth a line in the log."""
_GIVEN_ONCE: Final = (
    b"host",
    b"origin",
    b"authorization",
    b"cookie",
    b"sec-fetch-site",
    b"idempotency-key",
    b"content-length",
)
"""Headers that decide something: of two values, another reader on the way might have believed the other one."""
LOGGED_PATH_CHARS_MAX: Final = 200
"""Longer than any path of ours; a stranger cannot fill the log with one request."""
_BEARER: Final = b"bearer "
_NO_PATH: Final[Mapping[str, str]] = {}
_NO_QUERY: Final = Query(b"")
_NO_ANSWER: Final = Answer(500, b"")
NOT_MODIFIED: Final = 304
"""Its body tells the length of what the caller has, as with HEAD, and is not sent."""


class Response(NamedTuple):
    """An answer, ready to be sent together with the headers that all answers have in common."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class _Route(NamedTuple):
    """An endpoint with what can be made ready beforehand."""

    endpoint: Endpoint
    decode: Callable[[bytes], Any] | None


class Shell:
    """The ASGI application of a hub."""

    def __init__(self, hub: "Hub", endpoints: tuple[Endpoint, ...]) -> None:
        self._hub = hub
        self._fixed: dict[str, dict[str, _Route]] = {}
        self._patterns: list[tuple[Any, dict[str, _Route]]] = []
        for endpoint in endpoints:
            self._add(endpoint)
        self.common_headers = [
            *SECURITY_HEADERS,
            (b"x-instance-id", hub.instance_id.encode()),
            (b"x-protocol-version", PROTOCOL_VERSION.encode()),
        ]
        self.common_head = head_lines(self.common_headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Plain ASGI, for any server."""
        if scope["type"] != "http":
            return  # feeds have a protocol of their own; there is no lifespan
        status, headers, body = await self.respond(scope, receive)
        headers = [*headers, *self.common_headers, (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if status == NOT_MODIFIED else body})

    async def respond(self, scope: Scope, receive: Receive) -> Response:
        """The answer to a request, whatever happens. Whoever sends it adds its length and ``common_headers``."""
        started = time.perf_counter()
        headers: Headers = dict(scope["headers"])
        asked_id = request_id(headers.get(b"x-request-id"))
        limit: list[Decision] = []
        name, answer = "unknown", _NO_ANSWER
        error: ParleyError | None = None
        methods, path = self._find(scope["path"])
        try:
            answer, name = await self._answer(scope, receive, headers, methods, path, limit)
        except ParleyError as refusal:
            error = refusal
        except apsw.Error as fault:
            error = translate(fault)
        except Exception as fault:
            self._hub.log.error("request_failed", request_id=asked_id, path=scope["path"], exc_info=fault)
            error = InternalError(request_id=asked_id)
        if error is not None:
            meant = next(iter(methods.values())).endpoint if methods else None
            name = meant.path if meant else name
            refusal = None if meant is None else meant.refusal
            answer = Answer(error.status, (refusal or error_body)(error))
        body = answer.body if type(answer.body) is bytes else encode_json(answer.body)
        sent = [(b"content-type", answer.content_type), (b"x-request-id", asked_id.encode())]
        if answer.headers:
            sent += answer.headers
        if limit:
            sent += _limit_headers(limit[0])
        if error is not None:
            sent += refusal_headers(error)
        self._note(scope, asked_id, name, answer.status, error, time.perf_counter() - started)
        return Response(answer.status, sent, body)

    async def _answer(
        self,
        scope: Scope,
        receive: Receive,
        headers: Headers,
        methods: dict[str, _Route] | None,
        path: Mapping[str, str],
        limit: list[Decision],
    ) -> tuple[Answer, str]:
        hub = self._hub
        if len(headers) != len(scope["headers"]):
            _refuse_repeated(scope["headers"])
        host = headers.get(b"host")
        if not host_allowed(host, port=hub.port, extra=hub.host_names):
            raise HostForbidden("The Host header does not name this machine")
        origin = headers.get(b"origin")
        if origin is not None and not origin_allowed(origin, host, port=hub.port, extra=hub.host_names):
            raise OriginForbidden("The Origin header names another site")
        if methods is None:
            raise NotFound("Not found", path=scope["path"])
        route = methods.get(scope["method"])
        if route is None:
            raise MethodNotAllowed(scope["method"], sorted(methods))
        endpoint = route.endpoint
        if endpoint.public:
            body = await self._public_body(route, headers, receive, limit) if endpoint.method != "GET" else None
            return await endpoint.handler(hub, Call(path, _NO_QUERY, body, None, headers)), endpoint.path
        hub.in_flight.begin()
        try:
            if not (hub.settings.hub.open_reads and endpoint.method == "GET") or endpoint.always_closed:
                self._authenticate(endpoint, headers, limit)
            agent = headers.get(b"x-parley-agent")
            if agent:
                name = agent.decode("latin-1")
                if headers.get(PASS_HEADER) != hub.guest_pass:
                    _take(hub.limiter, name, limit)
                hub.presence.saw(name)
            else:
                _take(hub.limiter, scope["client"], limit)
            hub.touch()
            body = await self._body(route, headers, receive) if endpoint.method != "GET" else None
            query_string = scope["query_string"]
            query = Query(query_string) if query_string else _NO_QUERY
            key = idempotency_key(headers.get(b"idempotency-key"))
            call = Call(path, query, body, key, headers)
            if not endpoint.may_take_long:
                return await endpoint.handler(hub, call), endpoint.path
        finally:
            hub.in_flight.end()
        return await endpoint.handler(hub, call), endpoint.path

    def _authenticate(self, endpoint: Endpoint, headers: Headers, limit: list[Decision]) -> None:
        """Refuses a caller with neither the token nor a session of the page.

        All of them share one budget, so they use up nobody else's.
        """
        given = headers.get(b"authorization", b"")
        token = given[len(_BEARER) :].strip() if given[: len(_BEARER)].lower() == _BEARER else b""
        if token and self._hub.tokens.matches(token):
            return
        try:
            if token:
                raise InvalidAuth("Unauthorized")
            if endpoint.token_only:
                raise MissingAuth("Unauthorized")
            if endpoint.method == "GET":
                self._hub.page.admit_read(headers.get(b"cookie"), headers.get(b"sec-fetch-site"))
            else:
                self._hub.page.admit(headers.get(b"cookie"), headers.get(b"origin"))
        except Refused:
            _take(self._hub.strangers, "strangers", limit)
            raise

    async def _public_body(self, route: _Route, headers: Headers, receive: Receive, limit: list[Decision]) -> Any:
        """The body of a request that anybody may send, if it comes from our page and strangers are within bounds."""
        _take(self._hub.strangers, "strangers", limit)
        require_origin(headers.get(b"origin"))
        return await self._body(route, headers, receive)

    async def _body(self, route: _Route, headers: Headers, receive: Receive) -> Any:
        most = self._hub.settings.limits.body_bytes_max
        data = await read_body(receive, headers.get(b"content-length"), most)
        if route.endpoint.raw_body:
            return data
        if route.decode is None or (not data and route.endpoint.body_optional):
            return None
        require_json(headers.get(b"content-type", b""))
        return decode_body(route.decode, data)

    def _add(self, endpoint: Endpoint) -> None:
        decode = msgspec.json.Decoder(endpoint.body).decode if endpoint.body is not None else None
        route = _Route(endpoint, decode)
        if "{" not in endpoint.path:
            self._fixed.setdefault(endpoint.path, {})[endpoint.method] = route
            return
        pattern, _, _ = compile_path(endpoint.path.replace("{path}", "{path:path}"))  # the rest, slashes included
        for known, methods in self._patterns:
            if known == pattern:
                methods[endpoint.method] = route
                return
        self._patterns.append((pattern, {endpoint.method: route}))

    def _find(self, path: str) -> tuple[dict[str, _Route] | None, Mapping[str, str]]:
        methods = self._fixed.get(path)
        if methods is not None:
            return methods, _NO_PATH
        for pattern, methods in self._patterns:
            match = pattern.match(path)
            if match is not None:
                return methods, match.groupdict()
        return None, _NO_PATH

    def _note(
        self, scope: Scope, asked_id: str, name: str, status: int, error: ParleyError | None, seconds: float
    ) -> None:
        hub = self._hub
        hub.metrics.inc("parley_requests_total", 1, name, str(status))
        hub.metrics.observe("parley_request_seconds", seconds, name)
        if error is not None:
            hub.note_refusal(error)
        wanted = hub.settings.log.requests
        if wanted == "all" or (wanted == "problems" and (status >= 400 or seconds > SLOW_SECONDS)):
            hub.log.info(
                "request",
                method=scope["method"],
                path=scope["path"][:LOGGED_PATH_CHARS_MAX],
                status=status,
                duration_ms=round(seconds * 1000, 2),
                request_id=asked_id,
                code=None if error is None else error.code,
            )


def _take(limiter: RateLimiter | None, key: str | tuple[str, int], limit: list[Decision]) -> None:
    """Takes one request from a budget; the decision is kept for the answer's headers."""
    if limiter is None:
        return
    decision = limiter.take(key)
    limit.append(decision)
    if not decision.allowed:
        raise RateLimited(limit=decision.limit, retry_after=round(decision.retry_after, 3))


def _limit_headers(decision: Decision) -> list[tuple[bytes, bytes]]:
    return [
        (b"x-ratelimit-limit", str(decision.limit).encode()),
        (b"x-ratelimit-remaining", str(decision.remaining).encode()),
        (b"x-ratelimit-reset", str(decision.reset_unix_seconds).encode()),
    ]


def _refuse_repeated(headers: Iterable[tuple[bytes, bytes]]) -> None:
    names = [name for name, _ in headers]
    for name in _GIVEN_ONCE:
        if names.count(name) > 1:
            field = name.decode().title()
            raise InvalidInput(f"{field} is given more than once", field=field)
