"""Moving old history out of a workspace's database into a sealed file of its own.

Runs while no hub serves the workspace, by the holder of its lock. The boundary is an event: everything up to it goes,
and with it each message that no later event has changed, and its enrichments. Channels, topics, attachments, tasks,
leases and agents stay; the archive has a copy of them, so that it can be read by itself, with the same tools.

The order makes a crash harmless at every point. The archive is written, synced and sealed first; only then does one
transaction remove the same rows from the database and record the archive's name and digest, in a table and as an event.
A sealed file without such a record is a left-over of a crash; it is removed once everything in it is seen to be in the
database still.
"""

import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import apsw

from parley.core.clock import iso, stamp
from parley.core.errors import InternalError, ServiceUnavailable, StartupFailed
from parley.core.files import create_private, sync_folder, temporary_beside
from parley.sqlite import close_quietly, translate
from parley.wire.events import WorkspaceArchived
from parley.workspace.layout import Workspace
from parley.workspace.log import Draft, append_event
from parley.workspace.queries import latest_event_id, read_meta
from parley.workspace.queries.entities import LARGEST_ARCHIVED_ID
from parley.workspace.versions import read_versions, refuse_newer

FOLDER_MODE: Final = 0o700
SEALED_MODE: Final = 0o400
IN_PROGRESS: Final = "archive_in_progress"
"""The key in ``meta`` that lets deletes pass the schema's triggers; it never outlives the transaction that sets it."""

_FIRST_TO_KEEP: Final = "SELECT event_id FROM events WHERE ts >= ? ORDER BY event_id LIMIT 1"
# Records of earlier archives alone are no reason to make another one.
_ANYTHING: Final = "SELECT 1 FROM events WHERE event_id <= ? AND name <> 'workspace.archived' LIMIT 1"
_SCHEMA: Final = (
    "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    " AND name NOT LIKE 'messages\\_fts%' ESCAPE '\\' ORDER BY type <> 'table', type <> 'index'"
)
_TABLES: Final = "SELECT name FROM main.sqlite_schema WHERE type = 'table'"
_CHANGES: Final = "('message.created', 'message.edited', 'message.deleted', 'message.moved_topic')"
_COPIES: Final = {
    "meta": f"SELECT * FROM main.meta WHERE key <> '{IN_PROGRESS}'",
    "archives": "SELECT * FROM main.archives",
    "channels": "SELECT * FROM main.channels",
    "topics": "SELECT * FROM main.topics",
    "messages": (
        "SELECT * FROM main.messages"
        f" WHERE id IN (SELECT entity_id FROM main.events WHERE event_id <= :up_to AND name IN {_CHANGES})"
        f" AND id NOT IN (SELECT entity_id FROM main.events WHERE event_id > :up_to AND name IN {_CHANGES})"
    ),
    "enrichments": "SELECT * FROM main.enrichments WHERE message_id IN (SELECT id FROM archive.messages)",
    "topic_attachments": (
        "SELECT id, topic_id, kind, key, value_json, dedupe_key,"
        " CASE WHEN source_message_id IN (SELECT id FROM archive.messages) THEN source_message_id END, created_at"
        " FROM main.topic_attachments"
    ),
    "agents": "SELECT * FROM main.agents",
    "tasks": "SELECT * FROM main.tasks",
    "leases": "SELECT * FROM main.leases",
    "events": "SELECT * FROM main.events WHERE event_id <= :up_to",
}
_DETACH_SOURCES: Final = (
    "UPDATE main.topic_attachments SET source_message_id = NULL"
    " WHERE source_message_id IN (SELECT id FROM archive.messages)"
)
_DELETE_ENRICHMENTS: Final = "DELETE FROM main.enrichments WHERE message_id IN (SELECT id FROM archive.messages)"
_DELETE_MESSAGES: Final = "DELETE FROM main.messages WHERE id IN (SELECT id FROM archive.messages)"
_DELETE_EVENTS: Final = "DELETE FROM main.events WHERE event_id <= ?"
_RECORD: Final = (
    "INSERT INTO main.archives (name, sha256, up_to_event_id, events, messages, created_at) VALUES (?, ?, ?, ?, ?, ?)"
)
_KEEP_LARGEST: Final = (
    "INSERT INTO main.meta (key, value) SELECT ?, id FROM archive.messages ORDER BY id DESC LIMIT 1"
    " ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)"
)
_LOST_WITHOUT: Final = (
    "SELECT 1 FROM archive.events AS old WHERE NOT EXISTS (SELECT 1 FROM main.events AS new"
    " WHERE new.event_id = old.event_id AND new.ts = old.ts AND new.data_json = old.data_json)"
    " UNION ALL SELECT 1 FROM archive.messages WHERE id NOT IN (SELECT id FROM main.messages) LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """What was moved; ``path`` is None and the counts are zero when nothing was old enough."""

    path: Path | None
    sha256: str
    up_to_event_id: int
    events: int
    messages: int


def archive_before(connection: apsw.Connection, workspace: Workspace, *, before_ms: int, now_ms: int) -> ArchiveReport:
    """Archives what happened before a time. ``connection`` is the writer's; the caller holds the hub's lock.

    Raises ``SchemaTooNew`` for a database that a newer Parley wrote.
    """
    versions = read_versions(connection)
    refuse_newer(versions)
    if versions.parley == 0:
        raise StartupFailed("The database was not prepared yet; start the hub once before archiving")
    try:
        workspace.archives.mkdir(mode=FOLDER_MODE, exist_ok=True)
        _remove_leftovers(connection, workspace)
        up_to = _boundary(connection, iso(before_ms))
        if connection.execute(_ANYTHING, (up_to,)).fetchone() is None:
            return ArchiveReport(None, "", up_to, 0, 0)
        path = workspace.archives / f"archive-{up_to}-{stamp(now_ms)}.sqlite3"
        _seal(connection, path, up_to)
        return _remove_archived(connection, path, up_to, iso(now_ms))
    except apsw.Error as error:
        raise translate(error) from error
    except OSError as error:
        raise ServiceUnavailable(f"The archive could not be written: {error}", reason="io_error") from error


def _boundary(connection: apsw.Connection, before: str) -> int:
    """The last event to archive. Clocks jump, so it is the first event at or after the time that decides."""
    row: Any = connection.execute(_FIRST_TO_KEEP, (before,)).fetchone()
    return latest_event_id(connection) if row is None else row[0] - 1


def _seal(connection: apsw.Connection, path: Path, up_to: int) -> None:
    """Writes the archive under a temporary name, and gives it its own once it is complete, on disk and read-only."""
    temporary = temporary_beside(path)
    try:
        os.close(create_private(temporary))
        _copy_schema(connection, temporary)
        with _attached(connection, temporary), connection:
            there = {name for (name,) in connection.execute(_TABLES)}
            for table, rows in _COPIES.items():
                if table not in there:
                    continue  # no hub has opened the database since the upgrade that brings the table
                connection.execute(f"INSERT INTO archive.{table} {rows}", {"up_to": up_to} if ":up_to" in rows else ())
        temporary.chmod(SEALED_MODE)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def _copy_schema(connection: apsw.Connection, target: Path) -> None:
    """The database's own schema without its full-text index, so that an archive looks like what it was taken from."""
    archive = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        with archive:
            for (statement,) in connection.execute(_SCHEMA):
                archive.execute(str(statement))
    finally:
        close_quietly(archive)


def _remove_archived(connection: apsw.Connection, path: Path, up_to: int, ts: str) -> ArchiveReport:
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    with _attached(connection, path):
        counts = _count(connection, "archive.events"), _count(connection, "archive.messages")
        data = WorkspaceArchived(path.name, sha256, up_to, *counts)
        with connection:
            _move_out(connection, data, ts)
    return ArchiveReport(path, sha256, up_to, *counts)


def _move_out(connection: apsw.Connection, archived: WorkspaceArchived, ts: str) -> None:
    up_to = archived.up_to_event_id
    connection.execute("INSERT INTO main.meta (key, value) VALUES (?, ?)", (IN_PROGRESS, archived.archive))
    connection.execute(_DETACH_SOURCES)
    connection.execute(_DELETE_ENRICHMENTS)
    _delete_exactly(connection, _DELETE_MESSAGES, (), archived.messages)
    _delete_exactly(connection, _DELETE_EVENTS, (up_to,), archived.events)
    connection.execute(_KEEP_LARGEST, (LARGEST_ARCHIVED_ID,))
    connection.execute(_RECORD, (archived.archive, archived.sha256, up_to, archived.events, archived.messages, ts))
    append_event(connection, ts, Draft("workspace.archived", read_meta(connection, "db_id") or "", archived))
    connection.execute("DELETE FROM main.meta WHERE key = ?", (IN_PROGRESS,))


def _delete_exactly(connection: apsw.Connection, statement: str, parameters: tuple[int, ...], count: int) -> None:
    """Deletes what the archive holds and nothing else; a different number means that the two are not the same rows."""
    connection.execute(statement, parameters)
    if connection.changes() != count:
        raise InternalError(f"{connection.changes()} rows would be removed where the archive holds {count}")


def _remove_leftovers(connection: apsw.Connection, workspace: Workspace) -> None:
    recorded = {name for (name,) in connection.execute("SELECT name FROM archives")}
    for path in workspace.archives.glob(".archive-*.tmp"):
        path.unlink()
    for path in workspace.archives.glob("archive-*.sqlite3"):
        if path.name not in recorded and _nothing_lost_without(connection, path):
            path.unlink()


def _nothing_lost_without(connection: apsw.Connection, path: Path) -> bool:
    """Whether all of the file is in the database still. After a restored backup that need not be so."""
    try:
        with _attached(connection, path):
            return connection.execute(_LOST_WITHOUT).fetchone() is None
    except (apsw.SQLError, apsw.NotADBError, apsw.CorruptError):
        return False


@contextmanager
def _attached(connection: apsw.Connection, path: Path) -> Generator[None]:
    connection.execute("ATTACH ? AS archive", (str(path),))
    try:
        yield
    finally:
        connection.execute("DETACH archive")


def _count(connection: apsw.Connection, table: str) -> int:
    return int(str(connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]))
