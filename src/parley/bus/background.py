"""Work that nobody waits for until everything ends."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

_log: Final = logging.getLogger(__name__)


class Background:
    """Tasks that run until they are done, or are given up."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], None] = {}
        """In the order in which they began, which is that in which they are given up."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Begins the work. What it raises is logged."""
        task = asyncio.ensure_future(work)
        self._tasks[task] = None
        task.add_done_callback(self._done)

    async def finish(self, seconds: float) -> None:
        """Waits so long, and gives up the rest."""
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a task of the bus failed", exc_info=task.exception())
