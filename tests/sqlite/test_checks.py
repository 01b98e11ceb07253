"""Looking for damage."""

from pathlib import Path

import apsw
import pytest

from parley.sqlite import ForeignKeyViolation, foreign_key_check, integrity_check, open_writer
from parley.sqlite.checks import PROBLEMS_MAX
from tests.sqlite.rows import SCHEMA, insert


@pytest.mark.parametrize("quick", [False, True])
def test_a_sound_file_has_no_problems(connection: apsw.Connection, quick: bool) -> None:
    assert integrity_check(connection, quick=quick) == []
    assert foreign_key_check(connection) == []


@pytest.mark.parametrize("quick", [False, True])
def test_overwritten_pages_are_found(path: Path, quick: bool) -> None:
    connection = open_writer(path)
    connection.execute(SCHEMA)
    for number in range(50):
        insert(number, "y" * 500)(connection)
    connection.close()
    with path.open("r+b") as file:
        file.seek(4096 * 2)
        file.write(b"\xff" * 4096)
    connection = open_writer(path)
    assert integrity_check(connection, quick=quick)
    connection.close()


def test_damage_that_ends_the_check_itself_is_a_problem_too(path: Path) -> None:
    connection = open_writer(path)
    connection.execute(SCHEMA)
    connection.close()
    other = apsw.Connection(str(path))
    path.write_bytes(b"not a database at all " * 400)
    assert integrity_check(other)[0].startswith("the check itself met damage")
    other.close()


def test_rows_that_refer_to_nothing_are_listed_and_the_list_is_bounded(connection: apsw.Connection) -> None:
    connection.execute("CREATE TABLE child(parent INTEGER REFERENCES row(number))")
    connection.execute("CREATE TABLE bare(key TEXT PRIMARY KEY, parent INTEGER REFERENCES row(number)) WITHOUT ROWID")
    connection.execute("PRAGMA foreign_keys=OFF")
    connection.execute("INSERT INTO bare VALUES ('k', 5)")
    assert foreign_key_check(connection) == [ForeignKeyViolation("bare", None, "row")]
    for _ in range(PROBLEMS_MAX + 1):
        connection.execute("INSERT INTO child VALUES (7)")
    found = foreign_key_check(connection)
    assert len(found) == PROBLEMS_MAX
    assert ForeignKeyViolation("child", 1, "row") in found
