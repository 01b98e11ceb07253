"""Moving commits from the log back into the database, on a thread and a connection of its own.

A PASSIVE checkpoint takes what it can get without making anybody wait. It runs by timer, and whenever the log has grown
by a set size. When nothing was written for a while the log is emptied (TRUNCATE). No commit ever does this work itself.

Under a load without pauses a PASSIVE checkpoint always finds new commits behind it, the log never starts over and would
grow without end. So once it is several times its set size, a TRUNCATE follows the PASSIVE one directly: little is left
to move by then, and the writer is held off for that little and not for the whole log.
"""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

import apsw

from parley.core.clock import Clock
from parley.core.errors import ParleyError
from parley.sqlite.connect import Synchronous, close_quietly, open_writer
from parley.sqlite.faults import translate

Mode = Literal["passive", "truncate"]

INTERVAL_SECONDS: Final = 10.0
WAL_BYTES: Final = 8 * 1024 * 1024
IDLE_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.5
OVERGROWN: Final = 4
"""How many times its set size the log may reach before the writer is held off to empty it."""
BUSY_TIMEOUT_MS: Final = 50
"""TRUNCATE waits for readers while it holds the writer off; never longer than this."""

_MODES: Final[dict[Mode, int]] = {
    "passive": apsw.SQLITE_CHECKPOINT_PASSIVE,
    "truncate": apsw.SQLITE_CHECKPOINT_TRUNCATE,
}


@dataclass(frozen=True, slots=True)
class CheckpointResult:
    """``complete`` says that all of the log is in the database; ``error`` tells a fault, which a mere reader is not.

    ``log_frames`` is -1 where SQLite does not tell.
    """

    mode: Mode
    log_frames: int
    moved_frames: int
    error: ParleyError | None = None

    @property
    def complete(self) -> bool:
        return self.error is None and self.log_frames == self.moved_frames


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
    """The size of the log beside this database; 0 when there is none."""
    return _look(path).size


class Checkpointer:
    """Checkpoints one database until it is stopped. The attributes may be read from any thread."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        interval_seconds: float = INTERVAL_SECONDS,
        wal_bytes_step: int = WAL_BYTES,
        idle_seconds: float = IDLE_SECONDS,
        synchronous: Synchronous = "full",
        vfs: str | None = None,
    ) -> None:
        """Opens its own connection at once, so that a file that cannot be opened is an error here."""
        self.last: CheckpointResult | None = None
        self.last_success_ms: int | None = None
        self.failures_in_a_row = 0
        self.failures_total = 0
        self._path = path
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._wal_bytes_step = wal_bytes_step
        self._idle_seconds = idle_seconds
        self._connection = open_writer(path, synchronous=synchronous, busy_timeout_ms=BUSY_TIMEOUT_MS, vfs=vfs)
        self._log = _look(path)
        self._changed_at = self._ran_at = clock.monotonic()
        self._bytes_at_run = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._live, name="parley-checkpointer", daemon=True)

    @property
    def wal_bytes(self) -> int:
        return wal_bytes(self._path)

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
        log = _look(self._path)
        if log != self._log:
            self._log, self._changed_at = log, now
        mode = self._due(now, log.size)
        if mode is None:
            return None
        self._ran_at, self._bytes_at_run = now, log.size
        result = self._record(checkpoint_once(self._connection, "passive"))
        if mode == "truncate" and result.error is None:
            result = self._record(checkpoint_once(self._connection, "truncate"))
            if result.complete:
                self._bytes_at_run = 0
        return result

    def _due(self, now: float, size: int) -> Mode | None:
        """The checkpoint that is due. A TRUNCATE that a reader prevented is tried again after the interval."""
        if size == 0:
            return None
        interval_over = now - self._ran_at >= self._interval_seconds
        grown = size - self._bytes_at_run >= self._wal_bytes_step
        idle = now - self._changed_at >= self._idle_seconds
        if idle and (interval_over or self._changed_at > self._ran_at):
            return "truncate"
        if grown and size >= OVERGROWN * self._wal_bytes_step:
            return "truncate"
        return "passive" if grown or interval_over else None

    def _record(self, result: CheckpointResult) -> CheckpointResult:
        self.last = result
        if result.error is None:
            self.last_success_ms, self.failures_in_a_row = self._clock.now_ms(), 0
        else:
            self.failures_in_a_row += 1
            self.failures_total += 1
        return result

    def _live(self) -> None:
        try:
            while not self._stopping.wait(POLL_SECONDS):
                self.poll()
        finally:
            close_quietly(self._connection)


class _Log(NamedTuple):
    size: int
    written_ns: int


def _look(path: Path) -> _Log:
    try:
        status = _log_path(path).stat()
    except OSError:
        return _Log(0, 0)
    return _Log(status.st_size, status.st_mtime_ns)


def _log_path(path: Path) -> Path:
    return path.with_name(path.name + "-wal")
