"""How many requests per second one caller, and all callers together, may make.

Token buckets that refill continuously: a caller may spend one second's worth at once, and over any stretch of time
no more than that burst plus the rate. A request must fit both its own bucket and the one of all; a refused request
takes from neither, so waiting as told always helps.

A bucket is full again after one second without requests, and then it is the same as no bucket. So there are two
generations of them, and each second the older, untouched one is dropped: memory is bounded by what was let in during
two seconds, and no request pays for a sweep. Used from the event loop alone.
"""

from math import ceil
from typing import Final

import msgspec

from parley.core.clock import Clock

Key = str | tuple[str, int]
"""An agent's name, or the address and port of a connection as ASGI gives them."""

_WINDOW_SECONDS: Final = 1.0
_KEY_CHARS_MAX: Final = 200
"""A name is sent by the caller and kept for up to two seconds; longer ones that begin alike share a bucket."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The answer for one request, with what its rate-limit headers say."""

    allowed: bool
    limit: int
    """Requests per second of the bucket that decided."""
    remaining: int
    """Requests that could follow at once."""
    reset_unix_seconds: int
    """When the bucket will be full again, for ``X-RateLimit-Reset``."""
    retry_after: float
    """Seconds to wait before the same request fits; 0 if it was allowed."""


class RateLimiter:
    """Decides for each request whether it is within the limits."""

    def __init__(self, per_key: int, overall: int, clock: Clock) -> None:
        self.limit(per_key, overall)
        self._monotonic = clock.monotonic
        self._now_ms = clock.now_ms
        now = clock.monotonic()
        self._unix_offset = clock.now_ms() / 1000 - now  # read anew each second: one clock fewer to ask per request
        self._used = 0.0  # tokens out of the bucket of all, at the time below
        self._used_at = now
        self._young: dict[Key, tuple[float, float]] = {}
        self._old: dict[Key, tuple[float, float]] = {}
        self._turn_at = now + _WINDOW_SECONDS

    def __len__(self) -> int:
        """The buckets held now."""
        return len(self._young) + len(self._old)

    def limit(self, per_key: int, overall: int) -> None:
        """Other limits from now on; what was taken counts against them."""
        if per_key < 1 or overall < 1:
            raise ValueError("a limit of less than one request per second lets nothing through")
        self._limit = per_key
        self._per_key = float(per_key)  # as floats, because a path that every request takes reckons with them
        self._overall = float(overall)

    def take(self, key: Key) -> Decision:
        """Takes one token from the key's bucket and one from the bucket of all, or none from either."""
        if len(key) > _KEY_CHARS_MAX:
            key = key[:_KEY_CHARS_MAX]
        now = self._monotonic()
        if now >= self._turn_at:
            self._turn(now)
        per_key, overall = self._per_key, self._overall
        used, used_at = self._young.get(key) or self._old.get(key, (0.0, now))
        used -= (now - used_at) * per_key
        used = 1.0 if used < 0.0 else used + 1.0
        used_of_all = self._used - (now - self._used_at) * overall
        used_of_all = 1.0 if used_of_all < 0.0 else used_of_all + 1.0
        if used > per_key:
            return self._refusal(per_key, used, now)
        if used_of_all > overall:
            return self._refusal(overall, used_of_all, now)
        self._young[key] = (used, now)
        self._used, self._used_at = used_of_all, now
        left, left_of_all = per_key - used, overall - used_of_all
        remaining = int(left if left < left_of_all else left_of_all)
        return Decision(True, self._limit, remaining, ceil(now + used / per_key + self._unix_offset), 0.0)

    def _refusal(self, limit: float, used: float, now: float) -> Decision:
        # `used` counts the refused request too: what exceeds the limit is what must flow back first.
        reset = ceil(now + (used - 1.0) / limit + self._unix_offset)
        return Decision(False, int(limit), 0, reset, (used - limit) / limit)

    def _turn(self, now: float) -> None:
        two_windows_ago = self._turn_at + _WINDOW_SECONDS <= now
        self._old = {} if two_windows_ago else self._young
        self._young = {}
        self._turn_at = now + _WINDOW_SECONDS
        self._unix_offset = self._now_ms() / 1000 - now
