"""Whether a database is still the file that SQLite has open, and still holds what was committed.

A commit goes to the write-ahead log, whatever became of the file's name: a database or a log that was removed or
replaced takes commits that nobody will ever find. So the writer looks after each commit, before anybody is answered.

A log that was cut short is long enough again after the next commit, with a hole where commits were. So its last frame
before this commit is compared with what was read after that one. When SQLite itself starts the log over, head and
frames get new salts. The database may get shorter when pages are given back: then each page that it lacks must be in
that part of the log which was not moved into it, since the other part is about to be written over.

What this does not see: bytes that were changed in place, a log that is cut in the midst of the very commit that is
being written, and a database that is cut and, before anybody looks, made longer again by a checkpoint.
"""

import os
import time
from pathlib import Path
from typing import Final

import apsw

from parley.core.errors import FilesLost
from parley.core.locks import lost_file

LOG_HEAD_BYTES: Final = 32
FRAME_HEAD_BYTES: Final = 24
_MAGIC: Final = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_PAGE_NUMBER_BYTES: Final = 4
_SALTS: Final = slice(8, 16)
"""In the head of a frame: which run of the log it belongs to."""
_SALTS_OF_LOG: Final = slice(16, 24)
INDEX_SECONDS: Final = 1.0
"""How often the index is looked at. It holds no commit; other processes need it to agree with ours."""
_LOCK_BYTE: Final = 0x4000_0000
"""The page that holds it is never written: SQLite's locks lie there."""

Identity = tuple[int, int]


class FileWatch:
    """The files of one database. All methods belong to the thread of the connection."""

    def __init__(self, path: Path, connection: apsw.Connection) -> None:
        """``connection`` has opened the file, and keeps it open for as long as this is used."""
        self._path = str(path)
        beside = path.resolve()  # there SQLite puts the other two
        self._log_path, self._index_path = f"{beside}-wal", f"{beside}-shm"
        self._connection = connection
        self._page_bytes = int(str(connection.execute("PRAGMA page_size").fetchall()[0][0]))
        self._frame_bytes = self._page_bytes + FRAME_HEAD_BYTES
        self._database = _identity(path.stat())
        self._index = _identity(Path(self._index_path).stat())
        self._index_at = 0.0
        self._log_descriptor = os.open(self._log_path, os.O_RDONLY | os.O_CLOEXEC)  # SQLite locks nothing in the log
        self._log = _identity(os.fstat(self._log_descriptor))
        self._database_bytes = path.stat().st_size
        self._frames = 0
        self._last_frame = b""
        self._is_whole()

    def close(self) -> None:
        """Looks no more."""
        descriptor, self._log_descriptor = self._log_descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def look(self) -> None:
        """Raises ``FilesLost`` if what was committed is not, or no longer, in the files that the paths name."""
        size = self._stat(self._path, self._database).st_size
        if size < self._database_bytes and self._lacks_pages(size):
            raise FilesLost(self._path, "cut short")
        self._database_bytes = size
        # Another process may be emptying the log just now. It says so before it does, so a second look is right.
        if not (self._is_whole() or self._is_whole()):
            raise FilesLost(self._log_path, "cut short")
        now = time.monotonic()
        if now >= self._index_at:
            self._stat(self._index_path, self._index)
            self._index_at = now + INDEX_SECONDS

    def _stat(self, path: str, expected: Identity) -> os.stat_result:
        try:
            found = os.stat(path)  # noqa: PTH116 - a path object costs more than the call, and this is for each commit
        except OSError:
            raise lost_file(Path(path)) from None
        if (found.st_dev, found.st_ino) != expected:
            raise lost_file(Path(path))
        return found

    def _frames_now(self) -> tuple[int, int]:
        """How many frames the log has, and how many of them were moved into the database."""
        return self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)

    def _is_whole(self) -> bool:
        """Whether the log still has what it had, or was started over by SQLite, and is as long as it must be.

        If so, its last frame is remembered.
        """
        frames, _ = self._frames_now()
        size = self._stat(self._log_path, self._log).st_size
        if not frames:
            self._frames, self._last_frame = 0, b""
            return True
        if size < LOG_HEAD_BYTES + frames * self._frame_bytes:
            return False
        last = self._frame(frames)
        if self._frames and last[_SALTS] == self._last_frame[_SALTS]:
            before = last if frames == self._frames else self._frame(self._frames)
            if before != self._last_frame:
                return False
        else:
            head = os.pread(self._log_descriptor, LOG_HEAD_BYTES, 0)
            if head[: len(_MAGIC[0])] not in _MAGIC or head[_SALTS_OF_LOG] != last[_SALTS]:
                return False
        self._frames, self._last_frame = frames, last
        return True

    def _frame(self, number: int) -> bytes:
        return os.pread(self._log_descriptor, self._frame_bytes, self._start_of(number))

    def _start_of(self, number: int) -> int:
        return LOG_HEAD_BYTES + (number - 1) * self._frame_bytes

    def _lacks_pages(self, size: int) -> bool:
        """Whether a page is neither in the database, which got shorter, nor in the log that is to be moved there."""
        try:
            pages = int(str(self._connection.execute("PRAGMA page_count").fetchall()[0][0]))
        except apsw.Error:
            return True
        missing = set(range(size // self._page_bytes + 1, pages + 1)) - {_LOCK_BYTE // self._page_bytes + 1}
        if missing:
            frames, moved = self._frames_now()
            for number in range(moved + 1, frames + 1):
                page = os.pread(self._log_descriptor, _PAGE_NUMBER_BYTES, self._start_of(number))
                missing.discard(int.from_bytes(page, "big"))
        return bool(missing)


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino
