"""One process at a time: a lock on a file of our own, held for as long as the process lives.

The lock is ``flock`` on a file that is never unlinked, so the kernel frees it when its holder dies, however it dies,
and there is no stale lock to judge. If someone replaces the file all the same, the locker notices that the path no
longer leads to the inode it locked, and starts over. What the file says about its holder is for messages only.

``flock`` belongs to the open file description. The descriptor is closed in programs that are started (close-on-exec);
a child that is forked and runs on without ``exec`` shares it and keeps the lock alive after its parent's death, so a
holder must not fork that way. ``release`` in such a child leaves its parent's lock alone.

To look is to lock for a moment, shared. A process that is refused the exclusive lock therefore asks for a shared one:
if it gets that, it met onlookers, not an owner, and tries again. So it does while the owner has not written its name.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from parley.core.errors import WriterLockHeld
from parley.core.locks import open_if_held, still_names, try_lock
from parley.core.writable import unusable

_ATTEMPTS_MAX: Final = 100
"""Onlookers hold the lock for microseconds; whoever meets one this often meets a stopped process."""
_HOLDER_BYTES_MAX: Final = 4_096
_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700


class Holder(msgspec.Struct, frozen=True):
    """What the lock's file says about the process that holds it; the fields are unknown until it has written them."""

    pid: int | None = None
    instance_id: str | None = None
    started_at: str | None = None


class InstanceLock:
    """The right to be the one server of a workspace. As a context manager it releases the lock at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._owner_pid = 0

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    def acquire(self, holder: Mapping[str, object]) -> None:
        """Takes the lock and writes ``holder`` (``pid``, ``instance_id``, ``started_at``) into its file.

        Raises ``WriterLockHeld``, which names the process that holds it.
        """
        if self._descriptor is not None:
            raise RuntimeError("the lock is held already")
        written = msgspec.json.encode(dict(holder)) + b"\n"
        for _ in range(_ATTEMPTS_MAX):
            descriptor = self._attempt()
            if descriptor is not None:
                self._descriptor, self._owner_pid = descriptor, os.getpid()
                _write_holder(descriptor, written)
                return
            time.sleep((1 + os.getpid() % 7) / 1000)  # unequal, so that two that start together do not stay in step
        raise _held(self._path, Holder())

    def is_in_place(self) -> bool:
        """Whether the path still names the file that is locked."""
        return self._descriptor is not None and still_names(self._path, self._descriptor)

    def release(self) -> None:
        """Lets the next one in. Without the lock it does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            if self._owner_pid == os.getpid():
                _write_holder(descriptor, b"")
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            os.close(descriptor)

    def _attempt(self) -> int | None:
        """A descriptor that holds the lock, or ``None`` to try again. Raises ``WriterLockHeld`` if it has an owner."""
        descriptor = _open(self._path)
        try:
            if try_lock(descriptor, fcntl.LOCK_EX):
                if still_names(self._path, descriptor):
                    return descriptor
            elif not try_lock(descriptor, fcntl.LOCK_SH):
                holder = _read_holder(descriptor)
                if holder.pid is not None:
                    raise _held(self._path, holder)
                # it holds the lock and is about to say who it is
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


def probe(path: Path) -> Holder | None:
    """Who holds the lock at this moment; ``None`` if nobody does. It neither creates nor changes the file."""
    try:
        descriptor = open_if_held(path)
    except FileNotFoundError:
        return None
    if descriptor is None:
        return None
    try:
        return _read_holder(descriptor)
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE_MODE)
    except OSError as error:
        raise unusable(path, error) from error


def _write_holder(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(OSError):  # on a full disk the lock is nameless, and a lock all the same
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, data, 0)


def _read_holder(descriptor: int) -> Holder:
    try:
        return msgspec.json.decode(os.pread(descriptor, _HOLDER_BYTES_MAX, 0), type=Holder)
    except msgspec.DecodeError:
        return Holder()  # the holder has not written yet, or wrote something else


def _held(path: Path, holder: Holder) -> WriterLockHeld:
    who = "another process" if holder.pid is None else f"process {holder.pid}"
    since = "" if holder.started_at is None else f" since {holder.started_at}"
    return WriterLockHeld(f"{path} is held by {who}{since}", **msgspec.structs.asdict(holder), path=str(path))
