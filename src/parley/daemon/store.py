"""The daemon's two databases as the event loop sees them: one writer each, and a reader each on the loop."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import apsw

from parley.core.clock import Clock
from parley.core.errors import FilesLost
from parley.core.ids import IdSource
from parley.daemon.databases import open_both
from parley.daemon.outbox.recover import recover
from parley.sqlite import Checkpointer, FileWatch, close_quietly, compact, open_reader, run_batch, translate
from parley.sqlite.async_writer import AsyncWriter
from parley.wire.daemon_home import DaemonHome

T = TypeVar("T")
OUT, IN = "out_", "in_"
_LARGEST: Final = {OUT: "SELECT max(id) FROM outbox", IN: "SELECT max(id) FROM inbox"}


class Part(NamedTuple):
    """One of the databases, for what is done to both alike."""

    path: Path
    connection: apsw.Connection
    reader: apsw.Connection
    writer: AsyncWriter

    def read(self, query: Callable[[apsw.Connection], T]) -> T:
        """A short read."""
        return _read(query, self.reader)

    async def compact(self) -> None:
        """Writes the file anew, without a gap. Nothing else can be written meanwhile."""

        def errand() -> None:
            _read(compact, self.connection)

        await asyncio.to_thread(self.writer.writer.between_commits, errand)


class DaemonStore:
    """Opened on the running loop, closed by ``close``. A start sets rows that were in flight back to pending."""

    def __init__(self, home: DaemonHome, clock: Clock, on_lost: Callable[[FilesLost], None]) -> None:
        """Raises ``OutboxDamaged``; a damaged inbox is set aside, see ``renewed`` and ``set_aside``.

        ``on_lost`` is told when a database is no longer the file that was opened; nothing is written there any more.
        """
        self._clock = clock
        self._outbox, opened = open_both(home, now_ms=clock.now_ms())
        self._inbox, self.renewed, self.set_aside = opened
        self.recovered = self._recover()
        self._ids = {OUT: _ids(self._outbox, OUT), IN: _ids(self._inbox, IN)}
        self._checkpointers = [
            Checkpointer(home.outbox, self._outbox, clock),
            Checkpointer(home.inbox, self._inbox, clock),
        ]
        self._files = [FileWatch(home.outbox, self._outbox), FileWatch(home.inbox, self._inbox)]
        self.outbox, self.inbox = (
            AsyncWriter(connection, before_answer=files.look, on_lost=on_lost)
            for connection, files in zip((self._outbox, self._inbox), self._files, strict=True)
        )
        for checkpointer, writer in zip(self._checkpointers, (self.outbox, self.inbox), strict=True):
            checkpointer.writer = writer.writer
            checkpointer.start()
        self._outbox_reader = open_reader(home.outbox, immutable_fallback=False)
        self._inbox_reader = open_reader(home.inbox, immutable_fallback=False)
        self.parts = (
            Part(home.outbox, self._outbox, self._outbox_reader, self.outbox),
            Part(home.inbox, self._inbox, self._inbox_reader, self.inbox),
        )

    def new_id(self, prefix: str) -> str:
        """An id above every id of its kind. For the loop's thread alone."""
        return self._ids[prefix].new(prefix, self._clock.now_ms())

    def write_outbox(self, rule: Callable[[apsw.Connection], T]) -> "asyncio.Future[T]":
        """Runs a rule in a transaction of the outbox; the future holds its value once it is durable."""
        return self.outbox.run(rule)

    def write_inbox(self, rule: Callable[[apsw.Connection], T]) -> "asyncio.Future[T]":
        """Runs a rule in a transaction of the inbox; the future holds its value once it is durable."""
        return self.inbox.run(rule)

    def write_outbox_later(self, rule: Callable[[apsw.Connection], T]) -> "asyncio.Future[T]":
        """As ``write_outbox``, for what nobody waits for: others share its commit."""
        return self.outbox.run_later(rule)

    def write_inbox_later(self, rule: Callable[[apsw.Connection], T]) -> "asyncio.Future[T]":
        """As ``write_inbox``, for what nobody waits for: others share its commit."""
        return self.inbox.run_later(rule)

    def read_outbox(self, query: Callable[[apsw.Connection], T]) -> T:
        """A short read."""
        return _read(query, self._outbox_reader)

    def read_inbox(self, query: Callable[[apsw.Connection], T]) -> T:
        """A short read."""
        return _read(query, self._inbox_reader)

    async def close(self, timeout: float | None = None) -> bool:
        """Commits what was accepted and closes everything."""
        finished = [await self.outbox.stop(timeout=timeout), await self.inbox.stop(timeout=timeout)]
        for checkpointer in self._checkpointers:
            checkpointer.stop(timeout=timeout)
        for part in self.parts:
            close_quietly(part.reader)
            close_quietly(part.connection, leave_log=part.writer.writer.log_is_suspect)
        for files in self._files:
            files.close()
        return all(finished)

    def give_up(self, lost: FilesLost) -> None:
        """Answers for nothing any more: its files are lost."""
        for writer in (self.outbox, self.inbox):
            writer.writer.give_up(lost)

    def _recover(self) -> int:
        outcome = run_batch(self._outbox, [lambda db: recover(db, now_ms=self._clock.now_ms())])[0]
        if outcome.error is not None:
            raise outcome.error
        return int(outcome.value or 0)


def _ids(connection: apsw.Connection, prefix: str) -> IdSource:
    largest = connection.execute(_LARGEST[prefix]).fetchall()[0][0]
    return IdSource({} if largest is None else {prefix: str(largest)})


def _read(query: Callable[[apsw.Connection], T], connection: apsw.Connection) -> T:
    try:
        return query(connection)
    except apsw.Error as error:
        raise translate(error) from error
