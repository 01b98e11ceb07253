"""The circuit breaker of a plugin: one that fails again and again is left alone for a while.

It opens after so many failures in a row. When its time is over one run is let through; if that one succeeds it closes,
if it fails it opens again at once.
"""


class Breaker:
    """Failures in a row, and until when the plugin is left alone. Times are of a monotonic clock."""

    def __init__(self, failures_max: int, pause_seconds: float) -> None:
        self._failures_max = failures_max
        self._pause_seconds = pause_seconds
        self._failures = 0
        self._open_until: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether the plugin is left alone, or on trial after it was."""
        return self._open_until is not None

    def wait_seconds(self, now: float) -> float:
        """How long the plugin must still be left alone."""
        return 0.0 if self._open_until is None else max(0.0, self._open_until - now)

    def succeeded(self) -> None:
        """A run was good: all is forgotten."""
        self._failures = 0
        self._open_until = None

    def failed(self, now: float) -> bool:
        """A run failed; True if the breaker opens with it, coming from closed."""
        self._failures += 1
        if self._failures < self._failures_max:
            return False
        newly = self._open_until is None
        self._open_until = now + self._pause_seconds
        return newly
