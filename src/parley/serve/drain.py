"""The requests in flight, so that a stop can refuse new ones and wait for those that were let in.

Used from the event loop alone.
"""

import asyncio

from parley.core.errors import ShuttingDown


class InFlight:
    """Counts requests between ``begin`` and ``end``; after ``close`` no new one begins."""

    __slots__ = ("_emptied", "closing", "count")

    def __init__(self) -> None:
        self.count = 0
        self.closing = False
        self._emptied: asyncio.Event | None = None

    def begin(self) -> None:
        """Lets a request in; each needs one ``end``. Raises ``ShuttingDown`` once the server is closing."""
        if self.closing:
            raise ShuttingDown
        self.count += 1

    def end(self) -> None:
        """The request is answered, or its caller is gone."""
        self.count -= 1
        if self.count == 0 and self._emptied is not None:
            self._emptied.set()

    def close(self) -> None:
        """From now on nothing new begins."""
        self.closing = True

    async def wait_empty(self, timeout: float) -> bool:
        """Waits until nothing is in flight, at most ``timeout`` seconds; whether it came to that."""
        if self.count == 0:
            return True
        if self._emptied is None:
            self._emptied = asyncio.Event()
        self._emptied.clear()
        try:
            async with asyncio.timeout(timeout):
                await self._emptied.wait()
        except TimeoutError:
            return False
        return True
