"""Whom a daemon lets in. Its unix socket lies in a folder that only its owner can enter, so it asks for no token there;
on loopback it does. It never answers a web page."""

from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import parse_qsl

import apsw
import msgspec

from parley.core.daemon_errors import DaemonBusy, TokenInQuery, daemon_hint
from parley.core.errors import HostForbidden, InvalidAuth, MissingAuth, NotFound, OriginForbidden, ParleyError
from parley.daemon.sessions import Session
from parley.serve import InFlight, RateLimiter, TokenStore, host_allowed
from parley.serve.door import Door, Visit
from parley.serve.endpoint import Call, Endpoint
from parley.serve.limiter import Key
from parley.serve.shell import LOGGED_PATH_CHARS_MAX
from parley.sqlite import translate
from parley.wire.answers import error_body

if TYPE_CHECKING:
    from parley.daemon.daemon import Daemon

Transport = Literal["unix", "tcp"]
SESSION_HEADER: Final = b"x-parley-session"
HEALTH_PATH: Final = "/v1/health"
_TOKEN_NAMES: Final = frozenset({"token", "access_token", "local_token", "auth", "authorization", "bearer"})
_LOCAL_NAMES: Final = (b"localhost", b"127.0.0.1", b"[::1]")
_COMPAT_FIELDS: Final = ("conflict", "daemon_fingerprint_prefix", "broker_message_id", "reason", "attached")
"""Details of a refusal that existing callers look for at the top of the body."""


class DaemonDoor(Door):
    """The door of one transport. All callers share one budget: they are one user's programs."""

    def __init__(
        self,
        daemon: "Daemon",
        transport: Transport,
        tokens: TokenStore,
        *,
        in_flight: InFlight,
        limiter: RateLimiter,
        strangers: RateLimiter,
        port: int = 0,
    ) -> None:
        super().__init__(in_flight=in_flight, limiter=limiter, strangers=strangers)
        self._daemon = daemon
        self._transport = transport
        self._tokens = tokens
        self._port = port

    @property
    def body_bytes_max(self) -> int:
        return self._daemon.settings.ipc.body_bytes_max

    def check_source(self, visit: Visit) -> None:
        host = visit.headers.get(b"host")
        if self._transport == "tcp" and not host_allowed(host, port=self._port):
            raise HostForbidden("The Host header does not name this machine")
        if self._transport == "unix" and host and not _is_local_name(host):
            raise HostForbidden("The Host header does not name this machine")
        if visit.is_by_page:
            raise OriginForbidden("Web pages may not call the daemon")
        query = visit.scope["query_string"]
        if query and any(name.lower() in _TOKEN_NAMES for name, _ in parse_qsl(query.decode("latin-1"), True)):
            visit.take(self.strangers, self.address(visit))  # before it is logged: a log line for each has no end
            path = visit.scope["path"][:LOGGED_PATH_CHARS_MAX]
            self._daemon.log.warning("token_in_query", path=path, transport=self._transport)
            raise TokenInQuery("The token must not be in the URL")

    def admit(self, endpoint: Endpoint[Any], visit: Visit) -> Key | None:
        settings = self._daemon.settings.ipc
        if self._transport == "tcp" and not (endpoint.path == HEALTH_PATH and settings.public_health_check):
            token = visit.token
            if not token:
                raise MissingAuth("Unauthorized")
            if not self._tokens.matches(token):
                raise InvalidAuth("Unauthorized")
        if self.in_flight.count > settings.requests_max:
            raise DaemonBusy("Too many requests are in flight", limit=settings.requests_max)
        return "all"

    def translate(self, fault: Exception) -> ParleyError | None:
        return translate(fault) if isinstance(fault, apsw.Error) else None


def refusal(error: ParleyError) -> dict[str, Any]:
    """The body of a refusal."""
    body: dict[str, Any] = {**msgspec.to_builtins(error_body(error)), "hint": daemon_hint(error)}
    return body | {name: error.details[name] for name in _COMPAT_FIELDS if name in error.details}


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
    return name.lower() in _LOCAL_NAMES
