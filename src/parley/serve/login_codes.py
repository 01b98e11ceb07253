"""One-time codes: how a browser, which cannot read the token file, shows that a person who can has sent it.

A code is asked for with the token, travels in the fragment of a link, which browsers send to no server, and is
exchanged for a session. It works once and for a short time. Codes live in memory alone: a restart of the server ends
them. While a code is of use, no log line of this process holds it.
"""

import hmac
from collections.abc import Callable

from parley.core.clock import Clock
from parley.core.ids import new_code
from parley.core.limits import LOGIN_CODE_SECONDS, LOGIN_CODES_MAX
from parley.serve.redact import forget_secret, register_secret


class LoginCodes:
    """The codes that were issued and not yet used. Used from the event loop alone."""

    def __init__(self, clock: Clock, new: Callable[[], str] = new_code) -> None:
        self._clock = clock
        self._new = new
        self._ends: dict[str, float] = {}

    def __len__(self) -> int:
        """The codes held now."""
        return len(self._ends)

    def __repr__(self) -> str:
        return f"LoginCodes({len(self._ends)} held)"

    def issue(self) -> str:
        """A new code. At the limit the oldest one gives way, so that whoever asks last is served."""
        self._drop_old()
        if len(self._ends) >= LOGIN_CODES_MAX:
            self._drop(next(iter(self._ends)))
        code = self._new()
        register_secret(code)
        self._ends[code] = self._clock.monotonic() + LOGIN_CODE_SECONDS
        return code

    def redeem(self, candidate: str) -> bool:
        """Whether the candidate is a code; it is one no longer afterwards. The time taken tells nothing about codes."""
        self._drop_old()
        given = candidate.encode("utf-8", "surrogatepass")
        found = None
        for code in self._ends:
            if hmac.compare_digest(given, code.encode()):
                found = code
        if found is None:
            return False
        self._drop(found)
        return True

    def _drop_old(self) -> None:
        now = self._clock.monotonic()
        for code in [code for code, end in self._ends.items() if end <= now]:
            self._drop(code)

    def _drop(self, code: str) -> None:
        del self._ends[code]
        forget_secret(code)
