"""Who may act as the page: a browser with a session cookie, and only from our own page.

A cookie comes with every request that the browser makes to this host name, whichever page asked for it and whatever the
port: cookies know no ports, and ``SameSite`` takes all ports for one site. So the cookie alone proves nothing about who
asks. What changes something, and the feed, must name our exact ``Origin``, which no page can forge. A read carries no
``Origin``; there the browser's ``Sec-Fetch-Site`` tells our page and a typed address from everything else.
"""

from typing import Final

from parley.core.clock import Clock
from parley.core.errors import OriginForbidden
from parley.serve import LoginCodes, PageSessions, TokenStore

_OWN_READS: Final = (None, b"same-origin", b"none")
"""Values of ``Sec-Fetch-Site`` with which a read is ours; programs and old browsers send none."""


class PageAccess:
    """The codes and the sessions of one hub's page."""

    def __init__(self, tokens: TokenStore, clock: Clock, db_id: str) -> None:
        self.codes = LoginCodes(clock)
        self.sessions = PageSessions(tokens, clock, db_id)

    def admit_read(self, cookies: bytes | None, fetch_site: bytes | None) -> bytes:
        """The session of a request that only reads. Raises why there is none."""
        session = self.sessions.find(cookies)
        if fetch_site not in _OWN_READS:
            raise OriginForbidden("The request was made by a page of another site")
        return session

    def admit(self, cookies: bytes | None, origin: bytes | None) -> bytes:
        """The session of any other request, whose ``Origin`` is ours if it has one. Raises why there is none."""
        session = self.sessions.find(cookies)
        require_origin(origin)
        return session


def require_origin(origin: bytes | None) -> None:
    """Refuses what cannot be told to come from our page. That an ``Origin`` is ours was looked at before."""
    if origin is None:
        raise OriginForbidden("A request by the page must carry its Origin header")
