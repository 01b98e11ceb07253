"""A file is opened for its one writer only at a schema that this Parley knows, and only if it is sound."""

from pathlib import Path

import pytest

from parley.core.errors import DatabaseCorrupt, SchemaTooNew
from parley.sqlite import Migration, close_quietly, is_there, open_checked
from parley.sqlite.checked import user_version

FIRST = Migration(1, "first", "CREATE TABLE t (a INTEGER) STRICT")
SECOND = Migration(2, "second", "CREATE TABLE u (a INTEGER) STRICT")
NOW = 1_767_225_600_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "db.sqlite3"


def test_a_new_file_is_made_at_the_newest_version_without_a_backup(path: Path) -> None:
    connection = open_checked(path, (FIRST, SECOND), now_ms=NOW)
    assert user_version(connection) == 2
    close_quietly(connection)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_an_older_file_is_backed_up_and_migrated(path: Path) -> None:
    close_quietly(open_checked(path, (FIRST,), now_ms=NOW))
    connection = open_checked(path, (FIRST, SECOND), now_ms=NOW)
    assert user_version(connection) == 2
    close_quietly(connection)
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name, f"{path.name}.backup-20260101T000000000Z"]


def test_a_newer_file_is_refused_and_not_one_byte_of_it_changes(path: Path) -> None:
    close_quietly(open_checked(path, (FIRST, SECOND), now_ms=NOW))
    before = path.read_bytes()
    with pytest.raises(SchemaTooNew, match="schema version 2; this Parley knows versions up to 1"):
        open_checked(path, (FIRST,), now_ms=NOW)
    assert path.read_bytes() == before


def test_a_damaged_file_is_refused(path: Path) -> None:
    close_quietly(open_checked(path, (FIRST, SECOND), now_ms=NOW))
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with pytest.raises(DatabaseCorrupt):
        open_checked(path, (FIRST, SECOND), now_ms=NOW)


def test_a_file_that_holds_nothing_is_not_there(path: Path) -> None:
    assert not is_there(path)
    path.touch()
    assert not is_there(path)
    path.write_bytes(b"x")
    assert is_there(path)
