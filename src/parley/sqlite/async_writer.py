"""The writer as an event loop sees it: ``value = await writer.run(write)``.

One commit costs the loop one callback, whatever the number of writes in it: the writer's thread hands the whole batch
over with a single ``call_soon_threadsafe``. On the loop the hook ``after_commit`` sees the batch first, so events are
published in commit order and before any caller learns that its write is done; then the futures resolve in that order.

The thread is woken once per turn of the loop, after everything that was ready has run: the requests that arrived
together share a commit instead of racing the thread for it.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar, cast

import apsw

from parley.core.errors import DatabaseCorrupt, ParleyError
from parley.sqlite.batch import Write
from parley.sqlite.writer import BATCH_MAX, QUEUE_MAX, Batch, State, Writer

T = TypeVar("T")


class AsyncWriter:
    """A ``Writer`` whose outcomes arrive on one event loop. All methods belong to that loop's thread."""

    def __init__(
        self,
        connection: apsw.Connection,
        *,
        after_commit: Callable[[Batch], None] | None = None,
        queue_max: int = QUEUE_MAX,
        batch_max: int = BATCH_MAX,
        before_commit: Write[None] | None = None,
        on_corrupt: Callable[[DatabaseCorrupt], None] | None = None,
        on_death: Callable[[BaseException], None] | None = None,
    ) -> None:
        """``on_corrupt`` and ``on_death`` are called on the loop, too."""
        self._loop = asyncio.get_running_loop()
        self._after_commit = after_commit
        self._waking = False
        self.last_commit_seconds = 0.0
        """How long the commit took that ``after_commit`` is being told of."""
        self.writer = Writer(
            connection,
            on_committed=self._from_thread,
            queue_max=queue_max,
            batch_max=batch_max,
            before_commit=before_commit,
            on_corrupt=self._on_loop(on_corrupt),
            on_death=self._on_loop(on_death),
        )
        self.writer.start()

    @property
    def state(self) -> State:
        return self.writer.state

    @property
    def refuse_with(self) -> ParleyError | None:
        return self.writer.refuse_with

    @refuse_with.setter
    def refuse_with(self, error: ParleyError | None) -> None:
        self.writer.refuse_with = error

    def run(self, write: Write[T]) -> "asyncio.Future[T]":
        """Queues the write; the future holds its value once it is durable. Raises at once when it is refused."""
        future: asyncio.Future[T] = self._loop.create_future()
        self.writer.submit(write, future, wake=False)
        if not self._waking:
            self._waking = True
            self._loop.call_soon(self._wake)
        return future

    async def stop(self, *, drain: bool = True, timeout: float | None = None) -> bool:
        """As ``Writer.stop``. When it returns True every future has been resolved."""
        return await self._loop.run_in_executor(None, lambda: self.writer.stop(drain=drain, timeout=timeout))

    def _wake(self) -> None:
        self._waking = False
        self.writer.wake()

    def _from_thread(self, outcomes: Batch) -> None:
        self._loop.call_soon_threadsafe(self._settle, outcomes, self.writer.last_commit_seconds)

    def _settle(self, outcomes: Batch, seconds: float) -> None:
        self.last_commit_seconds = seconds
        try:
            if self._after_commit is not None:
                self._after_commit(outcomes)
        finally:
            for outcome in outcomes:
                waiter = outcome.waiter
                if isinstance(waiter, asyncio.Future) and not waiter.done():
                    future = cast("asyncio.Future[Any]", waiter)
                    if outcome.error is None:
                        future.set_result(outcome.value)
                    else:
                        future.set_exception(outcome.error)

    def _on_loop(self, callback: Callable[[Any], None] | None) -> Callable[[Any], None] | None:
        if callback is None:
            return None
        return lambda argument: self._loop.call_soon_threadsafe(callback, argument) and None
