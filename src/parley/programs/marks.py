"""Up to where an agent was told, one small file for each session of its program in ``.parley/agents/``.

It is apart from the cursor of the agent's own inbox: being told consumes nothing. A session that begins goes on where
the last one of the same agent ended. The file also remembers what the database looked like when it was last read, so
that a look at two files' times is enough as long as nothing has changed.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final, NamedTuple

_PREFIX: Final = "told-"
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_KEPT_SECONDS: Final = 30 * 24 * 3600
"""Files of sessions that nobody has come back to for so long are removed."""


class Mark(NamedTuple):
    """How far a session has come."""

    agent: str
    db_id: str
    event_id: int
    stamp: list[int]
    """What the database's files looked like when nothing after ``event_id`` was left to tell."""


def stamp(database: Path) -> list[int]:
    """What changes whenever the database does: times and sizes of its file and of its log."""
    found: list[int] = []
    for path in (database, database.with_name(database.name + "-wal")):
        try:
            about = path.stat()
            found += [about.st_mtime_ns, about.st_size]
        except FileNotFoundError:
            found += [0, 0]
    return found


class Told:
    """The mark of one session of a program."""

    def __init__(self, folder: Path, program: str, session: str) -> None:
        self._folder = folder
        name = hashlib.sha256(f"{program}\0{session}".encode()).hexdigest()[:16]
        self._path = folder / f"{_PREFIX}{name}.json"

    @contextlib.contextmanager
    def locked(self) -> Generator[bool]:
        """Whether this process is the one that tells: of several that are called at once, one does."""
        self._folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path.with_suffix(".lock"), flags, _FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield True
        except BlockingIOError:
            yield False
        finally:
            os.close(descriptor)

    def load(self) -> Mark | None:
        """The mark of this session; None for a new one."""
        return _read(self._path)

    def latest_of(self, agent: str, db_id: str) -> int | None:
        """How far the agent was told in any session; None if it never was."""
        marks = [mark for path in self._folder.glob(f"{_PREFIX}*.json") if (mark := _read(path)) is not None]
        return max((mark.event_id for mark in marks if (mark.agent, mark.db_id) == (agent, db_id)), default=None)

    def save(self, mark: Mark) -> None:
        """Replaces the mark of this session. A new one is the moment to clear away those that nobody uses."""
        is_new = not self._path.exists()
        temporary = self._path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(mark._asdict()), encoding="utf-8")
        temporary.replace(self._path)  # not synced: after a power cut an agent is told once more
        if is_new:
            self._clear_away()

    def _clear_away(self) -> None:
        for path in self._folder.glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _KEPT_SECONDS:
                    path.unlink()


def _read(path: Path) -> Mark | None:
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
        return Mark(str(found["agent"]), str(found["db_id"]), int(found["event_id"]), list(found["stamp"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
