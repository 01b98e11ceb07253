"""The files that one process alone may write: its lock file, and each database by its own inode.

A lock file can be removed, and whoever comes next then locks another one. So the databases are locked, too, by
``flock`` on a descriptor of their own. It is opened before SQLite opens the file and closed after SQLite has closed it:
closing any descriptor of a file drops the POSIX locks that the process has there, and those are SQLite's. For the same
reason nothing else in a server may open and close its database by itself.

On a local Linux file system the two kinds of lock do not meet. Where they do (macOS, NFS), a process that holds the one
is refused the other, which is tried out; there the lock file and ``look`` have to do.
"""

import contextlib
import fcntl
import os
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from parley.core.errors import FilesLost, WorkspaceUnsafe, WriterLockHeld
from parley.core.instance_lock import InstanceLock
from parley.core.locks import lost_file, still_names, try_lock
from parley.core.writable import unusable

_ATTEMPTS_MAX: Final = 10
"""Whoever replaces a file this often while it is being locked does so on purpose."""
_FILE_MODE: Final = 0o600
_LOCKS: Final = Path("/proc/locks")
_BESIDE: Final = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database: its log, the index of the log, and what it looks for from other times."""


class HeldFiles:
    """A lock file and the databases that it stands for. As a context manager it gives them back at the end."""

    def __init__(self, lock: Path) -> None:
        self._lock_path = lock
        self._lock = InstanceLock(lock)
        self._taken: dict[Path, int] = {}
        self._left: list[int] = []

    def acquire(self, holder: Mapping[str, object]) -> None:
        """Takes the lock file. Raises ``WriterLockHeld``, which names the process that has it."""
        self._lock.acquire(holder)

    def take(self, *databases: Path) -> None:
        """Locks these files, and makes those that are not there. Raises ``WriterLockHeld`` or ``WorkspaceUnsafe``.

        A file that was replaced since it was taken is taken anew; its old descriptor is kept to the end as well.
        """
        for path in databases:
            before = self._taken.get(path)
            if before is not None and still_names(path, before):
                continue
            self._taken[path] = _locked(path)
            if before is not None:
                self._left.append(before)
            _check_beside(path.resolve())

    def look(self) -> None:
        """Raises ``FilesLost`` unless every path still names the file that is held."""
        if not self._lock.is_in_place():
            raise lost_file(self._lock_path)
        for path, descriptor in self._taken.items():
            if not still_names(path, descriptor):
                raise lost_file(path)

    def are_in_place(self) -> bool:
        """Whether every path still names the file that is held. If not, what lies beside them may be a successor's."""
        try:
            self.look()
        except FilesLost:
            return False
        return True

    def release(self) -> None:
        """Gives everything back, the databases first. SQLite must have closed them."""
        for descriptor in (*self._left, *self._taken.values()):
            os.close(descriptor)
        self._left.clear()
        self._taken.clear()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


@contextmanager
def held_alone(lock: Path, *databases: Path, **holder: object) -> Generator[HeldFiles]:
    """Holds the lock file and those of the databases that are there, for work that needs them without a server."""
    with HeldFiles(lock) as files:
        files.acquire({"pid": os.getpid(), **holder})
        files.take(*(path for path in databases if path.exists()))
        yield files


def _locked(path: Path) -> int:
    """A descriptor of the file that the path names, locked unless that would keep SQLite out."""
    for _ in range(_ATTEMPTS_MAX):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        except OSError as error:
            raise unusable(path, error) from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # a pipe, or a device
            os.close(descriptor)
            raise _not_regular(path)
        if not try_lock(descriptor, fcntl.LOCK_EX):
            refusal = _held(path, descriptor)
            os.close(descriptor)
            raise refusal
        if still_names(path, descriptor):
            if _keeps_sqlite_out(descriptor):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            return descriptor
        os.close(descriptor)
    raise lost_file(path)


def _check_beside(path: Path) -> None:
    for suffix in _BESIDE:
        beside = path.with_name(path.name + suffix)
        if beside.exists() and not beside.is_file():
            raise _not_regular(beside)


def _not_regular(path: Path) -> WorkspaceUnsafe:
    return WorkspaceUnsafe(f"{path} cannot be used: it is not a regular file", path=str(path))


def _keeps_sqlite_out(descriptor: int) -> bool:
    """Whether our lock bars this very process from POSIX locks. SQLite never locks the first byte, so it is free."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
    except OSError:
        return True
    fcntl.lockf(descriptor, fcntl.LOCK_UN, 1)
    return False


def _held(path: Path, descriptor: int) -> WriterLockHeld:
    pid = _holder(os.fstat(descriptor).st_ino)
    who = "another process" if pid is None else f"process {pid}"
    return WriterLockHeld(f"{path} is held by {who}", pid=pid, path=str(path))


def _holder(inode: int) -> int | None:
    """The process that has a BSD lock on this inode, as far as the kernel tells; for messages only."""
    with contextlib.suppress(OSError, ValueError):
        for line in _LOCKS.read_text().splitlines():
            words = line.split()
            if words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode):
                return int(words[4])
    return None
