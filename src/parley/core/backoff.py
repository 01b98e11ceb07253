"""How long to wait before trying again: twice as long each time, spread so that many daemons do not come at once."""

from collections.abc import Callable
from typing import Final, NamedTuple

Jitter = Callable[[], float]
"""A number from 0 up to 1, a new one each time."""
_DOUBLINGS_MAX: Final = 20


class Backoff(NamedTuple):
    """The waits, in milliseconds. ``spread`` is the share by which a wait may be shorter or longer."""

    first_ms: int = 500
    most_ms: int = 30_000
    spread: float = 0.25

    def wait_ms(self, failures: int, jitter: Jitter) -> int:
        """The wait after so many failures in a row, the first of which is 1."""
        plain = min(self.most_ms, self.first_ms * 2 ** min(max(failures - 1, 0), _DOUBLINGS_MAX))
        return max(1, round(plain * (1 + self.spread * (2 * jitter() - 1))))
