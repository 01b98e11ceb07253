"""A moment as a machine is told of it."""

from typing import NamedTuple


class Instant(NamedTuple):
    """``ms`` is wall-clock time, which may jump and is written to disk; ``at`` is monotonic seconds, for deadlines."""

    ms: int
    at: float

    def later(self, wall_ms: int) -> float:
        """The monotonic time at which the wall clock will show this, if nobody sets it meanwhile."""
        return self.at + max(0, wall_ms - self.ms) / 1000
