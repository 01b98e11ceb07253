"""How full the outbox and the inbox are, and how they stay within what they may hold.

What counts is what the messages themselves take: pruning frees that at once, also while the file is still as large as
before. The file follows in small steps. Whatever touches many rows does so in parts, each a transaction of its own, so
that no message waits long for its turn.

An outbox that is full takes nothing more. An inbox that is nearly full forgets the oldest messages that somebody has
seen. Nobody's unseen message is forgotten for room: when there is nothing else left, what arrives is not acknowledged,
and waits at its broker until there is room.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from parley.core.clock import Clock
from parley.core.daemon_errors import InsufficientStorage
from parley.core.daemon_settings import DaemonSettings
from parley.daemon.held import ROWS_AT_ONCE, VACUUM_BYTES_MAX, begin_week, held_bytes, mark_vacuumed, vacuum_is_due
from parley.daemon.inbox.events import prune_events
from parley.daemon.inbox.retention import Forgotten, flush, make_room, prune_forgotten, prune_inbox
from parley.daemon.outbox.prune import prune
from parley.daemon.outbox.rows import waiting_rows
from parley.daemon.store import DaemonStore
from parley.sqlite import Write, give_back
from parley.sqlite.async_writer import AsyncWriter

DAY_MS: Final = 24 * 3_600_000
PRESSURE: Final = 0.8
FULL: Final = 0.95
"""From here on an outbox takes nothing, and an inbox forgets what was seen until it is down to ``ROOMY``."""
ROOMY: Final = 0.9
SHARE_SECONDS: Final = 1.0
"""How long a look at how full the outbox is holds good, with what was let in since."""


class Capacity:
    """The room in both databases of one daemon. ``settings`` may be set anew."""

    def __init__(self, store: DaemonStore, clock: Clock, settings: DaemonSettings) -> None:
        self.settings = settings
        self.untidy = asyncio.Event()
        """Set when there is something to make room with, or to give back, that should not wait for the next round."""
        self._store = store
        self._clock = clock
        self._share, self._share_at = 0.0, float("-inf")

    def outbox_share(self) -> float:
        """How full the outbox is, by rows or by bytes, whichever is more."""
        table = self.settings.outbox
        waiting, held = self._store.read_outbox(waiting_rows), self._store.read_outbox(held_bytes)
        return max(waiting / table.rows_max, held / table.bytes_max)

    def inbox_share(self) -> float:
        """How full the inbox is; at 1 nothing more is taken."""
        return self._store.read_inbox(held_bytes) / self.settings.inbox.bytes_max

    def refuse_when_full(self, payload_bytes: int) -> None:
        """Raises ``InsufficientStorage`` while the outbox has no room for one more message of this size."""
        now, table = self._clock.monotonic(), self.settings.outbox
        self._share += max(1 / table.rows_max, 2 * payload_bytes / table.bytes_max)  # it is kept open and sealed
        if self._share >= FULL or now - self._share_at >= SHARE_SECONDS:
            self._share, self._share_at = self.outbox_share(), now
        if self._share >= FULL:
            raise InsufficientStorage("The outbox is full", share=round(self._share, 3))

    async def prune_outbox(self, before_ms: int) -> int:
        """Forgets what messages said that were sent or given up before the time. How many."""
        now_ms = self._clock.now_ms()
        pruned = await _in_parts(self._store.outbox, partial(prune, before_ms=before_ms, now_ms=now_ms))
        self._share_at = float("-inf")
        if pruned:
            self.untidy.set()
        return pruned

    async def flush_inbox(self, *, mesh_id: str | None, before_ms: int | None) -> int:
        """Throws away what arrived in a mesh, before a time, or altogether. How many."""
        flushed = await self._forget(partial(flush, mesh_id=mesh_id, before_ms=before_ms))
        if flushed:
            self.untidy.set()
        return flushed

    def note_seen(self) -> None:
        """Messages were seen: in a full inbox they can make room now."""
        if self.inbox_share() >= FULL:
            self.untidy.set()

    async def forget_old(self) -> None:
        """Forgets what is older than the settings keep it."""
        now_ms = self._clock.now_ms()
        await self.prune_outbox(now_ms - round(self.settings.outbox.prune_days * DAY_MS))
        before_ms = now_ms - round(self.settings.inbox.retention_days * DAY_MS)
        for rule in (
            partial(prune_inbox, before_ms=before_ms),
            partial(prune_forgotten, before_ms=before_ms, now_ms=now_ms),
            partial(prune_events, before_ms=before_ms),
        ):
            await _in_parts(self._store.inbox, rule)

    async def make_room(self) -> int:
        """Forgets the oldest messages that were seen if the inbox is nearly full. How many."""
        if self.inbox_share() < FULL:
            return 0
        return await self._forget(partial(make_room, bytes_max=round(ROOMY * self.settings.inbox.bytes_max)))

    async def give_back(self) -> None:
        """Gives the disk what is free in the files; a small one is compacted when a week has passed."""
        now_ms = self._clock.now_ms()
        for part in self._store.parts:
            while await part.writer.run(give_back):
                pass
            await part.writer.run(partial(begin_week, now_ms=now_ms))
            if _size(part.path) <= VACUUM_BYTES_MAX and part.read(partial(vacuum_is_due, now_ms=now_ms)):
                await part.compact()
                await part.writer.run(partial(mark_vacuumed, now_ms=now_ms))

    def sizes(self) -> dict[str, int]:
        """How many bytes the databases take on disk."""
        return {"outbox_bytes": _size(self._store.parts[0].path), "inbox_bytes": _size(self._store.parts[1].path)}

    async def _forget(self, rule: Callable[..., Forgotten]) -> int:
        """Runs a rule over the inbox until it is done. How many messages are gone."""
        total, after = 0, 0
        while after is not None:
            forgotten = await self._store.write_inbox(partial(rule, after_seq=after))
            total, after = total + forgotten.number, forgotten.after_seq
        return total


async def _in_parts(writer: AsyncWriter, rule: Write[int]) -> int:
    """Runs a rule until it finds fewer rows than it takes at once. How many it found."""
    total, found = 0, ROWS_AT_ONCE
    while found >= ROWS_AT_ONCE:
        found = await writer.run(rule)
        total += found
    return total


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
