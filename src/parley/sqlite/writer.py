"""The one writer of a database: a thread that commits whatever is waiting, together.

While a commit waits for the disk, new writes gather in the queue; the next commit takes them all. So batches grow with
the load by themselves. The thread is a shell around ``run_batch``.

The interpreter's switch interval stays at its default on purpose: with shorter ones the thread barges in after the
first few requests of a turn of the loop. At 0.2 ms commits shrank by half and a write cost 7 % more CPU, at 0.05 ms a
third more, and no latency was gained. Two other ways were no better: to run the statements on the loop and only COMMIT
here, and to wake the thread over a pipe instead of a condition.

A commit is worth nothing if the file is no longer where it is looked for. So ``before_answer`` runs after each commit,
and every second when there is none. If it raises, nobody of the batch is told of a success, and nothing is written any
more.

The life of a writer is ``open → stopping → stopped``. While stopping it commits what was accepted (or refuses it, when
told not to drain) and takes nothing new. If the thread ever dies, everything that waits is refused, ``on_death`` is
called and every later submit says so.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

import apsw

from parley.core.errors import (
    DatabaseCorrupt,
    FilesLost,
    InternalError,
    ParleyError,
    ServiceUnavailable,
    ShuttingDown,
)
from parley.sqlite.batch import Outcome, Write, run_batch

T = TypeVar("T")
State = Literal["open", "stopping", "stopped"]
Batch = list[Outcome[Any]]

BATCH_MAX: Final = 256
"""Bounds how long the first caller of a batch waits for the last one."""
QUEUE_MAX: Final = 4096
LOOK_SECONDS: Final = 1.0
"""How long a writer without work waits before it looks whether its files are still there."""


class Writer:
    """Owns the writing of one connection. ``submit`` is safe from any thread; callbacks come on the writer's thread."""

    def __init__(
        self,
        connection: apsw.Connection,
        *,
        on_committed: Callable[[Batch], None],
        queue_max: int = QUEUE_MAX,
        batch_max: int = BATCH_MAX,
        before_commit: Write[None] | None = None,
        before_answer: Callable[[], None] | None = None,
        on_corrupt: Callable[[DatabaseCorrupt], None] | None = None,
        on_lost: Callable[[FilesLost], None] | None = None,
        on_death: Callable[[BaseException], None] | None = None,
    ) -> None:
        """``on_committed`` gets the outcomes of one commit, in commit order, each with its submitter's waiter.

        ``before_answer`` raises ``FilesLost`` if the commits are not where they belong.
        """
        self.refuse_with: ParleyError | None = None
        """The gate: while set, every submit is refused with it (log too large, disk nearly full, database damaged)."""
        self.log_is_suspect = False
        """Set once the log may have a hole. Nothing of it may be moved into the database any more."""
        self.commits = 0
        self.last_commit_seconds = 0.0
        """How long the last batch took, its sync to disk included; set before ``on_committed`` is called."""
        self._connection = connection
        self._on_committed = on_committed
        self._before_commit = before_commit
        self._before_answer = before_answer
        self._on_corrupt = on_corrupt
        self._on_lost = on_lost
        self._lost: FilesLost | None = None
        self._on_death = on_death
        self._queue_max = queue_max
        self._batch_max = batch_max
        self._queue: deque[tuple[Write[Any], Any]] = deque()
        self._errands: deque[tuple[Callable[[], Any], _SyncWaiter]] = deque()
        self._state: State = "open"
        self._draining = True
        self._death: BaseException | None = None
        self._changed = threading.Condition()
        self._asleep = False
        self._called = False
        self._thread = threading.Thread(target=self._live, name="parley-writer", daemon=True)

    @property
    def state(self) -> State:
        return self._state

    @property
    def waiting(self) -> int:
        """How many writes are in the queue now."""
        return len(self._queue)

    @property
    def death(self) -> BaseException | None:
        """What killed the thread, if anything did."""
        return self._death

    def start(self) -> None:
        self._thread.start()

    def submit(self, write: Write[Any], waiter: Any = None, *, wake: bool = True) -> None:
        """Queues a write, or raises the reason why it is refused; a refused write never runs.

        With ``wake=False`` it waits until ``wake`` is called, so that a caller who sees more writes coming can have
        them committed together.
        """
        with self._changed:
            if self._state != "open":
                raise self._closed()
            refusal = self._lost or self.refuse_with
            if refusal is not None:
                raise refusal.with_traceback(None)  # one object for all: its traceback must not grow
            if len(self._queue) >= self._queue_max:
                raise ServiceUnavailable("Too many writes are waiting", reason="queue_full", queue_max=self._queue_max)
            self._queue.append((write, waiter))
            if wake:
                self._call()

    def wake(self) -> None:
        """Has what is waiting committed, at once or after the commit that is under way."""
        with self._changed:
            self._call()

    def run_sync(self, write: Write[T]) -> T:
        """Submits and waits. Not for a thread that runs an event loop."""
        waiter = _SyncWaiter()
        self.submit(write, waiter)
        return waiter.result()

    def between_commits(self, errand: Callable[[], T]) -> T:
        """Runs something on the writer's thread while no transaction is open, and waits for it.

        For what needs the write lock for a moment: asked for by another connection, it might never get its turn.
        """
        waiter = _SyncWaiter()
        with self._changed:
            if self._state != "open":
                raise self._closed()
            self._errands.append((errand, waiter))
            self._changed.notify()
        return waiter.result()

    def log_is_whole(self) -> bool:
        """Looks, between two commits, whether the log may be moved into the database."""
        self.between_commits(lambda: self._look([]))
        return not self.log_is_suspect

    def give_up(self, lost: FilesLost) -> None:
        """Writes nothing any more, and answers no commit that is under way: its files are lost."""
        if self._lost is None:
            self._lost = lost
            if lost.details["reason"] == "cut short":
                self.log_is_suspect = True
            if self._on_lost is not None:
                self._on_lost(lost)

    def stop(self, *, drain: bool = True, timeout: float | None = None) -> bool:
        """Takes nothing new, finishes (or, without ``drain``, refuses) what waits. True once the thread has ended."""
        with self._changed:
            if self._state == "open":
                self._state, self._draining = "stopping", drain
            self._changed.notify_all()
        if self._thread.ident is None:
            self._thread.start()  # never started: what was accepted still has to be settled
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _call(self) -> None:
        self._called = True
        if self._asleep:
            self._asleep = False
            self._changed.notify()

    def _closed(self) -> ParleyError:
        if self._death is not None:
            return InternalError("The writer has died", reason="writer_died")
        return ShuttingDown()

    def _live(self) -> None:
        taken: list[tuple[Write[Any], Any]] = []
        try:
            while self._state == "open" or self._queue or self._errands:
                taken = self._take()
                if taken:
                    self._commit(taken)
                elif not self._errands:
                    self._look([])
                self._run_errands()
        except BaseException as death:
            self._die(death, taken)
        else:
            self._state = "stopped"

    def _take(self) -> list[tuple[Write[Any], Any]]:
        """The next batch; waits for one. Empty when there is none, but an errand, an end, or time for a look."""
        queue = self._queue
        patience = None if self._before_answer is None else LOOK_SECONDS
        with self._changed:
            while not (queue and self._called) and not self._errands and self._state == "open":
                self._asleep = True
                if not self._changed.wait(patience):
                    return []
            if self._state == "open" and not self._called:
                return []
            taken = [queue.popleft() for _ in range(min(len(queue), self._batch_max))]
            self._called = bool(queue)
        return taken

    def _commit(self, taken: list[tuple[Write[Any], Any]]) -> None:
        if self._state == "stopping" and not self._draining:
            outcomes: Batch = [Outcome(error=ShuttingDown()) for _ in taken]
        elif self._lost is not None:
            outcomes = [Outcome(error=self._lost) for _ in taken]
        else:
            started = time.perf_counter()
            outcomes = run_batch(self._connection, [write for write, _ in taken], self._before_commit)
            self.last_commit_seconds = time.perf_counter() - started
            self.commits += 1
            self._look(outcomes)
        for outcome, (_, waiter) in zip(outcomes, taken, strict=True):
            outcome.waiter = waiter
        damage = next((each.error for each in outcomes if isinstance(each.error, DatabaseCorrupt)), None)
        if damage is not None:
            self.log_is_suspect = True
        if damage is not None and self._on_corrupt is not None:
            self._on_corrupt(damage)
        self._deliver(outcomes)

    def _look(self, outcomes: Batch) -> None:
        """Takes the successes back if what was committed is not in the files that will be looked for."""
        if self._lost is None and self._before_answer is not None:
            try:
                self._before_answer()
            except FilesLost as lost:
                self.give_up(lost)
        if self._lost is not None:
            for outcome in outcomes:
                if outcome.error is None:
                    outcome.value, outcome.error = None, self._lost

    def _run_errands(self) -> None:
        while self._errands:
            errand, waiter = self._errands.popleft()
            try:
                waiter.settle(Outcome(errand()))
            except Exception as error:
                waiter.settle(Outcome(error=error))

    def _deliver(self, outcomes: Batch) -> None:
        try:
            self._on_committed(outcomes)
        finally:
            for outcome in outcomes:
                if isinstance(outcome.waiter, _SyncWaiter):
                    outcome.waiter.settle(outcome)

    def _die(self, death: BaseException, taken: list[tuple[Write[Any], Any]]) -> None:
        with self._changed:
            self._death, self._state = death, "stopped"
            lost = [*taken, *self._queue, *self._errands]
            self._queue.clear()
            self._errands.clear()
        try:
            if self._on_death is not None:
                self._on_death(death)
        finally:
            self._deliver([Outcome(error=self._closed(), waiter=waiter) for _, waiter in lost])


class _SyncWaiter:
    """A thread that waits for its one outcome. The first outcome counts."""

    __slots__ = ("_outcome", "_settled")

    def __init__(self) -> None:
        self._settled = threading.Event()
        self._outcome: Outcome[Any] | None = None

    def settle(self, outcome: Outcome[Any]) -> None:
        if self._outcome is None:
            self._outcome = outcome
            self._settled.set()

    def result(self) -> Any:
        self._settled.wait()
        outcome = self._outcome
        assert outcome is not None
        if outcome.error is not None:
            raise outcome.error
        return outcome.value
