"""Opening a file for its one writer: refused if a newer Parley wrote it, looked through for damage, and migrated.

The version of its schema is SQLite's own ``user_version``. A reader looks at it first: to open a file for writing may
already change it, and one of a newer schema must not be changed.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import apsw

from parley.core.clock import stamp
from parley.core.errors import DatabaseCorrupt, ParleyError
from parley.sqlite.backup import online_backup
from parley.sqlite.checks import integrity_check
from parley.sqlite.connect import close_quietly, open_reader, open_writer
from parley.sqlite.migrate import Migration, migrate


def open_checked(
    path: Path, migrations: Sequence[Migration], *, now_ms: int, vfs: str | None = None, gives_back: bool = False
) -> apsw.Connection:
    """The connection that writes the file, at the newest schema. ``now_ms`` names the backup before a migration.

    Raises ``DatabaseCorrupt``, ``SchemaTooNew``, ``MigrationFailed`` or ``ServiceUnavailable``.
    """
    refuse_newer(path, migrations, read_version=user_version, vfs=vfs)
    connection = open_writer(path, vfs=vfs, gives_back=gives_back)
    try:
        problems = integrity_check(connection)
        if problems:
            raise DatabaseCorrupt(f"{path.name} is damaged: {problems[0]}", path=str(path), problems=problems[:5])
        migrate(
            connection,
            migrations,
            read_version=user_version,
            write_version=record_version,
            backup=lambda: back_up(path, now_ms),
        )
    except BaseException:
        close_quietly(connection)
        raise
    return connection


def refuse_newer(
    path: Path,
    migrations: Sequence[Migration],
    *,
    read_version: Callable[[apsw.Connection], int],
    vfs: str | None = None,
) -> None:
    """Raises ``SchemaTooNew`` before the file is opened for writing, which alone may change it."""
    if not is_there(path):
        return
    try:
        connection = open_reader(path, vfs=vfs)
    except ParleyError:
        return  # it is damaged, which the writer says
    try:
        migrate(connection, migrations, read_version=read_version, write_version=lambda each, step: None, target=0)
    except (apsw.Error, ValueError):
        return
    finally:
        close_quietly(connection)


def user_version(connection: apsw.Connection) -> int:
    """The schema's version; 0 for an empty file."""
    return int(str(connection.execute("PRAGMA user_version").fetchall()[0][0]))


def record_version(connection: apsw.Connection, step: Migration) -> None:
    """Inside the migration's transaction: the file is now at this version."""
    connection.execute(f"PRAGMA user_version={step.number}").fetchall()


def is_there(path: Path) -> bool:
    """Whether the file holds anything. One that was cut to nothing, as by a full disk, is as good as gone."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def back_up(path: Path, now_ms: int) -> Path:
    """A copy beside the file, named after the time."""
    target = path.with_name(f"{path.name}.backup-{stamp(now_ms)}")
    online_backup(path, target)
    return target
