"""What every request to the daemon passes, in this order: no token in the address, our Host and no Origin, a known
path, the token (over TCP), a daemon that is not stopping and not too busy, a body of bearable size and the right shape.

The unix socket lies in a folder that only its owner can enter, so it asks for no token.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import parse_qsl

import apsw
import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send

from parley.core.daemon_errors import DaemonBusy, TokenInQuery
from parley.core.errors import (
    HostForbidden,
    InternalError,
    InvalidAuth,
    MethodNotAllowed,
    MissingAuth,
    NotFound,
    OriginForbidden,
    ParleyError,
    RateLimited,
)
from parley.daemon.sessions import Session
from parley.serve import SECURITY_HEADERS, InFlight, RateLimiter, TokenStore, head_lines, host_allowed
from parley.serve.bodies import decode_body, read_body, refusal_headers, require_json
from parley.sqlite import translate
from parley.wire.answers import error_body

if TYPE_CHECKING:
    from parley.daemon.daemon import Daemon
    from parley.serve.metrics import Metrics

Transport = Literal["unix", "tcp"]
SESSION_HEADER: Final = b"x-parley-session"
_ANSWER_HEADERS: Final = ((b"content-type", b"application/json"), *SECURITY_HEADERS)
ANSWER_HEAD: Final = head_lines(_ANSWER_HEADERS)
_BEARER: Final = b"bearer "
_TOKEN_NAMES: Final = frozenset({"token", "access_token", "local_token", "auth", "authorization", "bearer"})
_COMPAT_FIELDS: Final = ("conflict", "daemon_fingerprint_prefix", "broker_message_id", "reason", "attached")
"""Details of a refusal that existing callers look for at the top of the body."""


class Call(NamedTuple):
    """One request, as a handler sees it."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    headers: Mapping[bytes, bytes]


class Answer(NamedTuple):
    """What a handler returns: a body that is encoded as JSON, or a response of its own."""

    status: int
    body: Any


class Finished(NamedTuple):
    """An answer on its way out. Its headers are put together once and for all, not for each."""

    status_code: int
    body: bytes
    more: tuple[tuple[bytes, bytes], ...] = ()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = (b"content-length", str(len(self.body)).encode())
        headers = [length, *_ANSWER_HEADERS, *self.more]
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})

    @property
    def head(self) -> bytes:
        """The headers as they stand in the answer, but for its length."""
        return ANSWER_HEAD + head_lines(self.more) if self.more else ANSWER_HEAD


Handler = Callable[["Daemon", Call], Awaitable[Answer]]


class Endpoint(NamedTuple):
    """One operation of the API."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    handler: Handler
    summary: str
    body: Any = None


class Api:
    """The ASGI application of a daemon, one for each transport."""

    def __init__(
        self,
        daemon: "Daemon",
        endpoints: tuple[Endpoint, ...],
        *,
        transport: Transport,
        tokens: TokenStore,
        in_flight: InFlight,
        limiter: RateLimiter,
        metrics: "Metrics",
        port: int = 0,
    ) -> None:
        self._daemon = daemon
        self._transport = transport
        self._tokens = tokens
        self._in_flight = in_flight
        self._limiter = limiter
        self._metrics = metrics
        self._port = port
        self._routes = [(compile_path(each.path)[0], each) for each in endpoints]
        self._decoders = {each: msgspec.json.Decoder(each.body) for each in endpoints if each.body is not None}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Plain ASGI, for any server."""
        if scope["type"] == "http":
            response = await self.respond(scope, receive)
            await response(scope, receive, send)

    async def respond(self, scope: Scope, receive: Receive) -> Response | Finished:
        """The answer to a request, whatever happens."""
        started = time.perf_counter()
        endpoint, path = self._find(scope)
        name = "unknown" if endpoint is None else endpoint.path
        try:
            response = await self._respond(scope, receive, endpoint, path)
        except ParleyError as error:
            response = self._refused(error)
        except apsw.Error as fault:
            response = self._refused(translate(fault))
        except Exception as fault:
            self._daemon.log.error("request_failed", path=scope["path"], exc_info=fault)
            response = self._refused(InternalError())
        self._metrics.inc("parley_daemon_requests_total", 1, name, str(response.status_code))
        if not isinstance(response, StreamingResponse):
            self._metrics.observe("parley_daemon_request_seconds", time.perf_counter() - started, name)
        return response

    async def _respond(
        self, scope: Scope, receive: Receive, endpoint: Endpoint | None, path: Mapping[str, str]
    ) -> Response | Finished:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        query = self._query(scope)
        self._check_source(headers)
        if endpoint is None:
            raise NotFound("Not found", path=scope["path"])
        if endpoint.method != scope["method"]:
            raise MethodNotAllowed(scope["method"], self._methods(scope["path"]))
        self._authenticate(endpoint, headers)
        decision = self._limiter.take("all")
        if not decision.allowed:
            raise RateLimited(limit=decision.limit, retry_after=round(decision.retry_after, 3))
        if self._in_flight.count >= self._daemon.settings.ipc.requests_max:
            raise DaemonBusy("Too many requests are in flight", limit=self._daemon.settings.ipc.requests_max)
        self._in_flight.begin()
        try:
            body = await self._body(endpoint, headers, receive)
            answer = await endpoint.handler(self._daemon, Call(path, query, body, headers))
        finally:
            self._in_flight.end()
        if isinstance(answer.body, Response):
            return answer.body
        return Finished(answer.status, msgspec.json.encode(answer.body))

    def _query(self, scope: Scope) -> dict[str, str]:
        if not scope["query_string"]:
            return {}
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        if any(name.lower() in _TOKEN_NAMES for name in query):
            self._daemon.log.warning("token_in_query", path=scope["path"], transport=self._transport)
            raise TokenInQuery("A token does not belong into an address")
        return query

    def _check_source(self, headers: Mapping[bytes, bytes]) -> None:
        host = headers.get(b"host")
        if self._transport == "tcp" and not host_allowed(host, port=self._port):
            raise HostForbidden("The Host header does not name this machine")
        if self._transport == "unix" and host and not _is_local_name(host):
            raise HostForbidden("The Host header does not name this machine")
        if b"origin" in headers:
            raise OriginForbidden("Pages of a browser may not call the daemon")

    def _authenticate(self, endpoint: Endpoint, headers: Mapping[bytes, bytes]) -> None:
        if self._transport == "unix":
            return
        if endpoint.path == "/v1/health" and self._daemon.settings.ipc.public_health_check:
            return
        given = headers.get(b"authorization", b"")
        token = given[len(_BEARER) :].strip() if given[: len(_BEARER)].lower() == _BEARER else b""
        if token and self._tokens.matches(token):
            return
        self._metrics.inc("parley_daemon_auth_failures_total")
        raise InvalidAuth("Unauthorized") if token else MissingAuth("Unauthorized")

    async def _body(self, endpoint: Endpoint, headers: Mapping[bytes, bytes], receive: Receive) -> Any:
        decoder = self._decoders.get(endpoint)
        if decoder is None:
            return None
        most = self._daemon.settings.ipc.body_bytes_max
        data = await read_body(receive, headers.get(b"content-length"), most)
        require_json(headers.get(b"content-type", b""))
        return decode_body(decoder.decode, data)

    def _find(self, scope: Scope) -> tuple[Endpoint | None, Mapping[str, str]]:
        other: Endpoint | None = None
        for pattern, endpoint in self._routes:
            match = pattern.match(scope["path"])
            if match is not None and endpoint.method == scope["method"]:
                return endpoint, match.groupdict()
            if match is not None:
                other = endpoint
        return other, {}

    def _methods(self, path: str) -> list[str]:
        return sorted({endpoint.method for pattern, endpoint in self._routes if pattern.match(path)})

    def _refused(self, error: ParleyError) -> Finished:
        body: dict[str, Any] = {**msgspec.to_builtins(error_body(error)), "hint": error.hint}
        body.update({name: error.details[name] for name in _COMPAT_FIELDS if name in error.details})
        return Finished(error.status, msgspec.json.encode(body), tuple(refusal_headers(error)))


def session_of(daemon: "Daemon", call: Call) -> Session | None:
    """The session that a request belongs to, if it says so. Raises ``NotFound`` for a token that is nobody's."""
    token = call.headers.get(SESSION_HEADER)
    if token is None:
        return None
    session = daemon.sessions.of(token.decode("latin-1"), daemon.clock.now_ms())
    if session is None:
        raise NotFound("No session has this token; it may have ended with its process or its day")
    return session


def _is_local_name(host: bytes) -> bool:
    name = host.rpartition(b":")[0] if host.rpartition(b":")[2].isdigit() and not host.endswith(b"]") else host
    return name.lower() in (b"localhost", b"127.0.0.1", b"[::1]")
