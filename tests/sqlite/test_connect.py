"""Opening: modes, pragmas that are read back, and reading where nothing may be written."""

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from parley.core.errors import DatabaseCorrupt, ServiceUnavailable, StartupFailed
from parley.sqlite import apply_pragma, close_quietly, open_reader, open_writer
from tests.sqlite.rows import SCHEMA, insert, numbers

NOBODY = 65534


def pragma(connection: apsw.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchall()[0][0]


def test_the_writer_has_every_setting_it_was_promised(connection: apsw.Connection) -> None:
    promised = {
        "encoding": "UTF-8",
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 5000,
        "wal_autocheckpoint": 0,
        "trusted_schema": 0,
        "cell_size_check": 1,
        "temp_store": 2,
        "mmap_size": 0,
    }
    assert {name: pragma(connection, name) for name in promised} == promised


def test_durability_is_the_callers_choice(path: Path) -> None:
    connection = open_writer(path, synchronous="normal", busy_timeout_ms=7)
    assert (pragma(connection, "synchronous"), pragma(connection, "busy_timeout")) == (1, 7)
    connection.close()


def test_the_files_are_private_from_their_first_moment(path: Path) -> None:
    umask = os.umask(0)
    try:
        connection = open_writer(path)
        connection.execute(SCHEMA)
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(umask)
    assert modes == dict.fromkeys(("db.sqlite3", "db.sqlite3-wal", "db.sqlite3-shm"), 0o600)
    connection.close()


def test_a_pragma_that_does_not_take_is_an_error(path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("PRAGMA encoding='UTF-16le'").fetchall()
    other.execute(SCHEMA)
    other.close()
    with pytest.raises(StartupFailed, match="encoding is 'UTF-16le' where 'UTF-8'") as caught:
        open_writer(path)
    assert caught.value.details["pragma"] == "encoding"


def test_a_single_pragma_is_read_back_too(connection: apsw.Connection) -> None:
    connection.execute("BEGIN")
    with pytest.raises(StartupFailed):  # foreign_keys is a no-op inside a transaction
        apply_pragma(connection, "foreign_keys", 0)


def test_a_file_that_is_no_database_is_corrupt(path: Path) -> None:
    path.write_bytes(b"not a database at all " * 100)
    for opener in (open_writer, open_reader):
        with pytest.raises(DatabaseCorrupt):
            opener(path)


def test_a_folder_that_does_not_exist_cannot_be_opened(tmp_path: Path) -> None:
    for opener in (open_writer, open_reader):
        with pytest.raises(ServiceUnavailable) as caught:
            opener(tmp_path / "none" / "db.sqlite3")
        assert caught.value.details["reason"] == "cannot_open"


def test_a_reader_sees_commits_and_cannot_write(path: Path, connection: apsw.Connection) -> None:
    reader = open_reader(path)
    insert(1)(connection)
    assert numbers(reader) == {1}
    assert pragma(reader, "query_only") == 1
    with pytest.raises(apsw.ReadOnlyError):
        insert(2)(reader)
    reader.close()


def test_a_reader_does_not_make_a_database(path: Path) -> None:
    with pytest.raises(ServiceUnavailable):
        open_reader(path)
    assert not path.exists()


def test_a_path_with_characters_of_a_uri_is_taken_literally(tmp_path: Path) -> None:
    path = tmp_path / "a b?mode=memory#%41.db"
    connection = open_writer(path)
    connection.execute(SCHEMA)
    insert(7)(connection)
    reader = open_reader(path)
    assert numbers(reader) == {7}
    reader.close()
    connection.close()
    assert path.is_file()


def test_full_text_search_in_triggers_works_with_an_untrusted_schema(connection: apsw.Connection) -> None:
    connection.execute("CREATE VIRTUAL TABLE found USING fts5(body, content='row', content_rowid='number')")
    connection.execute(
        "CREATE TRIGGER row_added AFTER INSERT ON row BEGIN"
        " INSERT INTO found(rowid, body) VALUES (new.number, new.body); END"
    )
    insert(1, "the quick fox")(connection)
    assert connection.execute("SELECT rowid FROM found WHERE found MATCH 'quick'").fetchall() == [(1,)]


@contextlib.contextmanager
def nothing_may_be_written(folder: Path) -> Iterator[None]:
    """Permissions do not bind root, so as root the work inside is done as another effective user."""
    folder.chmod(0o555)
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.fixture
def stopped() -> Iterator[Path]:
    """A database after a clean stop, in a folder that anybody can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "db.sqlite3"
        connection = open_writer(path)
        connection.execute(SCHEMA)
        insert(1)(connection)
        connection.close()
        path.chmod(0o644)
        yield path


def test_in_a_read_only_folder_a_stopped_database_is_read_as_immutable(stopped: Path) -> None:
    with nothing_may_be_written(stopped.parent):
        reader = open_reader(stopped)
        assert numbers(reader) == {1}
        reader.close()
    assert [file.name for file in stopped.parent.iterdir()] == ["db.sqlite3"]


def test_in_a_read_only_folder_reading_is_refused_without_the_fallback(stopped: Path) -> None:
    with nothing_may_be_written(stopped.parent), pytest.raises(ServiceUnavailable):
        open_reader(stopped, immutable_fallback=False)


def test_in_a_read_only_folder_unmerged_commits_are_not_left_out_in_silence(stopped: Path) -> None:
    stopped.with_name("db.sqlite3-wal").write_bytes(b"frames")
    with nothing_may_be_written(stopped.parent), pytest.raises(ServiceUnavailable) as caught:
        open_reader(stopped)
    assert caught.value.details["reason"] == "unmerged_wal"


def test_in_a_read_only_folder_the_log_of_a_crash_is_read_when_its_index_is_there(stopped: Path) -> None:
    connection = open_writer(stopped)
    insert(2)(connection)
    with tempfile.TemporaryDirectory() as folder:
        for file in stopped.parent.iterdir():  # as a crash would have left them
            copy = Path(shutil.copy(file, folder))
            copy.chmod(0o644)
        Path(folder).chmod(0o755)
        with nothing_may_be_written(Path(folder)):
            reader = open_reader(Path(folder) / stopped.name)
            assert numbers(reader) == {1, 2}
            reader.close()
    connection.close()


def test_closing_quietly_takes_nothing_and_something(path: Path) -> None:
    close_quietly(None)
    connection = open_writer(path)
    close_quietly(connection)
    with pytest.raises(apsw.ConnectionClosedError):
        connection.execute("SELECT 1")


@pytest.mark.parametrize("leave_log", [False, True])
def test_closing_quietly_takes_what_is_closed_already(path: Path, leave_log: bool) -> None:
    connection = open_writer(path)
    connection.close()
    close_quietly(connection, leave_log=leave_log)
