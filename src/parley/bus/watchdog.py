"""A deadline that is moved all the time and hardly ever comes, at the cost of an assignment each time."""

import asyncio
from collections.abc import Callable


class Watchdog:
    """Calls ``bark`` once nobody has fed it for so long. It begins paused."""

    def __init__(self, seconds: float, bark: Callable[[], None]) -> None:
        self._seconds = seconds
        self._bark = bark
        self._loop = asyncio.get_running_loop()
        self._due: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def feed(self) -> None:
        """Begins to wait anew."""
        self._due = self._loop.time() + self._seconds
        if self._timer is None:
            self._timer = self._loop.call_at(self._due, self._look)

    def pause(self) -> None:
        """Waits for nothing until it is fed again."""
        self._due = None

    def stop(self) -> None:
        """Never barks again."""
        self._due = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._due is None:
            return
        if self._due > self._loop.time():
            self._timer = self._loop.call_at(self._due, self._look)
        else:
            self._due = None
            self._bark()
