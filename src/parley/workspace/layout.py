"""Where the files of a workspace are: one name for each, used by the hub, the client and the command line alike."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

STATE_NAME: Final = ".parley"
ADOPTED_NAME: Final = ".agentlip"
DATABASE_NAME: Final = "db.sqlite3"
LOG_NAME: Final = "hub.log"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace: the folder people work in (``root``) and the folder of ours inside it (``state``)."""

    root: Path
    state: Path

    @property
    def db(self) -> Path:
        """The database."""
        return self.state / DATABASE_NAME

    @property
    def wal(self) -> Path:
        """The database's write-ahead log."""
        return self.state / f"{DATABASE_NAME}-wal"

    @property
    def token(self) -> Path:
        """The bearer token, kept across restarts."""
        return self.state / "token"

    @property
    def server_file(self) -> Path:
        """How to reach the running hub; removed at a clean stop."""
        return self.state / "server.json"

    @property
    def last_port(self) -> Path:
        """The port that the last hub listened on; the next one prefers it."""
        return self.state / "last_port"

    @property
    def lock(self) -> Path:
        """Locked by the running hub for its whole life; never unlinked."""
        return self.state / "locks" / "hub.lock"

    @property
    def logs(self) -> Path:
        """Log files of a detached hub."""
        return self.state / "logs"

    @property
    def backups(self) -> Path:
        """Copies of the database, made before each schema change and on request."""
        return self.state / "backups"

    @property
    def agents(self) -> Path:
        """What agents keep for themselves: their names by session, and how far each has read."""
        return self.state / "agents"

    @property
    def spool(self) -> Path:
        """Where requests come as files from programs that may open no socket; made by the hub."""
        return self.state / "spool"

    @property
    def archives(self) -> Path:
        """Sealed files with the events and messages that were archived."""
        return self.state / "archives"

    @property
    def written(self) -> tuple[Path, ...]:
        """What a hub writes, folders before what is in them; what is not there is made."""
        index = self.state / f"{DATABASE_NAME}-shm"
        files = (self.db, self.wal, index, self.logs / LOG_NAME)
        return (self.state, self.lock.parent, self.lock, self.spool, self.logs, *files)

    @property
    def config(self) -> Path:
        """Settings, in the root so that they can be committed with the project."""
        return self.root / "parley.toml"

    @property
    def suspect(self) -> Path:
        """Written when the database turned out damaged; while it is there no hub starts."""
        return self.state / "SUSPECT"

    @property
    def adopted(self) -> bool:
        """Whether the state folder is one that Agentlip made."""
        return self.state.name == ADOPTED_NAME
