"""The daemon's socket: one file in its folder, which only its owner may open."""

import os
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from parley.core.errors import WriterLockHeld
from parley.core.writable import unusable

BACKLOG: Final = 1_024
CONNECT_SECONDS: Final = 2.0
_MODE: Final = 0o600
_CREDENTIALS: Final = struct.Struct("3i")
"""What the kernel tells of whoever listens: process, user, group."""


def listen_unix(path: Path) -> socket.socket:
    """Listens on a socket of this user alone. The caller holds the lock, so what lies there is stale."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        path.unlink(missing_ok=True)
        listening.bind(str(path))
        path.chmod(_MODE)
    except OSError as error:
        listening.close()
        raise unusable(path, error) from error
    finally:
        os.umask(before)
    listening.listen(BACKLOG)
    return listening


def refuse_listening(path: Path) -> None:
    """Raises ``WriterLockHeld`` if a process listens there: it lives, whatever became of its lock."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(CONNECT_SECONDS)
        try:
            caller.connect(str(path))
        except TimeoutError:
            pass  # it listens, and has no time
        except OSError:
            return
        pid = _listener(caller)
    who = "Another process" if pid is None else f"Process {pid}"
    raise WriterLockHeld(f"{who} listens on {path}", pid=pid, path=str(path))


def _listener(caller: socket.socket) -> int | None:
    if sys.platform != "linux":
        return None
    with suppress(OSError):
        told = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return _CREDENTIALS.unpack(told)[0] or None
    return None
