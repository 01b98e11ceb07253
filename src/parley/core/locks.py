"""Looking at a lock without taking it: ``flock`` on a file, asked for shared and for a moment.

Whoever holds such a lock for its life is seen here however it ends, since the kernel frees the lock with its last
descriptor. Servers take the lock (``instance_lock``); whoever only wants to know whether one lives looks.

And looking whether a path still names the file that was opened there: a file that is held open cannot be told from its
successor by name.
"""

import fcntl
import os
from pathlib import Path

from parley.core.errors import FilesLost


def try_lock(descriptor: int, kind: int) -> bool:
    """Asks for a lock of this kind, and does not wait for it. Whether it was given."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def open_if_held(path: Path) -> int | None:
    """A descriptor of the lock's file, to be closed, if somebody holds the lock now; None if nobody does.

    It neither creates nor changes the file. Raises ``OSError`` where it cannot be seen.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        held = not try_lock(descriptor, fcntl.LOCK_SH)
    except BaseException:
        os.close(descriptor)
        raise
    if held:
        return descriptor
    os.close(descriptor)  # closing also gives the shared lock back
    return None


def still_names(path: Path, descriptor: int) -> bool:
    """Whether the path leads to the file that is open here."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError:
        return False


def lost_file(path: Path) -> FilesLost:
    """What to say of a path that no longer names the file that was opened there."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return FilesLost(str(path), "removed")
    except OSError:
        return FilesLost(str(path), "out of reach")
    return FilesLost(str(path), "replaced")
