"""One deadline for many: each answer that is waited for has the same time from the moment when it begins."""

import asyncio
from collections import deque
from typing import Any

from parley.core.bus_errors import NotAcknowledged


class Deadlines:
    """Fails the futures that are not done in time. They are due in the order in which they began, so one timer does."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._due: deque[tuple[float, asyncio.Future[Any]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, answer: "asyncio.Future[Any]") -> None:
        """From now on it has so long; then it fails with ``NotAcknowledged``."""
        self._forget_done()
        self._due.append((self._loop.time() + self._seconds, answer))
        if self._timer is None:
            self._timer = self._loop.call_at(self._due[0][0], self._look)

    def stop(self) -> None:
        """Fails none any more."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        self._forget_done()
        while self._due and self._due[0][0] <= self._loop.time():
            _, answer = self._due.popleft()
            if not answer.done():
                answer.set_exception(NotAcknowledged("the peer did not acknowledge the message in time"))
        if self._due:
            self._timer = self._loop.call_at(self._due[0][0], self._look)

    def _forget_done(self) -> None:
        while self._due and self._due[0][1].done():
            self._due.popleft()
