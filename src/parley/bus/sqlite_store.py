"""The store that survives: one SQLite file, private to its owner, open in one process at a time.

Each method is one write of the file's one ``Writer``, so admissions that wait together share one commit, and nobody is
answered before that commit is on disk and in the file that the path names. Reads take the same way: they see whatever
was answered before them.

``SqliteMethods`` is the Protocol over anything that runs writes, so that a simulation can commit them in its own time;
``SqliteMeshStore`` is its life on an event loop.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from parley.bus import admission, inbox_rows, outbox_rows, peer_rows
from parley.bus.admission import check_id, check_length, check_page, check_time, said
from parley.bus.chain import CallLimit
from parley.bus.mesh_store import (
    Admission,
    ExpiredItem,
    KnownPeer,
    NewOutboxItem,
    OutboxItem,
    StoreBounds,
    Undispatched,
)
from parley.bus.outbox_rows import Block
from parley.bus.store_file import StoreFile, StoreIdentity, as_bus_error, open_store_file, told
from parley.core.bus_errors import StoreClosed
from parley.core.clock import Clock, SystemClock
from parley.core.errors import DatabaseCorrupt, FilesLost, ParleyError
from parley.sqlite import Checkpointer, FileWatch, Write, checkpoint_once, close_quietly
from parley.sqlite.async_writer import AsyncWriter

T = TypeVar("T")
_NO_BLOCK: Final = Block(0, 0)


class SqliteMethods(ABC):
    """The methods of ``MeshStore`` but for ``close``. They belong to one event loop."""

    durable = True

    def __init__(self, bounds: StoreBounds | None = None) -> None:
        self._bounds = bounds or StoreBounds()
        self._block = _NO_BLOCK
        """Reserved on disk, and not used yet."""
        self._reserving = asyncio.Lock()

    @abstractmethod
    async def _run(self, write: Write[T], *, later: bool = False) -> T:
        """The value of the write once it is durable. Raises ``StoreError``. One that may be ``later`` waits for others
        to share its commit with."""

    @abstractmethod
    def _refuse(self) -> None:
        """Raises ``StoreError`` if the store answers for nothing any more."""

    async def admit(
        self,
        peer: bytes,
        nonce: bytes,
        sequence: int,
        message_id: bytes,
        payload: bytes,
        *,
        now: int,
        call_limits: Sequence[CallLimit] = (),
        dispatching: bool = False,
        kept: bool = True,
    ) -> Admission:
        admission.check_arrival(peer, nonce, sequence, message_id, payload, call_limits)
        check_time("now", now)
        return await self._run(
            partial(
                inbox_rows.admit,
                peer=peer,
                nonce=nonce,
                sequence=sequence,
                message_id=message_id,
                payload=payload,
                now=now,
                call_limits=tuple(call_limits),
                dispatching=dispatching,
                kept=kept,
                bounds=self._bounds.inbox,
            ),
            later=not kept,
        )

    async def last_seq(self, peer: bytes) -> int | None:
        check_length("peer", peer, admission.FINGERPRINT_BYTES)
        return await self._run(lambda db: inbox_rows.last_seq(db, peer))

    async def nonce_seen(self, nonce: bytes) -> bool:
        check_length("nonce", nonce, admission.NONCE_BYTES)
        return await self._run(lambda db: inbox_rows.nonce_seen(db, nonce))

    async def undispatched(self, *, after: int = 0, limit: int) -> list[Undispatched]:
        check_page(after, limit)
        return await self._run(lambda db: inbox_rows.undispatched(db, after, limit))

    async def start_dispatch(self, inbox_id: int) -> Undispatched | None:
        check_id("inbox_id", inbox_id)
        return await self._run(lambda db: inbox_rows.start_dispatch(db, inbox_id))

    async def dispatched(self, inbox_id: int) -> bool:
        check_id("inbox_id", inbox_id)
        return await self._run(lambda db: inbox_rows.dispatched(db, inbox_id), later=True)

    async def unwedge_undispatched(self, inbox_id: int) -> bool:
        check_id("inbox_id", inbox_id)
        return await self._run(lambda db: inbox_rows.unwedge(db, inbox_id))

    async def next_out_seq(self) -> int:
        self._refuse()
        while self._block_is_used_up:
            async with self._reserving:
                if self._block_is_used_up:
                    self._block = await self._run(outbox_rows.reserve)
        sequence = self._block.first
        self._block = self._block._replace(first=sequence + 1)
        return sequence

    async def raise_out_seq(self, floor: int) -> bool:
        async with self._reserving:
            self._refuse()
            if self._block_is_used_up:
                self._block = await self._run(outbox_rows.reserve)
            if floor <= self._block.first:
                return False
            admission.check_jump(floor, self._block.first)
            if floor < self._block.end:
                self._block = self._block._replace(first=floor)
            else:
                self._block = await self._run(lambda db: outbox_rows.reserve(db, floor))
            return True

    async def enqueue_outbox(self, item: NewOutboxItem, *, now: int) -> int:
        admission.check_item(item, now)
        return await self._run(lambda db: outbox_rows.enqueue(db, item, now, self._bounds.outbox))

    async def due_outbox(self, *, now: int, limit: int, peer: bytes | None = None) -> list[OutboxItem]:
        check_page(0, limit)
        check_time("now", now)
        if peer is not None:
            check_length("peer", peer, admission.FINGERPRINT_BYTES)
        return await self._run(lambda db: outbox_rows.due(db, now, limit, peer))

    async def next_due_at(self, *, now: int) -> int | None:
        check_time("now", now)
        return await self._run(lambda db: outbox_rows.next_due_at(db, now))

    async def list_outbox(self, *, after: int = 0, limit: int) -> list[OutboxItem]:
        check_page(after, limit)
        return await self._run(lambda db: outbox_rows.page(db, after, limit))

    async def remove_outbox(self, outbox_id: int) -> bool:
        check_id("outbox_id", outbox_id)
        return await self._run(lambda db: outbox_rows.remove(db, outbox_id))

    async def reschedule_outbox(self, outbox_id: int, *, now: int, not_before: int, error: str) -> bool:
        check_id("outbox_id", outbox_id)
        check_time("now", now)
        check_time("not_before", not_before)
        return await self._run(lambda db: outbox_rows.reschedule(db, outbox_id, now, not_before, said(error)))

    async def hasten_outbox(self, peer: bytes, *, now: int) -> bool:
        check_length("peer", peer, admission.FINGERPRINT_BYTES)
        check_time("now", now)
        return await self._run(lambda db: outbox_rows.hasten(db, peer, now))

    async def wedge_outbox(self, outbox_id: int, *, reason: str) -> bool:
        check_id("outbox_id", outbox_id)
        return await self._run(lambda db: outbox_rows.wedge(db, outbox_id, said(reason)))

    async def unwedge_outbox(self, outbox_id: int, *, now: int) -> bool:
        check_id("outbox_id", outbox_id)
        check_time("now", now)
        return await self._run(lambda db: outbox_rows.unwedge(db, outbox_id, now))

    async def expire_outbox(self, *, now: int) -> list[OutboxItem]:
        check_time("now", now)
        return await self._run(lambda db: outbox_rows.expire(db, now))

    async def expired_outbox(self, *, limit: int) -> list[ExpiredItem]:
        check_page(0, limit)
        return await self._run(lambda db: outbox_rows.notes(db, limit))

    async def remember_peer(self, peer: KnownPeer) -> None:
        admission.check_peer(peer)
        await self._run(lambda db: peer_rows.remember(db, peer))

    async def known_peers(self, *, since: int) -> list[KnownPeer]:
        check_time("since", since)
        return await self._run(lambda db: peer_rows.known(db, since))

    @property
    def _block_is_used_up(self) -> bool:
        return self._block.first >= self._block.end


class SqliteMeshStore(SqliteMethods):
    """A ``MeshStore`` in a file. Made on the running loop, and opened when it is made."""

    def __init__(
        self,
        path: Path,
        identity: StoreIdentity,
        *,
        clock: Clock | None = None,
        bounds: StoreBounds | None = None,
        vfs: str | None = None,
    ) -> None:
        """Raises the ``StoreError`` that says why the file cannot be opened. ``clock`` only times checkpoints and names
        backups."""
        asyncio.get_running_loop()  # without one it could not be served, so nothing is opened
        super().__init__(bounds)
        clock = clock or SystemClock()
        self._file = file = open_store_file(path, identity, clock, vfs)
        self._closing: asyncio.Task[None] | None = None
        self._end: DatabaseCorrupt | FilesLost | None = None
        try:
            with told():
                self._begin(file, clock, vfs)
        except BaseException:
            close_quietly(file.connection)
            file.held.release()
            raise

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    def _begin(self, file: StoreFile, clock: Clock, vfs: str | None) -> None:
        self._watch = FileWatch(file.path, file.connection)
        try:
            self._checkpointer = Checkpointer(file.path, file.connection, clock, vfs=vfs)
        except BaseException:
            self._watch.close()
            raise
        self._writer = AsyncWriter(file.connection, before_answer=self._look, on_lost=self._fail, on_corrupt=self._fail)
        self._checkpointer.writer = self._writer.writer
        self._checkpointer.start()

    def _look(self) -> None:
        self._watch.look()
        self._file.held.look()

    async def _run(self, write: Write[T], *, later: bool = False) -> T:
        self._refuse()
        try:
            return await (self._writer.run_later if later else self._writer.run)(write)
        except ParleyError as error:
            raise as_bus_error(error) from error

    def _refuse(self) -> None:
        if self._closing is not None:
            raise StoreClosed("The store is closed")
        if self._end is not None:
            raise as_bus_error(self._end)

    def _fail(self, end: DatabaseCorrupt | FilesLost) -> None:
        self._end = end

    async def _close(self) -> None:
        await self._writer.stop()
        await asyncio.to_thread(self._let_go)

    def _let_go(self) -> None:
        """Leaves one file, without what was deleted; unless the log has a hole, which must not be moved into it."""
        self._checkpointer.stop()
        connection = self._file.connection
        suspect = self._writer.writer.log_is_suspect
        if self._end is None:
            checkpoint_once(connection, "truncate")
        close_quietly(connection, leave_log=suspect)
        self._watch.close()
        self._file.held.release()
