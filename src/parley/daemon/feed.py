"""Followers of the daemon's log. They read it themselves, from the number of the last event that they had, so that a
slow one costs nobody else anything and holds nothing in memory; one that falls too far behind is told so.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

from parley.core.daemon_errors import TooManyStreams
from parley.daemon.inbox.events import DaemonEvent


class Follower:
    """One stream: it is woken when there is something to read, and counts how much it has not been woken for yet."""

    def __init__(self, queue_max: int) -> None:
        self._queue_max = queue_max
        self._waiting = 0
        self._woken = asyncio.Event()
        self._closed = False

    def offer(self, count: int) -> None:
        """So many events were added to the log."""
        self._waiting += count
        self._woken.set()

    def close(self) -> None:
        """Ends the stream."""
        self._closed = True
        self._woken.set()

    def caught_up(self) -> bool:
        """The follower is about to read all there is. True if it had fallen further behind than it may."""
        lagged = self._waiting > self._queue_max
        self._waiting = 0
        self._woken.clear()
        return lagged

    async def wait(self, timeout: float) -> bool:
        """Waits for something to read. False when the stream is over. Raises ``TimeoutError`` when nothing came."""
        if not self._closed and not self._woken.is_set():
            async with asyncio.timeout(timeout):
                await self._woken.wait()
        return not self._closed


class Feed:
    """All followers of one daemon."""

    def __init__(self, streams_max: int, queue_max: int) -> None:
        self._streams_max = streams_max
        self._queue_max = queue_max
        self._followers: set[Follower] = set()
        self._closed = False
        self._counted: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._followers)

    def limit(self, streams_max: int, queue_max: int) -> None:
        """Other limits for streams that begin from now on."""
        self._streams_max = streams_max
        self._queue_max = queue_max

    def follow(self) -> Follower:
        """Begins a stream. Raises ``TooManyStreams``."""
        if len(self._followers) >= self._streams_max or self._closed:
            raise TooManyStreams("Too many streams are open", limit=self._streams_max)
        follower = Follower(self._queue_max)
        self._followers.add(follower)
        return follower

    def leave(self, follower: Follower) -> None:
        """Ends a stream."""
        self._followers.discard(follower)

    def publish(self, events: Sequence[DaemonEvent]) -> None:
        """Wakes everybody for events that are in the log."""
        for event in events:
            self._counted[event.kind] += 1
        if events:
            for follower in self._followers:
                follower.offer(len(events))

    def take_counts(self) -> dict[str, int]:
        """How many events of each kind were published since this was asked last."""
        counted, self._counted = self._counted, Counter()
        return dict(counted)

    def close(self) -> None:
        """Ends all streams."""
        self._closed = True
        for follower in self._followers:
            follower.close()
