"""One moment of each hub: an online backup, and the archives that hold what came before it.

Everything the audit says about a hub it says about this copy, so a hub that goes on writing disturbs nothing. The
copies lie in a folder of their own that goes when the audit ends, however it ends. Tasks read them by path: on a
cluster the folder has to be one that all workers share.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import apsw

from parley.core.errors import ParleyError
from parley.core.fold import TABLES
from parley.core.pipeline_errors import AuditNeedsFile
from parley.pipeline.hubs import HubRef
from parley.pipeline.source.files import read_bounds
from parley.pipeline.source.ranges import Bounds, EventRange
from parley.sqlite import close_quietly, integrity_check, online_backup, open_reader
from parley.workspace import discovery
from parley.workspace.queries.events import columns_there

PREFIX: Final = "parley-audit-"
READ: Final = {**TABLES, "idempotency_keys": ("key", "fingerprint", "operation", "entity_id", "event_id")}
"""The tables that tasks read from a copy, with their columns."""
_ARCHIVES: Final = "SELECT name, sha256, up_to_event_id FROM archives ORDER BY up_to_event_id"


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """An archive as the database records it. ``bounds`` is None if the file is not there or cannot be read."""

    name: str
    sha256: str
    up_to: int
    path: str
    digest: str
    """What the file's digest is now; empty if there is none."""
    bounds: Bounds | None


@dataclass(frozen=True, slots=True)
class HubCopy:
    """A hub at one moment."""

    db_id: str
    source: str
    database: str
    """The backup."""
    bounds: Bounds
    archives: tuple[ArchiveFile, ...]
    columns: dict[str, tuple[str, ...]]
    """The columns that each table has; a file of an older schema lacks some tables and some columns."""

    @property
    def floor(self) -> int:
        """The last event that was archived."""
        return self.archives[-1].up_to if self.archives else 0

    @property
    def history(self) -> tuple[EventRange, ...]:
        """What can be read of the whole log, as ranges that follow each other up to its end, each event once."""
        parts = [EventRange(self._reference(self.database), max(self.bounds.lo, self.floor), self.bounds.hi)]
        for number in range(len(self.archives) - 1, -1, -1):
            archive = self.archives[number]
            if archive.bounds is None:
                break  # what came before cannot be told from what is missing
            before = self.archives[number - 1].up_to if number else 0
            lo, hi = max(archive.bounds.lo, before), min(archive.bounds.hi, archive.up_to)
            parts.append(EventRange(self._reference(archive.path), min(lo, hi), hi))
        return tuple(reversed(parts))

    @property
    def begins_after(self) -> int:
        """Where the readable history begins; above 0 if an archive is missing."""
        return self.history[0].lo

    def _reference(self, database: str) -> HubRef:
        return HubRef(self.db_id, self.source, database=database)


@contextmanager
def copied(hubs: Sequence[HubRef], folder: Path | None = None) -> Generator[tuple[Path, list[HubCopy]]]:
    """Copies of all hubs, in a folder that is removed afterwards. Raises ``AuditNeedsFile`` for a hub by address."""
    refuse_distant(hubs)
    place = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder))
    try:
        yield place, [_copy(hub, place / f"hub-{number}.sqlite3") for number, hub in enumerate(hubs)]
    finally:
        shutil.rmtree(place, ignore_errors=True)


def refuse_distant(hubs: Sequence[HubRef]) -> None:
    """Raises ``AuditNeedsFile`` for a hub that is known by its address alone: its tables cannot be seen."""
    distant = [hub.source for hub in hubs if hub.database is None]
    if distant:
        raise AuditNeedsFile(f"A hub that is known by its address alone cannot be audited: {', '.join(distant)}")


def _copy(hub: HubRef, target: Path) -> HubCopy:
    assert hub.database is not None
    online_backup(Path(hub.database), target)
    connection = open_reader(target)
    try:
        columns = {table: tuple(columns_there(connection, table, known)) for table, known in READ.items()}
        there = columns_there(connection, "archives", ("name",))
        recorded: list[Any] = connection.execute(_ARCHIVES).fetchall() if there else []
    finally:
        close_quietly(connection)
    folder = discovery.at(Path(hub.source)).archives
    archives = tuple(_archive(folder / name, name, sha256, up_to) for name, sha256, up_to in recorded)
    return HubCopy(hub.db_id, hub.source, str(target), read_bounds(str(target)), archives, columns)


def _archive(path: Path, name: str, sha256: str, up_to: int) -> ArchiveFile:
    connection: apsw.Connection | None = None
    digest = ""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        connection = open_reader(path)
        # A file that is what it was when it was sealed needs no further look.
        sound = digest == sha256 or not integrity_check(connection, quick=True)
        bounds = read_bounds(str(path)) if sound else None
    except (OSError, ParleyError, apsw.Error):
        bounds = None
    finally:
        close_quietly(connection)
    return ArchiveFile(name, sha256, up_to, str(path), digest, bounds)
