"""Where a daemon lives: one folder per user, closed to everybody else, with a fixed place for each thing."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOME_VARIABLE: Final = "PARLEY_DAEMON_HOME"


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

    def roster(self, mesh_id: str) -> Path:
        """Who was in a mesh when its broker was last asked."""
        return self.root / f"roster-{mesh_id}.json"

    def profile(self, mesh_id: str) -> Path:
        """What the member told of itself in a mesh."""
        return self.root / f"profile-{mesh_id}.json"

    @property
    def hooks(self) -> Path:
        return self.root / "hooks"

    @property
    def config(self) -> Path:
        return self.root / "daemon.toml"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def lock(self) -> Path:
        return self.root / "locks" / "daemon.lock"

    @property
    def written(self) -> tuple[Path, ...]:
        """What a daemon writes, folders before what is in them; what is not there is made."""
        databases = [
            self.root / f"{path.name}{end}" for path in (self.outbox, self.inbox) for end in ("", "-wal", "-shm")
        ]
        return (self.root, self.lock.parent, self.lock, self.logs, *databases)


def daemon_home() -> DaemonHome:
    """The folder that the environment names, else ``~/.parley/daemon``."""
    named = os.environ.get(HOME_VARIABLE)
    return DaemonHome(Path(named).absolute() if named else Path.home() / ".parley" / "daemon")
