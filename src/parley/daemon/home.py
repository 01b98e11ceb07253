"""Making a daemon's folder ready to be served."""

import os
from typing import Final

from parley.core.errors import WorkspaceUnsafe
from parley.wire.daemon_home import HOME_VARIABLE, DaemonHome

_FOLDER_MODE: Final = 0o700
SOCKET_PATH_BYTES_MAX: Final = 100
"""The system allows 108 on Linux and 104 on macOS, the end included."""


def prepare_home(home: DaemonHome) -> None:
    """Makes the folders. Raises ``WorkspaceUnsafe`` for a folder of somebody else or a path too long to serve."""
    if len(os.fsencode(home.socket)) > SOCKET_PATH_BYTES_MAX:
        raise WorkspaceUnsafe(f"{home.socket} is too long for a socket; choose another {HOME_VARIABLE}")
    try:
        for folder in (home.root, home.logs, home.lock.parent):
            folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        status = home.root.stat()
        if status.st_uid != os.getuid():
            raise WorkspaceUnsafe(f"{home.root} belongs to another user")
        if status.st_mode & 0o077:
            home.root.chmod(_FOLDER_MODE)
    except OSError as error:
        raise WorkspaceUnsafe(f"{home.root} cannot be used: {error.strerror}") from error
