"""Numbered, forward-only schema changes.

Each migration and the bump of the version it leads to commit in one transaction, so the file is always at exactly one
version. Before the first step of a database that already holds something, a backup is taken; whatever fails, the
step is rolled back and the error names that backup. A version above the newest that this program knows is refused
before anything is touched.

A migration may rebuild tables: foreign keys are not enforced while it runs (SQLite allows that to change only outside a
transaction), and are checked over the whole file before it commits.
"""

import importlib.resources
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import apsw

from parley.core.errors import MigrationFailed, SchemaTooNew
from parley.sqlite.checks import foreign_key_check
from parley.sqlite.connect import apply_pragma

_FILE_NAME: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: SQL text of any number of statements, or a function for what SQL alone cannot say."""

    number: int
    name: str
    sql: str | Callable[[apsw.Connection], None]


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What ``migrate`` did; ``applied`` is empty when the file was up to date."""

    from_version: int
    to_version: int
    applied: tuple[Migration, ...]
    backup: Path | None


def load_migrations(package: str, folder: str = "schema") -> tuple[Migration, ...]:
    """The ``NNNN_name.sql`` files of a package's folder, in order. Raises ``ValueError`` for a gap or a stray file."""
    found: list[Migration] = []
    for entry in importlib.resources.files(package).joinpath(folder).iterdir():
        if entry.name.endswith(".sql"):
            match = _FILE_NAME.fullmatch(entry.name)
            if match is None:
                raise ValueError(f"{entry.name} is not named NNNN_name.sql")
            found.append(Migration(int(match[1]), match[2], entry.read_text(encoding="utf-8")))
    return in_order(found)


def in_order(migrations: Sequence[Migration]) -> tuple[Migration, ...]:
    """The migrations sorted by number. Raises ``ValueError`` unless the numbers are 1, 2, 3, …"""
    ordered = tuple(sorted(migrations, key=lambda migration: migration.number))
    if [migration.number for migration in ordered] != list(range(1, len(ordered) + 1)):
        raise ValueError(f"migration numbers are not 1 to {len(ordered)}: {[each.number for each in ordered]}")
    return ordered


def split_statements(text: str) -> Iterator[str]:
    """The single statements of a script. A trigger's body stays in one piece: SQLite itself says what is complete."""
    start = 0
    end = text.find(";")
    while end != -1:
        statement = text[start : end + 1]
        if apsw.complete(statement):
            yield statement.strip()
            start = end + 1
        end = text.find(";", end + 1)
    rest = text[start:].strip()
    if rest and apsw.complete(rest + "\n;"):
        yield rest
    elif rest:
        raise ValueError(f"the script ends inside a statement: {rest[:60]!r}")


def migrate(
    connection: apsw.Connection,
    migrations: Sequence[Migration],
    *,
    read_version: Callable[[apsw.Connection], int],
    write_version: Callable[[apsw.Connection, Migration], None],
    backup: Callable[[], Path] | None = None,
    on_step: Callable[[Migration], None] | None = None,
    target: int | None = None,
) -> MigrationReport:
    """Brings the file to ``target`` (the newest by default).

    ``read_version`` gives 0 for a file without a version. ``write_version`` is called inside the migration's
    transaction; what else must commit with the step (an event, say) is written there. ``on_step`` follows the commit.
    """
    ordered = in_order(migrations)
    goal = len(ordered) if target is None else target
    current = read_version(connection)
    if current > len(ordered):
        raise SchemaTooNew(
            f"The database has schema version {current}; this Parley knows versions up to {len(ordered)}",
            found=current,
            known=len(ordered),
        )
    steps = ordered[current:goal]
    if not steps:
        return MigrationReport(current, current, (), None)
    saved = _take_backup(connection, backup)
    for step in steps:
        _apply(connection, step, read_version, write_version, saved)
        if on_step is not None:
            on_step(step)
    return MigrationReport(current, goal, steps, saved)


def _take_backup(connection: apsw.Connection, backup: Callable[[], Path] | None) -> Path | None:
    if backup is None or connection.execute("SELECT count(*) FROM sqlite_schema").fetchall() == [(0,)]:
        return None
    try:
        return backup()
    except Exception as error:
        raise MigrationFailed(f"No backup could be made, so nothing was changed: {error}", backup=None) from error


def _apply(
    connection: apsw.Connection,
    step: Migration,
    read_version: Callable[[apsw.Connection], int],
    write_version: Callable[[apsw.Connection, Migration], None],
    saved: Path | None,
) -> None:
    apply_pragma(connection, "foreign_keys", 0)
    try:
        connection.execute("BEGIN IMMEDIATE")
        if read_version(connection) != step.number - 1:
            raise RuntimeError("another process changed the schema at the same time")
        if isinstance(step.sql, str):
            for statement in split_statements(step.sql):
                connection.execute(statement).fetchall()
        else:
            step.sql(connection)
        if not connection.in_transaction:
            raise RuntimeError("the migration ended its own transaction")
        violations = foreign_key_check(connection)
        if violations:
            raise RuntimeError(f"{len(violations)} rows would refer to rows that do not exist, first: {violations[0]}")
        write_version(connection, step)
        connection.execute("COMMIT")
    except Exception as error:
        place = f"; the backup is {saved}" if saved is not None else ""
        raise MigrationFailed(
            f"Migration {step.number:04d}_{step.name} failed and was rolled back: {error}{place}",
            migration=step.number,
            backup=None if saved is None else str(saved),
        ) from error
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        apply_pragma(connection, "foreign_keys", 1)
