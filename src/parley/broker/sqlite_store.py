"""The store that needs no server: one SQLite file, one writer.

``commit`` is ``parley.sqlite``'s group commit, called by whoever owns the store; the server lets a ``Writer`` call
``write`` on its own thread instead, which is the same transaction seen from the other side.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw

from parley.broker.policy import DEFAULT_POLICY, Policy
from parley.broker.signals import Signal
from parley.broker.store import StoreMethods
from parley.broker.tx import Row, Rule
from parley.core.clock import Clock
from parley.core.errors import DatabaseCorrupt
from parley.core.ids import IdSource, new_uuid
from parley.sqlite import (
    Migration,
    Outcome,
    Synchronous,
    Write,
    back_up,
    close_quietly,
    integrity_check,
    load_migrations,
    migrate,
    open_writer,
    refuse_newer,
    run_batch,
)

T = TypeVar("T")
_IDS: Final = (
    ("bm_", "SELECT max(broker_message_id) FROM client_message_dedupe"),
    ("mesh_", "SELECT max(mesh_id) FROM mesh"),
    ("mem_", "SELECT max(member_id) FROM member"),
    ("inv_", "SELECT max(invite_id) FROM invite"),
)
_SET_META: Final = "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"


class SqliteTx:
    """A transaction that SQLite's one writer has open."""

    __slots__ = ("_cursor", "_ids", "for_update", "now_ms", "skip_locked")

    def __init__(self, connection: apsw.Connection, now_ms: int, ids: IdSource) -> None:
        self._cursor = connection.cursor()
        self._ids = ids
        self.now_ms = now_ms
        self.for_update = self.skip_locked = ""

    def all(self, sql: str, *args: Any) -> list[Row]:
        return self._cursor.execute(sql, args).fetchall()

    def one(self, sql: str, *args: Any) -> Row | None:
        rows = self._cursor.execute(sql, args).fetchall()
        return rows[0] if rows else None

    def run(self, sql: str, *args: Any) -> int:
        self._cursor.execute(sql, args).fetchall()
        return self._cursor.connection.changes()

    def each(self, sql: str, rows: Sequence[Row]) -> list[list[Row]]:
        return [self._cursor.execute(sql, values).fetchall() for values in rows]

    def many(self, sql: str, rows: Iterable[Row]) -> list[Row]:
        return [row for values in rows for row in self._cursor.execute(sql, values).fetchall()]

    def new_id(self, prefix: str) -> str:
        return self._ids.new(prefix, self.now_ms)


class SqliteStore(StoreMethods):
    """A broker's meshes in a file. All methods belong to one thread."""

    def __init__(self, connection: apsw.Connection, clock: Clock, policy: Policy = DEFAULT_POLICY) -> None:
        """``connection`` is that of the file's one writer, at the newest schema."""
        self.connection = connection
        self.leave_log = False
        """Whether the end of the store leaves the log beside the file as it is."""
        self.policy = policy
        self.broker_id = _meta(connection, "broker_id")
        self._clock = clock
        self._ids = IdSource(_largest_ids(connection))

    @property
    def epoch(self) -> int:
        return int(_meta(self.connection, "epoch"))

    def commit(self, rules: Sequence[Rule[Any]]) -> list[Outcome[Any]]:
        return run_batch(self.connection, [self.write(rule) for rule in rules])

    def write(self, rule: Rule[T]) -> Write[T]:
        """The rule as a writer wants it."""
        return lambda connection: rule(SqliteTx(connection, self._clock.now_ms(), self._ids))

    def listen(self, on_signal: Callable[[Signal], None]) -> None:
        """Nobody else writes to the file, so there is nothing to hear."""

    def close(self) -> None:
        close_quietly(self.connection, leave_log=self.leave_log)


def open_sqlite_store(
    path: Path,
    clock: Clock,
    policy: Policy = DEFAULT_POLICY,
    *,
    synchronous: Synchronous = "full",
    vfs: str | None = None,
    new_id: Callable[[], str] = new_uuid,
) -> SqliteStore:
    """Opens the file, makes or migrates its tables, after a backup, and hands it out.

    Raises ``DatabaseCorrupt``, ``SchemaTooNew`` or ``MigrationFailed``.
    """
    migrations = load_migrations("parley.broker", "schema/sqlite")
    refuse_newer(path, migrations, read_version=read_version, vfs=vfs)
    connection = open_writer(path, synchronous=synchronous, vfs=vfs)
    try:
        problems = integrity_check(connection, quick=True)
        if problems:
            raise DatabaseCorrupt(f"{path} is damaged: {problems[0]}", problems=problems)
        migrate(
            connection,
            migrations,
            read_version=read_version,
            write_version=lambda each, step: _write_version(each, step, new_id),
            backup=lambda: back_up(path, clock.now_ms()),
        )
        return SqliteStore(connection, clock, policy)
    except BaseException:
        close_quietly(connection)
        raise


def read_version(connection: apsw.Connection) -> int:
    """The schema's version; 0 for an empty file."""
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").fetchone() is None:
        return 0
    return int(_meta(connection, "schema_version"))


def _write_version(connection: apsw.Connection, step: Migration, new_id: Callable[[], str]) -> None:
    if step.number == 1:
        connection.execute(_SET_META, ("broker_id", new_id()))
        connection.execute(_SET_META, ("epoch", "1"))
    connection.execute(_SET_META, ("schema_version", str(step.number)))


def _meta(connection: apsw.Connection, key: str) -> str:
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return str(row[0]) if row else ""


def _largest_ids(connection: apsw.Connection) -> dict[str, str]:
    found = {prefix: connection.execute(sql).fetchall()[0][0] for prefix, sql in _IDS}
    return {prefix: str(largest) for prefix, largest in found.items() if largest is not None}
