"""Backup, restore and check of what a broker holds, whichever store it is in.

A backup is always a SQLite file with the broker's own tables, so one that was taken of a file can be restored into a
PostgreSQL database and the other way round. It is one moment of the store, taken while the broker serves.

A restore begins a new epoch: what members have seen after the backup was taken is gone, and they can tell by it. What
was leased is queued again, and nobody is connected.
"""

import contextlib
import tempfile
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import apsw

from parley.broker.lifecycle import locked
from parley.broker.options import POSTGRESQL
from parley.broker.rules.audit import verify
from parley.broker.rules.orphans import Finding, find_orphans
from parley.broker.rules.presence import forget_all_connections
from parley.broker.rules.roster_check import first_misfit
from parley.broker.rules.roster_restore import mark_restored
from parley.broker.sqlite_store import SqliteTx, open_sqlite_store, read_version
from parley.broker.tx import Row, Tx
from parley.core.clock import Clock, stamp
from parley.core.errors import DatabaseCorrupt, SchemaTooNew, ServiceUnavailable, StartupFailed
from parley.core.files import sync_folder, temporary_beside
from parley.core.ids import IdSource, new_uuid
from parley.sqlite import (
    checkpoint_once,
    close_quietly,
    integrity_check,
    load_migrations,
    online_backup,
    open_reader,
)

TABLES: Final = (
    "meta",
    "mesh",
    "member",
    "member_key",
    "invite",
    "topic",
    "topic_subscription",
    "group_member",
    "peer_grant",
    "message_history",
    "message",
    "client_message_dedupe",
    "delivery_queue",
    "mention_index",
    "presence",
    "profile",
    "audit",
    "key_gift",
    "roster",
    "mesh_log",
)
"""What is kept, each after what it refers to."""
MOMENTARY: Final = ("connection", "rate_budget", "rate_key", "roster_turn", "roster_snapshot")
"""What belongs to the moment, or is made anew from what is kept."""
IDENTITIES: Final = {"message_history": "history_id", "delivery_queue": "delivery_id"}
_ROWS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found."""

    problems: tuple[str, ...]
    """Of the file itself."""
    orphans: tuple[Finding, ...]
    broken_audits: dict[str, int]
    """Meshes whose audit chain does not hold, with the first number that does not fit."""
    broken_rosters: dict[str, int]
    """Meshes whose roster does not, or not what was made of it."""

    @property
    def sound(self) -> bool:
        return not (self.problems or self.orphans or self.broken_audits or self.broken_rosters)


def back_up(store: str, target: Path, clock: Clock) -> None:
    """Copies the store to a new file. Raises ``ServiceUnavailable`` with reason ``exists`` rather than replace one."""
    if not store.startswith(POSTGRESQL):
        _must_exist(Path(store))
        online_backup(Path(store), target)
        return
    if target.exists():
        raise ServiceUnavailable(f"{target} exists already", reason="exists")
    from parley.broker.postgresql_store import snapshot

    temporary = temporary_beside(target)
    try:
        made = open_sqlite_store(temporary, clock, synchronous="normal")
        try:
            with snapshot(store) as rows:
                _fill(made.connection, rows)
            made.connection.execute("PRAGMA journal_mode=DELETE").fetchall()
        finally:
            made.close()
        temporary.rename(target)
        sync_folder(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def restore(source: Path, store: str, clock: Clock, *, force: bool) -> int:
    """Puts a backup in the place of the store; the new epoch. A file that is replaced is kept beside it.

    Without ``force`` a store that holds something is left alone. The broker must not be running.
    """
    _refuse_unsound(source)
    if store.startswith(POSTGRESQL):
        from parley.broker.postgresql_store import replace_all

        with tempfile.TemporaryDirectory(prefix="parley-restore-") as folder:
            copy = Path(folder) / "broker.db"
            online_backup(source, copy)
            open_sqlite_store(copy, clock).close()  # an older one is migrated first
            with contextlib.closing(open_reader(copy)) as reader:
                return replace_all(store, reader, clock, force=force)
    return _restore_file(source, Path(store), clock, force)


def check(store: str, clock: Clock, *, pages: bool = True) -> Checked:
    """Looks at everything once, while the broker serves or not; without ``pages`` at the rows alone."""
    if store.startswith(POSTGRESQL):
        from parley.broker.postgresql_store import PostgresqlStore

        with contextlib.closing(PostgresqlStore(store, clock)) as opened:
            return opened.call(lambda tx: _look(tx, ()))
    _must_exist(Path(store))
    # A broker checks its own file so: another way of opening it would end SQLite's locks there when it is closed.
    with contextlib.closing(open_reader(Path(store), immutable_fallback=pages)) as reader:
        problems = tuple(integrity_check(reader, quick=False)) if pages else ()
        reader.execute("BEGIN")
        return _look(SqliteTx(reader, clock.now_ms(), IdSource()), problems)


def begin_epoch(tx: Tx, at_least: int) -> int:
    """Makes a restored store the first moment of a new epoch."""
    row = tx.one("SELECT value FROM meta WHERE key = 'epoch'")
    epoch = max(int(row[0]) if row else 0, at_least) + 1
    tx.run("UPDATE meta SET value = ? WHERE key = 'epoch'", str(epoch))
    forget_all_connections(tx)
    mark_restored(tx)
    tx.run("UPDATE delivery_queue SET state = 'queued', leased_by = NULL, lease_until_ms = NULL WHERE state = 'leased'")
    return epoch


def columns_of(connection: apsw.Connection, table: str) -> list[str]:
    """The columns of a table of ours."""
    return [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})").fetchall()]


def rows_of(connection: apsw.Connection, table: str) -> Iterator[Row]:
    """All rows of a table, as they are read."""
    yield from connection.execute(f"SELECT {', '.join(columns_of(connection, table))} FROM {table}")


def in_parts(rows: Iterable[Row]) -> Generator[list[Row]]:
    """The rows, some at a time."""
    part: list[Row] = []
    for row in rows:
        part.append(row)
        if len(part) == _ROWS_AT_ONCE:
            yield part
            part = []
    if part:
        yield part


def _fill(connection: apsw.Connection, rows: Any) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM meta")
    for table in TABLES:
        columns = columns_of(connection, table)
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        for part in in_parts(rows(table, columns)):
            connection.executemany(sql, part)
    connection.execute("COMMIT")


def _restore_file(source: Path, path: Path, clock: Clock, force: bool) -> int:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(path, new_uuid(), clock):
        earlier, holds = _found_before(path)
        if holds and not force:
            refusal = StartupFailed(f"{path} {holds}")
            refusal.hint = "Back it up first, then restore with --force."
            raise refusal
        temporary = temporary_beside(path)
        online_backup(source, temporary)
        try:
            made = open_sqlite_store(temporary, clock)
            try:
                epoch = made.call(lambda tx: begin_epoch(tx, earlier))
                checkpoint_once(made.connection, "truncate")
            finally:
                made.close()
            _set_aside(path, clock)
            temporary.rename(path)
        finally:
            for name in (temporary.with_name(f"{temporary.name}{suffix}") for suffix in ("", "-wal", "-shm")):
                name.unlink(missing_ok=True)
        sync_folder(path.parent)
        return epoch


def _found_before(path: Path) -> tuple[int, str]:
    """The epoch of what is at the path, and what speaks against putting something else there, if anything does."""
    if not path.exists() or not path.stat().st_size:
        return 0, ""
    try:
        with contextlib.closing(open_reader(path)) as reader:
            row = reader.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchone()
            meshes = reader.execute("SELECT count(*) FROM mesh").fetchall()
    except (apsw.Error, DatabaseCorrupt) as error:
        return 0, f"holds something that cannot be read: {error}"
    return int(str(row[0])) if row else 0, "" if meshes == [(0,)] else "holds a broker's meshes already"


def _set_aside(path: Path, clock: Clock) -> None:
    """What was there, its log included, stays beside the restored file."""
    mark = stamp(clock.now_ms())
    for suffix in ("", "-wal", "-shm"):
        old = path.with_name(f"{path.name}{suffix}")
        if old.exists():
            old.rename(path.with_name(f"{path.name}.replaced-{mark}{suffix}"))


def _look(tx: Tx, problems: tuple[str, ...]) -> Checked:
    meshes = tx.all("SELECT mesh_id, slug FROM mesh ORDER BY slug")
    audits, rosters = (
        {slug: number for mesh_id, slug in meshes if (number := look(tx, mesh_id)) is not None}
        for look in (verify, first_misfit)
    )
    return Checked(problems, tuple(find_orphans(tx)), audits, rosters)


def _refuse_unsound(source: Path) -> None:
    _must_exist(source)
    reader = open_reader(source)
    try:
        problems = integrity_check(reader, quick=True)
        if problems:
            raise DatabaseCorrupt(f"{source} is damaged: {problems[0]}", problems=problems)
        version, known = read_version(reader), len(load_migrations("parley.broker", "schema/sqlite"))
        if version == 0 or columns_of(reader, "delivery_queue") == []:
            raise StartupFailed(f"{source} is no backup of a broker")
        if version > known:
            raise SchemaTooNew(f"{source} has schema version {version}", found=version, known=known)
    finally:
        close_quietly(reader)


def _must_exist(path: Path) -> None:
    if not path.is_file():
        raise ServiceUnavailable(f"There is no file {path}", reason="cannot_open")
