"""Whom a hub lets in: whoever has the token, and a browser with a session of the page, from our own page."""

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs

import apsw

from parley.core.errors import HostForbidden, InvalidAuth, InvalidInput, MissingAuth, OriginForbidden, ParleyError
from parley.hub.http.guest import PASS_HEADER
from parley.hub.page_access import require_origin
from parley.serve import RateLimiter, host_allowed, origin_allowed
from parley.serve.door import Door, Visit
from parley.serve.endpoint import Endpoint
from parley.serve.limiter import Key
from parley.sqlite import translate

if TYPE_CHECKING:
    from parley.hub.hub import Hub


class Proof(NamedTuple):
    """What a feed was opened with: the token, or a session of the page. It is closed when that is no longer valid."""

    token: bytes = b""
    session: bytes = b""


class HubDoor(Door):
    """Callers with the token are counted by connection, or by the name of the agent that they say they are."""

    def __init__(self, hub: "Hub") -> None:
        limits = hub.settings.rate_limits

        def limiter() -> RateLimiter | None:
            return RateLimiter(limits.per_connection, limits.overall, hub.clock) if limits.enabled else None

        super().__init__(in_flight=hub.in_flight, limiter=limiter(), strangers=limiter())
        self._hub = hub

    @property
    def body_bytes_max(self) -> int:
        return self._hub.settings.limits.body_bytes_max

    def check_source(self, visit: Visit) -> None:
        hub, headers = self._hub, visit.headers
        host, origin = headers.get(b"host"), headers.get(b"origin")
        if not host_allowed(host, port=hub.port, names=hub.names):
            raise HostForbidden("The Host header does not name this machine")
        if origin is not None and not origin_allowed(origin, host, port=hub.port, names=hub.names):
            raise OriginForbidden("The Origin header names another site")

    def admit(self, endpoint: Endpoint[Any], visit: Visit) -> Key | None:
        hub = self._hub
        is_read = endpoint.method == "GET"
        if not (is_read and hub.settings.hub.open_reads) or endpoint.always_closed:
            self._authenticate(endpoint, visit, is_read=is_read)
        hub.touch()
        agent = visit.headers.get(b"x-parley-agent")
        if not agent:
            return visit.scope["client"]
        name = agent.decode("latin-1")
        hub.presence.saw(name)
        return None if visit.headers.get(PASS_HEADER) == hub.guest_pass else name

    def admit_stranger(self, endpoint: Endpoint[Any], visit: Visit) -> None:
        super().admit_stranger(endpoint, visit)
        if endpoint.method != "GET":
            require_origin(visit.headers.get(b"origin"))

    def admit_upgrade(self, visit: Visit) -> Key | None:
        query = parse_qs(visit.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        asked = query.get("token", [""])
        if len(asked) > 1:
            raise InvalidInput("The query has more than one token", field="token")
        token = asked[0].encode() or visit.token
        if not token:
            session = self._hub.page.admit(visit.headers.get(b"cookie"), visit.headers.get(b"origin"))
            visit.proof = Proof(session=session)
        elif self._hub.tokens.matches(token):
            visit.proof = Proof(token)
        else:
            raise InvalidAuth("Unauthorized")
        return visit.scope["client"]

    def translate(self, fault: Exception) -> ParleyError | None:
        return translate(fault) if isinstance(fault, apsw.Error) else None

    def _authenticate(self, endpoint: Endpoint[Any], visit: Visit, *, is_read: bool) -> None:
        hub, token, headers = self._hub, visit.token, visit.headers
        if token and hub.tokens.matches(token):
            return
        if token:
            raise InvalidAuth("Unauthorized")
        if endpoint.token_only:
            raise MissingAuth("Unauthorized")
        if is_read:
            hub.page.admit_read(headers.get(b"cookie"), headers.get(b"sec-fetch-site"))
        else:
            hub.page.admit(headers.get(b"cookie"), headers.get(b"origin"))
