"""An event loop whose time stands still while anything can run, and goes to the next timer when nothing can.

So a test waits as long as it likes in no time at all, nothing in it depends on how fast the machine is, and a timeout
fires only when nobody could have prevented it. The loop has no real sockets and no threads: who waits for those waits
for ever, which is an error here.
"""

import asyncio
import selectors
from typing import Any

from parley.core.clock import ManualClock


class Stuck(Exception):
    """Everybody waits for something that nobody will do."""


class TimelessLoop(asyncio.SelectorEventLoop):
    """The loop. ``clock`` shows its time, and can jump besides."""

    def __init__(self) -> None:
        self._now = 0.0
        self.clock = LoopClock(self)
        self._waiting_for_quiet: list[asyncio.Future[None]] = []
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self._now

    async def quiet(self) -> None:
        """Waits until nothing can run but what waits for a timer."""
        waiting = self.create_future()
        self._waiting_for_quiet.append(waiting)
        await waiting

    def rest(self, seconds: float | None) -> None:
        """Nothing can run: tells whoever waits for that, or else goes to the next timer."""
        if self._waiting_for_quiet:
            self._waiting_for_quiet.pop().set_result(None)
        elif seconds is None:
            raise Stuck("everybody waits, and no timer is set")
        else:
            self._now += seconds


class LoopClock(ManualClock):
    """A clock that goes with the loop."""

    def __init__(self, loop: TimelessLoop) -> None:
        super().__init__()
        self._loop = loop

    def now_ms(self) -> int:
        return super().now_ms() + round(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: TimelessLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[Any, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        self._loop.rest(timeout)
        return []
