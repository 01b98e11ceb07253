"""Opening the daemon's two databases, each at its newest schema.

The outbox is the only copy of what was promised to be sent, so damage to it stops the start. The inbox is a cache of
what brokers delivered: a damaged one is moved aside, and an empty one takes its place.
"""

from pathlib import Path
from typing import Final, NamedTuple

import apsw

from parley.core.clock import stamp
from parley.core.errors import DatabaseCorrupt
from parley.sqlite import (
    Migration,
    close_quietly,
    integrity_check,
    load_migrations,
    migrate,
    online_backup,
    open_writer,
)

OUTBOX_MIGRATIONS: Final = load_migrations("parley.daemon", "schema/outbox")
INBOX_MIGRATIONS: Final = load_migrations("parley.daemon", "schema/inbox")
_PARTS: Final = ("", "-wal", "-shm")


class OpenedInbox(NamedTuple):
    """The inbox's connection, and where a damaged one was put, if there was one."""

    connection: apsw.Connection
    set_aside: Path | None


def open_outbox(path: Path, *, now_ms: int = 0, vfs: str | None = None) -> apsw.Connection:
    """The connection that writes the outbox. Raises ``DatabaseCorrupt`` for a damaged file and leaves it as it is."""
    return _open_checked(path, OUTBOX_MIGRATIONS, now_ms, vfs)


def open_inbox(path: Path, *, now_ms: int = 0, vfs: str | None = None) -> OpenedInbox:
    """The connection that writes the inbox; a damaged file is set aside first."""
    try:
        return OpenedInbox(_open_checked(path, INBOX_MIGRATIONS, now_ms, vfs), None)
    except DatabaseCorrupt:
        aside = path.with_name(f"{path.name}.corrupt-{stamp(now_ms)}")
        for part in _PARTS:
            piece = path.with_name(path.name + part)
            if piece.exists():
                piece.rename(aside.with_name(aside.name + part))
    return OpenedInbox(_open_checked(path, INBOX_MIGRATIONS, now_ms, vfs), aside)


def _open_checked(path: Path, migrations: tuple[Migration, ...], now_ms: int, vfs: str | None) -> apsw.Connection:
    connection = open_writer(path, vfs=vfs)
    try:
        problems = integrity_check(connection)
        if problems:
            raise DatabaseCorrupt(f"{path.name} is damaged: {problems[0]}", path=str(path), problems=problems[:5])
        migrate(
            connection,
            migrations,
            read_version=_version,
            write_version=_record,
            backup=lambda: _back_up(path, now_ms),
        )
    except BaseException:
        close_quietly(connection)
        raise
    return connection


def _version(connection: apsw.Connection) -> int:
    return int(str(connection.execute("PRAGMA user_version").fetchall()[0][0]))


def _record(connection: apsw.Connection, step: Migration) -> None:
    connection.execute(f"PRAGMA user_version={step.number}").fetchall()


def _back_up(path: Path, now_ms: int) -> Path:
    target = path.with_name(f"{path.name}.backup-{stamp(now_ms)}")
    online_backup(path, target)
    return target
