"""Time and chance of a simulated world: one queue of events, one seed.

Everything that happens is an event at a time. Two events of the same time come in the order in which they were asked
for, so the whole course of a world follows from its seed. Chance is drawn from named streams, each seeded by the
world's seed and its name: what one part of the world draws does not shift what another does.
"""

import heapq
import itertools
import random
from collections.abc import Callable

Action = Callable[[], None]
EPOCH_MS = 1_767_225_600_000


class Scheduler:
    """The queue. Time is in milliseconds since the world's beginning and moves from event to event."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = 0
        self.events = 0
        self._queue: list[tuple[int, int, Action]] = []
        self._order = itertools.count()

    def stream(self, name: str) -> random.Random:
        """A stream of chance of its own."""
        return random.Random(f"{self.seed}/{name}")

    def after(self, milliseconds: int, action: Action) -> None:
        """Has the action done later; with 0, after all that is due now."""
        heapq.heappush(self._queue, (self.now + max(0, milliseconds), next(self._order), action))

    def run_until(self, time: int) -> None:
        """Does whatever is due up to this time, and lets it come."""
        while self._queue and self._queue[0][0] <= time:
            due, _, action = heapq.heappop(self._queue)
            self.now = due
            self.events += 1
            action()
        self.now = max(self.now, time)


class NodeClock:
    """The clock of one node: its wall time may be set forward and back, its monotonic time may not."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.offset_ms = 0

    def now_ms(self) -> int:
        return EPOCH_MS + self._scheduler.now + self.offset_ms

    def monotonic(self) -> float:
        return self._scheduler.now / 1000
