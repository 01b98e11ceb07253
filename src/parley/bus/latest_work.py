"""Work that is asked for more often than it can be done: one run at a time for each key, and one more if it was asked
for meanwhile. So whoever causes it cannot have it pile up, and the last run sees what was asked for last."""

from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from parley.bus.background import Background

K = TypeVar("K", bound=Hashable)


class LatestWork(Generic[K]):
    """Belongs to one event loop."""

    def __init__(self, background: Background, work: Callable[[K], Awaitable[None]]) -> None:
        self._background = background
        self._work = work
        self._asked_again: dict[K, bool] = {}

    def __len__(self) -> int:
        """For how many keys there is work."""
        return len(self._asked_again)

    def __contains__(self, key: K) -> bool:
        return key in self._asked_again

    def ask(self, key: K) -> None:
        """Has the work done for this key, from now on."""
        if key in self._asked_again:
            self._asked_again[key] = True
        else:
            self._asked_again[key] = False
            self._background.spawn(self._run(key))

    async def _run(self, key: K) -> None:
        try:
            await self._work(key)
            while self._asked_again[key]:
                self._asked_again[key] = False
                await self._work(key)
        finally:
            del self._asked_again[key]
