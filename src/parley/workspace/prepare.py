"""Making a workspace's database ready to be served, by whoever holds the hub's lock.

A new file gets the schema, an older one is migrated and an Agentlip one adopted, both after a backup; a newer one is
refused before anything is touched. What happened to the file is an event in its log, in the transaction that did it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import apsw

from parley.core.clock import Clock, iso, stamp
from parley.core.ids import new_uuid
from parley.sqlite import Migration, migrate, online_backup
from parley.wire.events import SchemaMigrated, WorkspaceAdopted
from parley.wire.server_file import WIRE_SCHEMA_VERSION
from parley.workspace.adopt import adopt_agentlip
from parley.workspace.fts import ensure_fts
from parley.workspace.layout import Workspace
from parley.workspace.log import Draft, append_event
from parley.workspace.queries.entities import read_meta
from parley.workspace.versions import MIGRATIONS, Versions, read_versions, refuse_newer

Change = Literal["created", "migrated", "adopted"]
_SET_META: Final = "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_FOLDER_MODE: Final = 0o700


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was found and done. ``change`` is None when the file was up to date."""

    db_id: str
    schema: int
    change: Change | None
    backup: Path | None
    fts: bool
    warnings: tuple[str, ...]


def prepare(
    connection: apsw.Connection,
    workspace: Workspace,
    *,
    clock: Clock,
    fts: bool,
    new_id: Callable[[], str] = new_uuid,
    migrations: Sequence[Migration] = MIGRATIONS,
) -> Prepared:
    """Brings the database behind the writer's connection to the newest schema and settles its full-text index.

    Raises ``SchemaTooNew``, ``MigrationFailed`` (the file is as before; the error names the backup), or
    ``StartupFailed`` for a file that is no workspace's database.
    """
    before = read_versions(connection)
    refuse_newer(before, len(migrations))
    now_ms = clock.now_ms()
    steps = (Migration(1, "adopt_agentlip", adopt_agentlip), *migrations[1:]) if before.adoptable else migrations
    report = migrate(
        connection,
        steps,
        read_version=lambda each: read_versions(each).parley,
        write_version=lambda each, step: _record(each, step, before, iso(now_ms), new_id),
        backup=lambda: _back_up(workspace, before.parley, now_ms),
    )
    warnings: list[str] = []
    db_id = read_meta(connection, "db_id")
    if not db_id:
        db_id = new_id()
        connection.execute(_SET_META, ("db_id", db_id))
        warnings.append(f"The database had no id; it is {db_id} now, and cursors kept for the old one start over")
    indexed = ensure_fts(connection, fts)
    if fts and not indexed:
        warnings.append("The full-text index could not be built; search compares text")
    change = _change(before) if report.applied else None
    return Prepared(db_id, report.to_version, change, report.backup, indexed, tuple(warnings))


def backup_path(workspace: Workspace, version: int, now_ms: int) -> Path:
    """``backups/db.sqlite3.backup-v1-20260204T233045123Z``; version 0 is a file that was not adopted yet."""
    return workspace.backups / f"{workspace.db.name}.backup-v{version}-{stamp(now_ms)}"


def _change(before: Versions) -> Change:
    return "adopted" if before.adoptable else "migrated" if before.parley else "created"


def _back_up(workspace: Workspace, version: int, now_ms: int) -> Path:
    workspace.backups.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    target = backup_path(workspace, version, now_ms)
    online_backup(workspace.db, target)
    return target


def _record(connection: apsw.Connection, step: Migration, before: Versions, ts: str, new_id: Callable[[], str]) -> None:
    """Inside the step's transaction: the new version, the identity of a new file, and the event that tells of it."""
    if step.number == 1:
        for key, value in (
            ("db_id", new_id()),
            ("schema_version", str(WIRE_SCHEMA_VERSION)),
            ("created_at", ts),
        ):
            connection.execute("INSERT OR IGNORE INTO meta (key, value) VALUES (?, ?)", (key, value))
    connection.execute(_SET_META, ("parley_schema", str(step.number)))
    db_id = read_meta(connection, "db_id") or ""
    if before.parley:
        migrated = SchemaMigrated(step.number - 1, step.number)
        append_event(connection, ts, Draft("schema.migrated", db_id, migrated))
    elif before.adoptable and step.number == 1:
        messages = connection.execute("SELECT count(*) FROM messages").fetchall()[0][0]
        adopted = WorkspaceAdopted("agentlip", int(str(messages)))
        append_event(connection, ts, Draft("workspace.adopted", db_id, adopted))
