"""Where a daemon lives: one folder per user, closed to everybody else, with a fixed place for each thing."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from parley.core.errors import WorkspaceUnsafe

HOME_VARIABLE: Final = "PARLEY_DAEMON_HOME"
_FOLDER_MODE: Final = 0o700
SOCKET_PATH_BYTES_MAX: Final = 100
"""The system allows 108 on Linux and 104 on macOS, the end included."""


@dataclass(frozen=True, slots=True)
class DaemonHome:
    """The places in a daemon's folder."""

    root: Path

    @property
    def outbox(self) -> Path:
        return self.root / "outbox.db"

    @property
    def inbox(self) -> Path:
        return self.root / "inbox.db"

    @property
    def socket(self) -> Path:
        return self.root / "daemon.sock"

    @property
    def token(self) -> Path:
        return self.root / "local-token"

    @property
    def host_fingerprint(self) -> Path:
        return self.root / "host_fingerprint.json"

    @property
    def memberships(self) -> Path:
        return self.root / "memberships.json"

    @property
    def key_archive(self) -> Path:
        return self.root / "keypair-archive.json"

    @property
    def port_file(self) -> Path:
        return self.root / "http.port"

    @property
    def sessions(self) -> Path:
        return self.root / "sessions.json"

    @property
    def config(self) -> Path:
        return self.root / "daemon.toml"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def lock(self) -> Path:
        return self.root / "locks" / "daemon.lock"

    def prepare(self) -> None:
        """Makes the folders. Raises ``WorkspaceUnsafe`` for a folder of somebody else or a path too long to serve."""
        if len(os.fsencode(self.socket)) > SOCKET_PATH_BYTES_MAX:
            raise WorkspaceUnsafe(f"{self.socket} is too long for a socket; choose another {HOME_VARIABLE}")
        try:
            for folder in (self.root, self.logs, self.lock.parent):
                folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            status = self.root.stat()
            if status.st_uid != os.getuid():
                raise WorkspaceUnsafe(f"{self.root} belongs to another user")
            if status.st_mode & 0o077:
                self.root.chmod(_FOLDER_MODE)
        except OSError as error:
            raise WorkspaceUnsafe(f"{self.root} cannot be used: {error.strerror}") from error


def daemon_home() -> DaemonHome:
    """The folder that the environment names, else ``~/.parley/daemon``."""
    named = os.environ.get(HOME_VARIABLE)
    return DaemonHome(Path(named).absolute() if named else Path.home() / ".parley" / "daemon")
