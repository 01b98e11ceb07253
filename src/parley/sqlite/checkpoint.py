"""Moving commits from the log back into the database, on a thread and a connection of its own.

A PASSIVE checkpoint takes what it can get without making anybody wait. It runs by timer, and whenever the log has grown
by a set size. No commit ever does this work itself.

Once everything was moved, the next commit starts the log over inside the same file, which is better than an empty file:
the blocks are there already, and a commit that does not make its file longer needs one journal write of the file system
less (measured here: 1.6 times as many single commits a second). So the log is emptied (TRUNCATE) only after a while
without commits, to give the space back.

Under a load without pauses a PASSIVE checkpoint always finds new commits behind it, the log never starts over and would
grow without end. So once it is several times its set size, a RESTART follows the PASSIVE ones directly: little is left
to move by then, and the writer is held off for that little and not for the whole log. It needs the write lock, which a
busy writer gives back for microseconds only: so the writer itself runs it, between two commits. A log whose file has
become very large nevertheless is emptied in the same way. So is one above the limit at which writes are refused, again
and again: once the reader that held it has gone, nobody waits for longer than the next try.
"""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import apsw

from parley.core.clock import Clock
from parley.core.errors import ParleyError, ShuttingDown
from parley.sqlite.connect import Synchronous, close_quietly, open_writer
from parley.sqlite.faults import translate
from parley.sqlite.writer import Writer

Mode = Literal["passive", "restart", "truncate"]

INTERVAL_SECONDS: Final = 10.0
WAL_BYTES_STEP: Final = 8 * 1024 * 1024
IDLE_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.25
OVERGROWN: Final = 4
"""How many times its set size the log may reach before the writer is held off to start it over."""
BLOATED: Final = 8
"""How many times its set size the log's file may have before it is emptied even under load."""
OVER_LIMIT_SECONDS: Final = 1.0
"""How often a log above its limit is tried to be emptied."""
BUSY_TIMEOUT_MS: Final = 50
"""RESTART and TRUNCATE wait for readers while they hold the writer off; never longer than this."""

_MODES: Final[dict[Mode, int]] = {
    "passive": apsw.SQLITE_CHECKPOINT_PASSIVE,
    "restart": apsw.SQLITE_CHECKPOINT_RESTART,
    "truncate": apsw.SQLITE_CHECKPOINT_TRUNCATE,
}
_FRAME_HEADER_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class CheckpointResult:
    """``complete`` says that all of the log is in the database; ``error`` tells a fault, which a mere reader is not.

    ``log_frames`` is -1 where a reader or writer kept SQLite from even looking.
    """

    mode: Mode
    log_frames: int
    moved_frames: int
    error: ParleyError | None = None

    @property
    def complete(self) -> bool:
        return self.log_frames == self.moved_frames


def checkpoint_once(connection: apsw.Connection, mode: Mode) -> CheckpointResult:
    """One checkpoint. A reader in the way is a result, not an error; a fault of the disk is in ``error``."""
    try:
        log_frames, moved_frames = connection.wal_checkpoint(mode=_MODES[mode])
    except apsw.BusyError:
        return CheckpointResult(mode, -1, 0)
    except apsw.Error as error:
        return CheckpointResult(mode, -1, 0, translate(error))
    return CheckpointResult(mode, log_frames, moved_frames)


def wal_bytes(path: Path) -> int:
    """The size of the log's file beside this database; 0 when there is none."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size
    except OSError:
        return 0


class Checkpointer:
    """Checkpoints one database until it is stopped. The attributes may be read from any thread."""

    def __init__(
        self,
        path: Path,
        writer: apsw.Connection,
        clock: Clock,
        *,
        interval_seconds: float = INTERVAL_SECONDS,
        wal_bytes_step: int = WAL_BYTES_STEP,
        idle_seconds: float = IDLE_SECONDS,
        wal_bytes_max: int | None = None,
        synchronous: Synchronous = "full",
        vfs: str | None = None,
    ) -> None:
        """Watches the commits of ``writer`` and opens a connection of its own, so a file that cannot be opened is an
        error here. Both happen before any write: construct it before the writer's thread starts. ``wal_bytes_max`` is
        the size above which the caller refuses writes."""
        self.writer: Writer | None = None
        """Who commits, if that is a thread: it runs what must not race it, and knows whether the log is whole."""
        self.last: CheckpointResult | None = None
        self.failures_in_a_row = 0
        self.failures_total = 0
        self._path = path
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._wal_bytes_step = wal_bytes_step
        self._idle_seconds = idle_seconds
        self._wal_bytes_max = wal_bytes_max
        self._connection = open_writer(path, synchronous=synchronous, busy_timeout_ms=BUSY_TIMEOUT_MS, vfs=vfs)
        page_bytes = int(str(self._connection.execute("PRAGMA page_size").fetchall()[0][0]))
        self._frame_bytes = page_bytes + _FRAME_HEADER_BYTES
        self._log_bytes = self._written_bytes = wal_bytes(path)
        self._written_at_poll = self._written_bytes
        self._written_at_run = 0
        self._changed_at = self._ran_at = clock.monotonic()
        self._waiting_since: float | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._live, name="parley-checkpointer", daemon=True)
        writer.set_wal_hook(self._committed)

    @property
    def wal_bytes(self) -> int:
        return wal_bytes(self._path)

    @property
    def waiting_seconds(self) -> float:
        """How long commits have been waiting for a checkpoint to take its turn at them; 0 when none wait."""
        since = self._waiting_since
        return 0.0 if since is None else self._clock.monotonic() - since

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float | None = None) -> bool:
        """Ends the thread and closes the connection. True once that is done."""
        self._stopping.set()
        if self._thread.ident is None:
            self._thread.start()  # never started: it ends at once, and closes what was opened
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def poll(self) -> CheckpointResult | None:
        """Looks at the log and the clock once, and checkpoints if it is time. The thread does nothing but call this."""
        now = self._clock.monotonic()
        written = self._written_bytes
        if written != self._written_at_poll:
            self._written_at_poll, self._changed_at = written, now
        written_since, size = written - self._written_at_run, self.wal_bytes
        if not self._unmoved(size, written_since):
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = now
        mode = self._due(now, size, written_since)
        if mode is None:
            return None
        self._ran_at, self._written_at_run = now, written
        if not self._log_is_whole():
            return None
        result = self._record(checkpoint_once(self._connection, "passive"))
        if mode != "passive" and result.error is None:
            self._record(checkpoint_once(self._connection, "passive"))  # what was committed during the first
            result = self._record(self._without_writer(mode))
        if result.complete:
            self._log_bytes = 0  # the next commit starts over, or else is counted too high, never too low
        return result

    def _log_is_whole(self) -> bool:
        try:
            return self.writer is None or self.writer.log_is_whole()
        except ParleyError:  # the writer has ended
            return False

    def _without_writer(self, mode: Mode) -> CheckpointResult:
        if self.writer is None:
            return checkpoint_once(self._connection, mode)
        try:
            return self.writer.between_commits(lambda: checkpoint_once(self._connection, mode))
        except ShuttingDown:  # the end of a life empties the log anyway
            return CheckpointResult(mode, -1, 0)

    def _due(self, now: float, size: int, written_since: int) -> Mode | None:
        """The checkpoint that is due. What a reader prevented is tried again after the interval."""
        if size == 0:
            return None
        if self._wal_bytes_max is not None and size > self._wal_bytes_max:
            return "truncate" if now - self._ran_at >= OVER_LIMIT_SECONDS else None
        interval_over = now - self._ran_at >= self._interval_seconds
        if now - self._changed_at >= self._idle_seconds and (interval_over or written_since):
            return "truncate"
        if written_since >= self._wal_bytes_step:
            if size >= BLOATED * self._wal_bytes_step:
                return "truncate"
            return "restart" if self._log_bytes >= OVERGROWN * self._wal_bytes_step else "passive"
        return "passive" if interval_over and self._unmoved(size, written_since) else None

    def _unmoved(self, size: int, written_since: int) -> bool:
        """Whether a log of this size may hold commits that are not in the database."""
        return size > 0 and (written_since > 0 or self.last is None or not self.last.complete)

    def _record(self, result: CheckpointResult) -> CheckpointResult:
        self.last = result
        if result.error is not None:
            self.failures_in_a_row += 1
            self.failures_total += 1
        elif result.log_frames >= 0:
            self._waiting_since, self.failures_in_a_row = None if result.complete else self._clock.monotonic(), 0
        return result

    def _committed(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        """Called by SQLite after every commit, on the writer's thread: it must only take notes."""
        before, self._log_bytes = self._log_bytes, pages * self._frame_bytes
        started_over = self._log_bytes <= before
        self._written_bytes += self._log_bytes if started_over else self._log_bytes - before
        return apsw.SQLITE_OK

    def _live(self) -> None:
        try:
            while not self._stopping.wait(POLL_SECONDS):
                self.poll()
        finally:
            close_quietly(self._connection, leave_log=self.writer is not None and self.writer.log_is_suspect)
