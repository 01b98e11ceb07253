"""Sessions of a browser, as cookies that carry their own proof.

The value is ``ID.EXPIRY.SIGNATURE``: random, the Unix second of its end, and a signature by the server's token over
both and over the server's identity. So a session needs no table, outlives a restart, and ends with its time or with the
token that signed it. The price: a single session cannot be taken back before, only all of them, by rotating the token.

Cookies know no ports. Another server on the same host name can set a cookie with our name; so a request may carry
several, and one that is valid is enough.
"""

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from parley.core.clock import Clock
from parley.core.errors import InvalidAuth, MissingAuth
from parley.core.ids import is_id, new_code
from parley.core.limits import PAGE_SESSION_SECONDS
from parley.serve.token import TokenStore

_VALUE: Final = re.compile(rb"([A-Za-z0-9_-]{16,64}\.([0-9]{1,12}))\.([0-9a-f]{64})")
_CANDIDATES_MAX: Final = 8
"""Each costs a signature; a browser sends one, and a few more if another server sets them."""
_ATTRIBUTES: Final = "HttpOnly; SameSite=Strict; Path=/"


class PageSessions:
    """Makes and recognises the session cookies of one server."""

    def __init__(self, tokens: TokenStore, clock: Clock, identity: str, new_id: Callable[[], str] = new_code) -> None:
        """``identity`` names what is served: another one's sessions are not valid here, and its cookie is another."""
        self._tokens = tokens
        self._clock = clock
        self._new_id = new_id
        # The identity comes from a file that may be anybody's; only what is plainly a name may stand in a header.
        name = identity if is_id(identity) else sha256(identity.encode()).hexdigest()[:32]
        self.cookie_name = f"parley_{name}"
        self._prefix = f"{self.cookie_name}=".encode()
        self._purpose = b"page session of " + identity.encode()

    def start(self, *, secure: bool) -> str:
        """The ``Set-Cookie`` value of a new session. A ``secure`` one is never sent over plain HTTP."""
        claim = f"{self._new_id()}.{self._clock.now_ms() // 1000 + PAGE_SESSION_SECONDS}"
        signature = self._tokens.sign(self._purpose, claim.encode()).hex()
        return f"{self.cookie_name}={claim}.{signature}; Max-Age={PAGE_SESSION_SECONDS}; {_attributes(secure)}"

    def end(self, *, secure: bool) -> str:
        """The ``Set-Cookie`` value that makes a browser forget its session."""
        return f"{self.cookie_name}=; Max-Age=0; {_attributes(secure)}"

    def find(self, cookies: bytes | None) -> bytes:
        """The valid session among a request's cookies. Raises ``MissingAuth`` or ``InvalidAuth`` if there is none."""
        parts = (part.strip() for part in (cookies or b"").split(b";"))
        candidates = [part.removeprefix(self._prefix) for part in parts if part.startswith(self._prefix)]
        for session in candidates[:_CANDIDATES_MAX]:
            if self.is_valid(session):
                return session
        raise InvalidAuth("Unauthorized") if any(candidates) else MissingAuth("Unauthorized")

    def is_valid(self, session: bytes) -> bool:
        """Whether this is a session of ours that has not ended."""
        match = _VALUE.fullmatch(session)
        if match is None:
            return False
        claim, expiry, signature = match.groups()
        if int(expiry) * 1000 <= self._clock.now_ms():
            return False
        return self._tokens.verify(self._purpose, claim, bytes.fromhex(signature.decode()))


def _attributes(secure: bool) -> str:
    return f"{_ATTRIBUTES}; Secure" if secure else _ATTRIBUTES
