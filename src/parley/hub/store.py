"""The hub's database as the event loop sees it: one writer, a reader on the loop, and readers for long reads.

A short, indexed read takes less time than handing it to a thread, so ``read`` runs on the loop. Whatever may take long
(search, replay, export) goes through ``read_slow``.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

import apsw

from parley.core.clock import Clock
from parley.core.errors import DatabaseCorrupt, FilesLost
from parley.core.ids import IdSource
from parley.hub.transaction import Tx
from parley.sqlite import FileWatch, close_quietly, open_reader, translate
from parley.sqlite.async_writer import AsyncWriter
from parley.workspace import queries
from parley.workspace.fts import index_new
from parley.workspace.log import StoredEvent
from parley.workspace.queries.search import has_index

T = TypeVar("T")
SLOW_READERS: Final = 2
"""As many as there are cores on a small machine; more would only take turns."""


class Written(NamedTuple):
    """What a rule returned, and the events it appended."""

    value: Any
    events: list[StoredEvent]


class Store:
    """Opened on the running loop by ``Store(...)`` and closed by ``close``."""

    def __init__(
        self,
        path: Path,
        writing: apsw.Connection,
        *,
        clock: Clock,
        queue_max: int,
        on_events: Callable[[list[StoredEvent], int, float], None],
        on_corrupt: Callable[[DatabaseCorrupt], None],
        on_lost: Callable[[FilesLost], None],
        on_death: Callable[[BaseException], None],
    ) -> None:
        """``writing`` is the one connection that writes; the store closes it. ``on_events`` gets the events of one
        commit, in order, on the loop, before any caller learns of it, how many writes
        shared the commit and how long it took."""
        self.path = path
        self._clock = clock
        self._on_events = on_events
        self._on_corrupt = on_corrupt
        self._writing = writing
        self._files = FileWatch(path, writing)
        self._ids = IdSource(queries.largest_ids(self._writing))
        self._reading = open_reader(path, immutable_fallback=False)
        self._slow: SimpleQueue[apsw.Connection] = SimpleQueue()
        for _ in range(SLOW_READERS):
            self._slow.put(open_reader(path, immutable_fallback=False))
        self._threads = ThreadPoolExecutor(SLOW_READERS, thread_name_prefix="parley-reader")
        self.writer = AsyncWriter(
            self._writing,
            after_commit=self._committed,
            before_commit=index_new if has_index(self._writing) else None,
            before_answer=self._files.look,
            queue_max=queue_max,
            on_corrupt=on_corrupt,
            on_lost=on_lost,
            on_death=on_death,
        )

    async def write(self, rule: Callable[[Tx], T]) -> T:
        """Runs a rule in a transaction; returns once what it did is durable."""
        clock, ids = self._clock, self._ids

        def run(connection: apsw.Connection) -> Written:
            tx = Tx(connection, clock.now_ms(), ids)
            return Written(rule(tx), tx.events)

        return (await self.writer.run(run)).value

    def read(self, query: Callable[[apsw.Connection], T]) -> T:
        """A short read, on the loop."""
        try:
            return _translated(query, self._reading)
        except DatabaseCorrupt as damage:
            self._on_corrupt(damage)
            raise

    async def read_slow(self, query: Callable[[apsw.Connection], T]) -> T:
        """A read that may take long, on a thread of its own."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._read_on_thread, query)
        except DatabaseCorrupt as damage:
            self._on_corrupt(damage)
            raise

    async def close(self, timeout: float | None) -> bool:
        """Commits what was accepted and closes everything. False if the writer did not finish in time."""
        finished = await self.writer.stop(drain=True, timeout=timeout)
        self._threads.shutdown(wait=True)
        while not self._slow.empty():
            close_quietly(self._slow.get())
        close_quietly(self._reading)
        if finished:
            close_quietly(self._writing, leave_log=self.writer.writer.log_is_suspect)
            self._files.close()
        return finished

    def _read_on_thread(self, query: Callable[[apsw.Connection], T]) -> T:
        connection = self._slow.get()
        try:
            return _translated(query, connection)
        finally:
            self._slow.put(connection)

    def _committed(self, outcomes: list[Any]) -> None:
        events = [event for outcome in outcomes if outcome.error is None for event in outcome.value.events]
        self._on_events(events, len(outcomes), self.writer.last_commit_seconds)


def _translated(query: Callable[[apsw.Connection], T], connection: apsw.Connection) -> T:
    try:
        return query(connection)
    except apsw.Error as error:
        raise translate(error) from error
