"""What every request to a hub, a daemon or a broker passes, in this order: headers that say one thing, our Host and
Origin, a known path, a server that is not stopping, a token where one is needed, the rate limits, a body of bearable
size and the right shape. Then the handler, and one way out for answers and errors.

The size of a head and the patience with slow senders are the connection's (``http``). What differs from server to
server is in its table of endpoints and in its door. This is plain ASGI on the hot path of every write, so it keeps to
dictionaries and bytes.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

import msgspec
from starlette.responses import StreamingResponse
from starlette.routing import compile_path
from structlog.typing import FilteringBoundLogger

from parley.core.errors import (
    InternalError,
    InvalidInput,
    MethodNotAllowed,
    NotFound,
    ParleyError,
    RateLimited,
    Refused,
    ServiceUnavailable,
    ShuttingDown,
)
from parley.serve.bodies import decode_body, read_body, refusal_headers, refuse_encoded, require_json
from parley.serve.connections import Connections
from parley.serve.door import Door, Scope, Visit
from parley.serve.endpoint import Answer, Call, Endpoint, Receive
from parley.serve.limiter import Decision, Key
from parley.serve.metrics import Metrics
from parley.serve.params import Query, idempotency_key
from parley.serve.request_ids import request_id
from parley.serve.security_headers import SECURITY_HEADERS, HeaderList, head_lines
from parley.serve.websocket import WebSocket, check_handshake
from parley.wire.answers import error_body

S = TypeVar("S")
Send = Callable[[dict[str, Any]], Awaitable[None]]
Logged = Literal["all", "problems", "none"]
OpenSocket = Callable[[Visit, Connections], WebSocket]
"""Makes the socket that an upgraded connection is from then on. Raises why there is none."""

SLOW_SECONDS: Final = 1.0
"""A request that took longer is a problem worth a line in the log."""
GIVEN_ONCE: Final = (
    b"host",
    b"origin",
    b"authorization",
    b"cookie",
    b"sec-fetch-site",
    b"idempotency-key",
    b"content-length",
    b"content-type",
    b"x-parley-agent",
    b"x-parley-session",
    b"last-event-id",
)
"""Headers that decide something: of two values, another reader on the way might have believed the other one."""
LOGGED_PATH_CHARS_MAX: Final = 200
"""Longer than any path of ours; a stranger cannot fill the log with one request."""
NOT_MODIFIED: Final = 304
"""Its body tells the length of what the caller has, as with HEAD, and is not sent."""
STRANGERS_BODY_BYTES_MAX: Final = 16 * 1024
"""Room for a code or an invite. Whoever has no token can hold this much in memory on each connection."""
_NO_PATH: Final[Mapping[str, str]] = {}
_NO_QUERY: Final = Query(b"")
_JSON: Final = (b"content-type", b"application/json")


class Response(NamedTuple):
    """An answer, ready to be sent together with the headers that all answers have in common."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    streaming: StreamingResponse | None = None
    """What is sent instead, by itself."""


class _Route(NamedTuple):
    """An endpoint with what can be made ready beforehand."""

    endpoint: Endpoint[Any]
    decode: Callable[[bytes], Any] | None


class Shell(Generic[S]):
    """The ASGI application of a server: its table of endpoints behind its door."""

    def __init__(
        self,
        server: S,
        endpoints: Iterable[Endpoint[S]],
        door: Door,
        *,
        log: FilteringBoundLogger,
        metrics: Metrics,
        metric_prefix: str,
        headers: HeaderList = (),
        refusal: Callable[[ParleyError], Any] = error_body,
        logged: Logged = "problems",
        upgrades: Mapping[str, OpenSocket] | None = None,
    ) -> None:
        """``headers`` go with every answer. ``upgrades`` says which paths are WebSockets."""
        self._server = server
        self.door = door
        self._log = log
        self._metrics = metrics
        self._prefix = metric_prefix
        self._requests, self._seconds = f"{metric_prefix}_requests_total", f"{metric_prefix}_request_seconds"
        self._refusal = refusal
        self._logged = logged
        self._fixed: dict[str, dict[str, _Route]] = {}
        self._patterns: list[tuple[Any, dict[str, _Route]]] = []
        for endpoint in endpoints:
            self._add(endpoint)
        self.upgrades = upgrades or {}
        self.common_headers = [*SECURITY_HEADERS, *headers]
        self.common_head = head_lines(self.common_headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Plain ASGI, for any server."""
        if scope["type"] != "http":
            return  # sockets have protocols of their own; there is no lifespan
        status, headers, body, streaming = await self.respond(scope, receive)
        if streaming is not None:
            await streaming(dict(scope), receive, send)  # pyright: ignore[reportArgumentType]
            return
        headers = [*headers, *self.common_headers, (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if status == NOT_MODIFIED else body})

    async def respond(self, scope: Scope, receive: Receive, body: bytes | None = None) -> Response:
        """The answer to a request, whatever happens. Whoever sends it adds its length and ``common_headers``.

        ``body`` is given if it has been received whole.
        """
        started = time.perf_counter()
        visit = Visit(scope)
        methods, visit.path = self._find(scope["path"], scope["method"])
        name = "unknown"
        error: ParleyError | None = None
        try:
            answer, name = await self._answer(visit, methods, receive, body)
        except Exception as fault:
            error = self._refusal_of(visit, fault)
            meant = next(iter(methods.values())).endpoint if methods else None
            name = meant.path if meant else name
            refusal = None if meant is None else meant.refusal
            answer = Answer(error.status, (refusal or self._refusal)(error))
        sent = [(b"content-type", answer.content_type), (b"x-request-id", visit.request_id.encode())]
        if answer.headers:
            sent += answer.headers
        if visit.decision is not None:
            sent += _limit_headers(visit.decision)
        if error is not None:
            sent += refusal_headers(error)
        self._note(visit, name, answer.status, error, time.perf_counter() - started)
        if answer.stream is not None:
            return Response(answer.status, sent, b"", self._streaming(answer, sent))
        said = answer.body if type(answer.body) is bytes else msgspec.json.encode(answer.body)
        return Response(answer.status, sent, said)

    def open_socket(self, scope: Scope, connections: Connections) -> WebSocket | Response:
        """The socket of a connection that asks to become one, or the refusal that it gets."""
        visit = Visit(scope)
        try:
            return self._upgrade(visit)(visit, connections)
        except Exception as fault:
            error = self._refusal_of(visit, fault)
            self._note(visit, scope["path"] if scope["path"] in self.upgrades else "unknown", error.status, error, 0.0)
            return self.refused(error, visit)

    def refused(self, error: ParleyError, visit: Visit | None = None) -> Response:
        """A refusal as an answer, also of what never became a request."""
        if visit is None:
            self._metrics.inc(self._requests, 1, "unknown", str(error.status))
        asked_id = request_id(None) if visit is None else visit.request_id
        headers: list[tuple[bytes, bytes]] = [_JSON, (b"x-request-id", asked_id.encode())]
        if visit is not None and visit.decision is not None:
            headers += _limit_headers(visit.decision)
        return Response(error.status, headers + refusal_headers(error), msgspec.json.encode(self._refusal(error)))

    async def _answer(
        self, visit: Visit, methods: dict[str, _Route] | None, receive: Receive, received: bytes | None
    ) -> tuple[Answer, str]:
        scope, door = visit.scope, self.door
        self._check_head(visit)
        if methods is None:
            raise NotFound("Not found", path=scope["path"])
        route = methods.get(scope["method"])
        if route is None:
            raise MethodNotAllowed(scope["method"], sorted(methods))
        endpoint = route.endpoint
        if endpoint.public and endpoint.method == "GET":
            door.admit_stranger(endpoint, visit)
            return await endpoint.handler(self._server, self._call(visit, None, receive)), endpoint.path
        door.in_flight.begin()
        try:
            if endpoint.public:
                door.admit_stranger(endpoint, visit)
            else:
                self._admit(visit, door.admit(endpoint, visit))
            body = None
            if endpoint.method != "GET":
                body = self._decoded(route, visit, await self._body(endpoint, visit, receive, received))
            call = self._call(visit, body, receive)
            if not endpoint.may_take_long:
                return await endpoint.handler(self._server, call), endpoint.path
        finally:
            door.in_flight.end()
        return await endpoint.handler(self._server, call), endpoint.path

    def _upgrade(self, visit: Visit) -> OpenSocket:
        door, scope = self.door, visit.scope
        self._check_head(visit)
        opened = self.upgrades.get(scope["path"])
        if opened is None:
            raise NotFound("Not found", path=scope["path"])
        if scope["method"] != "GET":
            raise MethodNotAllowed(scope["method"], ["GET"])
        if scope["http_version"] != "1.1":
            raise InvalidInput("Only HTTP/1.1 can be upgraded to a WebSocket")
        if door.in_flight.closing:
            raise ShuttingDown
        self._admit(visit, door.admit_upgrade(visit))
        check_handshake(scope)
        return opened

    def _check_head(self, visit: Visit) -> None:
        if len(visit.headers) != len(visit.scope["headers"]):
            _refuse_repeated(visit.scope["headers"])
        self.door.check_source(visit)

    def _admit(self, visit: Visit, key: Key | None) -> None:
        visit.is_admitted = True
        if key is not None and self.door.limiter is not None:
            visit.take(self.door.limiter, key)

    def _call(self, visit: Visit, body: Any, receive: Receive) -> Call:
        query_string = visit.scope["query_string"]
        query = Query(query_string) if query_string else _NO_QUERY
        key = idempotency_key(visit.headers.get(b"idempotency-key"))
        return Call(visit.path, query, body, key, visit.headers, receive)

    async def _body(self, endpoint: Endpoint[S], visit: Visit, receive: Receive, received: bytes | None) -> bytes:
        most = self.door.body_bytes_max
        if endpoint.public:
            most = min(most, STRANGERS_BODY_BYTES_MAX)
        refuse_encoded(visit.headers)
        if received is not None and len(received) <= most:
            return received
        return await read_body(receive, visit.headers.get(b"content-length"), most)

    def _decoded(self, route: _Route, visit: Visit, data: bytes) -> Any:
        if route.endpoint.raw_body:
            return data
        if route.decode is None or (not data and route.endpoint.body_optional):
            return None
        if self.door.json_only:
            require_json(visit.headers.get(b"content-type", b""))
        return decode_body(route.decode, data)

    def _refusal_of(self, visit: Visit, fault: Exception) -> ParleyError:
        """What a caller is told. Whoever was not let in pays for it out of the budget of strangers."""
        error = self._error_of(visit, fault)
        if isinstance(error, Refused) and not visit.is_admitted and visit.decision is None:
            try:
                visit.take(self.door.strangers, self.door.address(visit))
            except RateLimited as limited:
                return limited
        return error

    def _error_of(self, visit: Visit, fault: Exception) -> ParleyError:
        if isinstance(fault, ParleyError):
            return fault
        known = self.door.translate(fault)
        if known is not None:
            return known
        path = visit.scope["path"][:LOGGED_PATH_CHARS_MAX]
        self._log.error("request_failed", request_id=visit.request_id, path=path, exc_info=fault)
        return InternalError(request_id=visit.request_id)

    def _streaming(self, answer: Answer, headers: list[tuple[bytes, bytes]]) -> StreamingResponse:
        assert answer.stream is not None
        streaming = StreamingResponse(answer.stream, answer.status)
        streaming.raw_headers = [*headers, *self.common_headers]
        return streaming

    def _add(self, endpoint: Endpoint[S]) -> None:
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

    def _find(self, path: str, method: str) -> tuple[dict[str, _Route] | None, Mapping[str, str]]:
        """What the path leads to: whatever takes the method, else all that lies there, for the caller to be told."""
        found = self._fixed.get(path)
        if found is not None and method in found:
            return found, _NO_PATH
        for pattern, methods in self._patterns:
            match = pattern.match(path)
            if match is not None:
                if method in methods:
                    return methods, match.groupdict()
                found = {**methods, **(found or {})}
        return found, _NO_PATH

    def _note(self, visit: Visit, name: str, status: int, error: ParleyError | None, seconds: float) -> None:
        metrics = self._metrics
        metrics.inc(self._requests, 1, name, str(status))
        metrics.observe(self._seconds, seconds, name)
        if error is not None:
            self.note_refusal(error)
        wanted = self._logged
        is_problem = (status >= 400 and not isinstance(error, RateLimited)) or seconds > SLOW_SECONDS
        if wanted == "all" or (wanted == "problems" and is_problem):
            self._log.info(
                "request",
                method=visit.scope["method"],
                path=visit.scope["path"][:LOGGED_PATH_CHARS_MAX],
                status=status,
                duration_ms=round(seconds * 1000, 2),
                request_id=visit.request_id,
                code=None if error is None else error.code,
            )

    def note_refusal(self, error: ParleyError) -> None:
        """Counts what an operator watches for."""
        if error.status == 401:
            self._metrics.inc(f"{self._prefix}_auth_failures_total")
        elif error.status == 429:
            self._metrics.inc(f"{self._prefix}_rate_limited_total")
        elif error.status == 503:
            reason = error.details.get("reason", error.code.lower())
            self._metrics.inc(f"{self._prefix}_unavailable_total", 1, str(reason))


def too_many(what: str, limit: int) -> ServiceUnavailable:
    """The refusal of one connection more than a server holds."""
    return ServiceUnavailable(f"Too many {what} are open", reason="connection_limit", limit=limit)


def _limit_headers(decision: Decision) -> list[tuple[bytes, bytes]]:
    return [
        (b"x-ratelimit-limit", str(decision.limit).encode()),
        (b"x-ratelimit-remaining", str(decision.remaining).encode()),
        (b"x-ratelimit-reset", str(decision.reset_unix_seconds).encode()),
    ]


def _refuse_repeated(headers: Iterable[tuple[bytes, bytes]]) -> None:
    names = [name for name, _ in headers]
    for name in GIVEN_ONCE:
        if names.count(name) > 1:
            field = name.decode().title()
            raise InvalidInput(f"{field} is given more than once", field=field)
