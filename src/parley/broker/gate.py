"""The way from an event loop to a store: a rule goes in, a future comes out, and nothing waits for the disk.

Rules that wait are committed together. For SQLite that is the one writer of the file. For PostgreSQL there are three
lanes, each with threads of its own. Messages to be accepted take the lock of their mesh, and so do requests that change
it; what is claimed and acknowledged meanwhile need not queue up behind either.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from parley.broker.calls import AcceptMessage, AcknowledgeDeliveries, ClaimDeliveries
from parley.broker.sqlite_store import SqliteStore
from parley.broker.store import BrokerStore
from parley.broker.tx import Rule
from parley.core.errors import FilesLost, InternalError, ServiceUnavailable, ShuttingDown
from parley.sqlite import FileWatch, Outcome
from parley.sqlite.async_writer import AsyncWriter

T = TypeVar("T")
BATCH_MAX: Final = 256
QUEUE_MAX: Final = 10_000
"""Rules that may wait in a lane; more are refused for now, which a daemon repeats."""
_DELIVERING: Final[tuple[type, ...]] = (AcknowledgeDeliveries, ClaimDeliveries)
_OTHER_THREADS: Final = 2


class Gate(Protocol):
    """All methods belong to the loop's thread."""

    def run(self, rule: Rule[T]) -> "asyncio.Future[T]":
        """The rule's value once it is durable. Raises at once when the rule is refused."""
        ...

    async def stop(self) -> None:
        """Finishes what waits and takes nothing new."""
        ...


class SqliteGate:
    """The gate to a file."""

    def __init__(
        self,
        store: SqliteStore,
        files: FileWatch | None = None,
        on_lost: Callable[[FilesLost], None] | None = None,
    ) -> None:
        """``files`` are looked at before anything is answered for; ``on_lost`` is told when they are not there."""
        self._store = store
        look = None if files is None else files.look
        self.writer = AsyncWriter(store.connection, queue_max=QUEUE_MAX, before_answer=look, on_lost=on_lost)

    def run(self, rule: Rule[T]) -> "asyncio.Future[T]":
        return self.writer.run(self._store.write(rule))

    async def stop(self) -> None:
        await self.writer.stop()
        self._store.leave_log = self.writer.writer.log_is_suspect


class LaneGate:
    """The gate to a store that may be used by several threads."""

    def __init__(self, store: BrokerStore) -> None:
        self._loop = asyncio.get_running_loop()
        self._accepting = _Lane(store.commit, self._loop, threads=1)
        self._delivering = _Lane(store.commit, self._loop, threads=1)
        self._others = _Lane(store.commit, self._loop, threads=_OTHER_THREADS)

    def run(self, rule: Rule[T]) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = self._loop.create_future()
        self._lane_of(rule).submit(rule, future)
        return future

    async def stop(self) -> None:
        for lane in (self._accepting, self._delivering, self._others):
            await self._loop.run_in_executor(None, lane.stop)
        await asyncio.sleep(0)  # what the threads have handed over is settled before this returns

    def _lane_of(self, rule: Rule[Any]) -> "_Lane":
        if isinstance(rule, AcceptMessage):
            return self._accepting
        return self._delivering if isinstance(rule, _DELIVERING) else self._others


class _Lane:
    """Threads that commit whatever waits."""

    def __init__(
        self,
        commit: Callable[[Sequence[Rule[Any]]], list[Outcome[Any]]],
        loop: asyncio.AbstractEventLoop,
        threads: int,
    ) -> None:
        self._commit = commit
        self._loop = loop
        self._waiting: deque[tuple[Rule[Any], asyncio.Future[Any]]] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._live, name=f"parley-lane-{number}", daemon=True) for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, rule: Rule[Any], future: "asyncio.Future[Any]") -> None:
        with self._changed:
            if self._stopping:
                raise ShuttingDown("The broker is shutting down")
            if len(self._waiting) >= QUEUE_MAX:
                raise ServiceUnavailable("Too many writes are waiting", reason="queue_full", queue_max=QUEUE_MAX)
            self._waiting.append((rule, future))
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _live(self) -> None:
        while taken := self._take():
            outcomes: list[Outcome[Any]]
            try:
                outcomes = self._commit([rule for rule, _ in taken])
            except (
                Exception
            ):  # a store says what failed by its outcomes; one that does not must not leave anybody waiting
                outcomes = [Outcome(error=InternalError("The store failed")) for _ in taken]
            futures = [future for _, future in taken]
            self._loop.call_soon_threadsafe(_settle, futures, outcomes)

    def _take(self) -> list[tuple[Rule[Any], "asyncio.Future[Any]"]]:
        """The next batch; empty when there will be none."""
        with self._changed:
            while not self._waiting and not self._stopping:
                self._changed.wait()
            taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_MAX))]
        return sorted(taken, key=_kind_first)


def _kind_first(waiting: tuple[Rule[Any], Any]) -> bool:
    """Acknowledgements before claims, so that rules of a kind run as one. Neither waits for what the other does."""
    return isinstance(waiting[0], ClaimDeliveries)


def _settle(futures: "Sequence[asyncio.Future[Any]]", outcomes: Sequence[Outcome[Any]]) -> None:
    for future, outcome in zip(futures, outcomes, strict=True):
        if future.done():
            continue
        if outcome.error is None:
            future.set_result(outcome.value)
        else:
            future.set_exception(outcome.error)
