"""Migrations: numbered, forward only, each in its transaction, with a backup before the first."""

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from parley.core.errors import MigrationFailed, SchemaTooNew
from parley.core.exits import Exit
from parley.sqlite import (
    Migration,
    foreign_key_check,
    load_migrations,
    migrate,
    online_backup,
    open_reader,
    open_writer,
    split_statements,
)

FIRST = Migration(
    1,
    "first",
    """
    CREATE TABLE meta(version INTEGER NOT NULL);
    INSERT INTO meta VALUES (0); -- a comment; with a semicolon
    CREATE TABLE parent(id INTEGER PRIMARY KEY, name TEXT DEFAULT ';');
    CREATE TABLE child(id INTEGER PRIMARY KEY, parent INTEGER NOT NULL REFERENCES parent(id) ON DELETE RESTRICT);
    CREATE TRIGGER kept AFTER INSERT ON parent BEGIN
      UPDATE parent SET name = CASE WHEN new.name = '' THEN ';' ELSE new.name END WHERE id = new.id;
      UPDATE meta SET version = version;
    END;
    """,
)
REBUILD = Migration(
    2,
    "rebuild",
    """
    CREATE TABLE parent_new(id INTEGER PRIMARY KEY, name TEXT, extra TEXT);
    INSERT INTO parent_new(id, name) SELECT id, name FROM parent;
    DROP TABLE parent;
    ALTER TABLE parent_new RENAME TO parent;
    """,
)


def read_version(connection: apsw.Connection) -> int:
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").fetchone() is None:
        return 0
    return int(str(connection.execute("SELECT version FROM meta").fetchall()[0][0]))


def write_version(connection: apsw.Connection, step: Migration) -> None:
    connection.execute("UPDATE meta SET version = ?", (step.number,))


def run(connection: apsw.Connection, *migrations: Migration, backup: Callable[[], Path] | None = None):
    return migrate(connection, migrations, read_version=read_version, write_version=write_version, backup=backup)


@pytest.fixture
def database(path: Path):
    connection = open_writer(path)
    yield connection
    connection.close()


@pytest.fixture
def backup(path: Path) -> Callable[[], Path]:
    def take() -> Path:
        target = path.with_name("before.bak")
        online_backup(path, target)
        return target

    return take


def fill(connection: apsw.Connection) -> None:
    connection.execute("INSERT INTO parent(id, name) VALUES (1, 'one')")
    connection.execute("INSERT INTO child VALUES (10, 1)")


def test_a_fresh_file_gets_every_step_and_needs_no_backup(
    database: apsw.Connection, backup: Callable[[], Path]
) -> None:
    report = run(database, REBUILD, FIRST, backup=backup)
    assert (report.from_version, report.to_version, report.backup) == (0, 2, None)
    assert report.applied == (FIRST, REBUILD)
    assert read_version(database) == 2


def test_a_second_run_does_nothing(database: apsw.Connection, backup: Callable[[], Path]) -> None:
    run(database, FIRST)
    report = run(database, FIRST, backup=backup)
    assert (report.from_version, report.to_version, report.applied, report.backup) == (1, 1, (), None)


def test_a_table_that_others_refer_to_can_be_rebuilt_after_a_backup(
    path: Path, database: apsw.Connection, backup: Callable[[], Path]
) -> None:
    run(database, FIRST)
    fill(database)
    report = run(database, FIRST, REBUILD, backup=backup)
    assert report.backup is not None
    assert database.execute("SELECT id, name, extra FROM parent").fetchall() == [(1, "one", None)]
    assert foreign_key_check(database) == []
    assert database.execute("PRAGMA foreign_keys").fetchall() == [(1,)]
    before = open_reader(report.backup)
    assert read_version(before) == 1
    assert before.execute("SELECT * FROM child").fetchall() == [(10, 1)]
    before.close()


def test_a_step_can_be_a_function_and_steps_are_told(database: apsw.Connection) -> None:
    def by_hand(connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO parent(id, name) VALUES (5, 'five')")

    told: list[str] = []
    migrate(
        database,
        [FIRST, Migration(2, "by_hand", by_hand)],
        read_version=read_version,
        write_version=write_version,
        on_step=lambda step: told.append(step.name),
    )
    assert told == ["first", "by_hand"]
    assert database.execute("SELECT name FROM parent").fetchall() == [("five",)]


def test_a_target_below_the_newest_stops_there(database: apsw.Connection) -> None:
    report = migrate(database, [FIRST, REBUILD], read_version=read_version, write_version=write_version, target=1)
    assert (report.to_version, read_version(database)) == (1, 1)


BROKEN = {
    "a statement fails": "CREATE TABLE added(x); INSERT INTO nowhere VALUES (1)",
    "a row would refer to nothing": "CREATE TABLE added(x); DELETE FROM parent",
    "it ends its transaction": "CREATE TABLE added(x); ROLLBACK",
    "it is cut short": "CREATE TABLE added(x); CREATE TRIGGER t AFTER INSERT ON parent BEGIN SELECT 1;",
}


@pytest.mark.parametrize("sql", BROKEN.values(), ids=BROKEN)
def test_a_failing_step_is_rolled_back_and_names_its_backup(
    database: apsw.Connection, backup: Callable[[], Path], sql: str
) -> None:
    run(database, FIRST)
    fill(database)
    with pytest.raises(MigrationFailed) as caught:
        run(database, FIRST, Migration(2, "broken", sql), backup=backup)
    saved = Path(str(caught.value.details["backup"]))
    assert saved.is_file()
    assert str(saved) in str(caught.value)
    assert caught.value.exit_code == Exit.MIGRATION_FAILED
    assert read_version(database) == 1
    assert database.execute("SELECT * FROM child").fetchall() == [(10, 1)]
    assert database.execute("SELECT 1 FROM sqlite_schema WHERE name = 'added'").fetchall() == []
    assert database.execute("PRAGMA foreign_keys").fetchall() == [(1,)]
    assert not database.in_transaction


def test_steps_before_the_failing_one_stay(database: apsw.Connection) -> None:
    with pytest.raises(MigrationFailed, match="0003_broken"):
        run(database, FIRST, REBUILD, Migration(3, "broken", "SELECT * FROM nowhere"))
    assert read_version(database) == 2


def test_without_its_backup_nothing_is_touched(database: apsw.Connection) -> None:
    run(database, FIRST)

    def no_space() -> Path:
        raise OSError("no space left")

    with pytest.raises(MigrationFailed, match="No backup could be made"):
        run(database, FIRST, REBUILD, backup=no_space)
    assert read_version(database) == 1


def test_a_newer_schema_is_refused_untouched_and_says_what_to_do(path: Path, database: apsw.Connection) -> None:
    run(database, FIRST, REBUILD)
    with pytest.raises(SchemaTooNew, match="version 2; this Parley knows versions up to 1") as caught:
        run(database, FIRST)
    assert "pip install -U parley-mesh" in caught.value.hint
    assert caught.value.exit_code == Exit.SCHEMA_TOO_NEW
    assert read_version(database) == 2


def test_another_process_that_migrates_at_the_same_time_is_noticed(database: apsw.Connection) -> None:
    answers = iter([0, 7])
    with pytest.raises(MigrationFailed, match="another process"):
        migrate(database, [FIRST], read_version=lambda _: next(answers), write_version=write_version)


def test_a_script_is_split_where_sqlite_says_a_statement_is_complete() -> None:
    assert isinstance(FIRST.sql, str)
    heads = [" ".join(statement.split()[:2]) for statement in split_statements(FIRST.sql)]
    assert heads == ["CREATE TABLE", "INSERT INTO", "-- a", "CREATE TABLE", "CREATE TRIGGER"]
    assert list(split_statements("SELECT 1; -- the end")) == ["SELECT 1;", "-- the end"]
    assert list(split_statements("SELECT ';'")) == ["SELECT ';'"]
    assert list(split_statements("  \n")) == []


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    schema = tmp_path / f"schemas_{tmp_path.name}" / "schema"
    schema.mkdir(parents=True)
    schema.parent.joinpath("__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    return schema


def test_migrations_are_loaded_from_a_package_in_order(package: Path) -> None:
    package.joinpath("0002_later.sql").write_text("SELECT 2")
    package.joinpath("0001_init.sql").write_text("SELECT 1")
    package.joinpath("README").write_text("no migration")
    assert load_migrations(package.parent.name) == (
        Migration(1, "init", "SELECT 1"),
        Migration(2, "later", "SELECT 2"),
    )


@pytest.mark.parametrize("names", [["0001_a.sql", "0003_c.sql"], ["0001_a.sql", "0001_b.sql"], ["1_a.sql"]])
def test_gaps_duplicates_and_stray_names_are_refused(package: Path, names: list[str]) -> None:
    for name in names:
        package.joinpath(name).write_text("SELECT 1")
    with pytest.raises(ValueError):
        load_migrations(package.parent.name)
