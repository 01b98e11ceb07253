"""Ranges of events: what a hub holds, and how it is divided among tasks.

A range is open below and closed above, ``(lo, hi]``, as a cursor is. Ids become visible in order, since one writer
appends them, so the newest id is a mark up to which nothing can come any more.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from parley.pipeline.hubs import HubRef

RANGE_EVENTS: Final = 250_000
"""Events in one range: about a second of reading and writing, so that a lost task costs little."""
RANGE_COST_EVENTS: Final = 2_000
"""What opening a range costs, told in events; it bounds how many small hubs share a task."""


class Bounds(NamedTuple):
    """What a log holds: events with ids in ``(lo, hi]``; equal when it is empty."""

    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class EventRange:
    """Events of one hub with ids in ``(lo, hi]``, of all names or of some."""

    hub: HubRef
    lo: int
    hi: int
    names: tuple[str, ...] | None = None

    @property
    def span(self) -> int:
        """How many ids it covers."""
        return self.hi - self.lo


def split(whole: EventRange, events: int = RANGE_EVENTS) -> Iterator[EventRange]:
    """The range in parts of equal size, none larger than ``events``."""
    count = -(-whole.span // events)
    for number in range(count):
        lo, hi = (whole.lo + whole.span * part // count for part in (number, number + 1))
        yield EventRange(whole.hub, lo, hi, whole.names)


def pack(ranges: Iterable[EventRange], events: int = RANGE_EVENTS) -> list[tuple[EventRange, ...]]:
    """The ranges of each task: as they come, with small ones together."""
    packs: list[tuple[EventRange, ...]] = []
    current: list[EventRange] = []
    cost = 0
    for each in ranges:
        weight = each.span + RANGE_COST_EVENTS
        if current and cost + weight > events + RANGE_COST_EVENTS:
            packs.append(tuple(current))
            current, cost = [], 0
        current.append(each)
        cost += weight
    return [*packs, tuple(current)] if current else packs
