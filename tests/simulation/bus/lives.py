"""An event loop on simulated time whose tasks belong to lives, so that a process can die in the midst of anything.

A bus is asyncio through and through; here the loop is the scheduler. What a task of a life begins belongs to the same
life. When it ends, none of its tasks runs on to anything that matters: they are cancelled, and their store and their
network are gone before they notice.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

from tests.bus.timeless import TimelessLoop


class Life:
    """One life of a process."""

    def __init__(self) -> None:
        self.is_over = False
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Has the work done in this life, by a task of its own."""
        before = _life.set(self)
        try:
            asyncio.get_running_loop().create_task(work)
        finally:
            _life.reset(before)

    def end(self) -> None:
        """Nothing that was begun in it goes on."""
        self.is_over = True
        for task in list(self._tasks):
            task.cancel()

    def has(self, task: asyncio.Task[Any]) -> None:
        """Takes a task."""
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        if self.is_over:
            task.cancel()


_life: ContextVar[Life | None] = ContextVar("life", default=None)


class SimulatedLoop(TimelessLoop):
    """The loop. What would run in a thread runs at once."""

    def __init__(self) -> None:
        super().__init__()
        self.set_task_factory(_new_task)  # type: ignore[arg-type]

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":  # type: ignore[override]
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


def _new_task(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **more: Any) -> asyncio.Task[Any]:
    task = asyncio.Task(work, loop=loop, **more)
    life = _life.get()
    if life is not None:
        life.has(task)
    return task
