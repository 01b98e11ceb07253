"""Time as a value that is handed in.

Rules never read a clock. A shell takes one reading per mutation and passes it on, so every time column that the
mutation writes equals its event's ``ts``. Order never depends on time.
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of wall-clock time and of a monotonic time for deadlines."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch; may jump in either direction."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean anything."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that stands still until a test or a simulation moves it, backwards too."""

    def __init__(self, now_ms: int = 1_767_225_600_000, monotonic: float = 0.0) -> None:
        self._now_ms = now_ms
        self._monotonic = monotonic

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        self._now_ms += round(seconds * 1000)
        self._monotonic += seconds

    def jump(self, milliseconds: int) -> None:
        """Moves the wall clock alone, as an administrator or a time server would."""
        self._now_ms += milliseconds


_seconds_cached: tuple[int, str] = (-1, "")


def iso(now_ms: int) -> str:
    """``2026-02-04T23:30:45.123Z``: UTC, always with three decimals."""
    global _seconds_cached
    seconds, milliseconds = divmod(now_ms, 1000)
    cached = _seconds_cached
    if cached[0] != seconds:
        cached = (seconds, datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S"))
        _seconds_cached = cached
    return f"{cached[1]}.{milliseconds:03d}Z"


def stamp(now_ms: int) -> str:
    """``20260204T233045123Z``: the same time for the name of a file; names sort by it."""
    return iso(now_ms).translate({ord(mark): None for mark in "-:."})


def parse_iso(text: str) -> int:
    """Milliseconds since the epoch of an ISO 8601 time; without a zone it is taken as UTC. Raises ``ValueError``."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
