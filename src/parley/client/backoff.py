"""How long to wait before the next try: growing, bounded and jittered, so that clients do not all come back at once."""

from collections.abc import Callable
from dataclasses import dataclass

Random = Callable[[], float]
"""A source of numbers in [0, 1); handed in, so that a test knows every delay."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubles from ``first_seconds`` to ``most_seconds``; each delay is between half of that and all of it."""

    first_seconds: float
    most_seconds: float

    def delay(self, failures: int, random: Random) -> float:
        """The wait after this many failures in a row, counted from 1."""
        # The exponent is bounded because a feed may fail for months, and 2.0 ** 1024 is an error.
        full = min(self.most_seconds, self.first_seconds * 2.0 ** min(failures - 1, 63))
        return full * (0.5 + random() / 2)


CALL_BACKOFF = Backoff(0.05, 5.0)
"""Between the tries of one call, while its caller waits."""
FEED_BACKOFF = Backoff(1.0, 30.0)
"""Between the connections of a feed, which never gives up."""
