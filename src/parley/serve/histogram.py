"""Counts of observations by size: small enough to keep one per endpoint, exact enough for quantiles on a log line."""

from collections.abc import Iterable, Sequence
from math import ceil, inf
from typing import Final, Self

SECONDS: Final = (
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0
)  # fmt: skip
"""Upper bounds for times: from an answer out of memory to one that nobody waits for."""
SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
"""Upper bounds for counts of things."""


class Histogram:
    """``counts[i]`` observations were at most ``bounds[i]`` and above the bound before; the last had no bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    @classmethod
    def for_metric(cls, name: str) -> Self:
        """An empty one with the bounds that fit the metric's unit, which its name ends with."""
        return cls(SECONDS if name.endswith("_seconds") else SIZES)

    @classmethod
    def merged(cls, name: str, parts: "Iterable[Histogram]") -> Self:
        """The sum of several histograms of one metric."""
        merged = cls.for_metric(name)
        for part in parts:
            merged.counts = [a + b for a, b in zip(merged.counts, part.counts, strict=True)]
            merged.total += part.total
        return merged

    @property
    def count(self) -> int:
        """How many observations there are."""
        return sum(self.counts)

    def minus(self, earlier: "Histogram") -> "Histogram":
        """What was observed since an earlier state of this histogram."""
        recent = Histogram(self.bounds)
        recent.counts = [a - b for a, b in zip(self.counts, earlier.counts, strict=True)]
        recent.total = self.total - earlier.total
        return recent

    def cumulative(self) -> list[tuple[str, float]]:
        """Each bound with the number of observations up to it, as Prometheus counts."""
        buckets: list[tuple[str, float]] = []
        running = 0
        for bound, count in zip((*self.bounds, inf), self.counts, strict=True):
            running += count
            buckets.append(("+Inf" if bound == inf else repr(bound), running))
        return buckets

    def quantile(self, share: float) -> float | None:
        """The value that ``share`` of the observations do not exceed, interpolated within its bucket.

        ``None`` without observations; the largest bound if it lies beyond. Things that are counted are whole, so a
        quantile of ``SIZES`` is rounded up: there is no batch of half a write.
        """
        rank = share * self.count
        if rank == 0:
            return None
        running, low = 0, 0.0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            if running + count >= rank:
                value = low + (bound - low) * (rank - running) / count
                return float(ceil(value)) if self.bounds is SIZES else value
            running, low = running + count, bound
        return self.bounds[-1]
