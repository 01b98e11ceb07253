"""A file gives back what it no longer holds, in steps, and an older one is made over to do so."""

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from parley.sqlite import checkpoint_once, compact, give_back, gives_back, open_reader, open_writer, run_batch


def filled(path: Path, *, new: bool) -> apsw.Connection:
    connection = open_writer(path, synchronous="normal", gives_back=new)
    connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, data BLOB)")
    with connection:
        connection.executemany("INSERT INTO t (data) VALUES (zeroblob(?))", [(40_000,)] * 200)
    return connection


def size(path: Path, connection: apsw.Connection) -> int:
    checkpoint_once(connection, "truncate")
    return path.stat().st_size


def test_free_pages_are_given_back_some_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    with closing(filled(path, new=True)) as connection, closing(open_reader(path)) as reader:
        before = size(path, connection)
        connection.execute("DELETE FROM t WHERE n % 2 = 0")
        steps = 1
        while run_batch(connection, [lambda db: give_back(db, 100)])[0].value:
            steps += 1
        assert steps > 5
        assert size(path, connection) < before * 0.6
        assert reader.execute("SELECT count(*) FROM t").fetchall() == [(100,)]
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_file_from_before_is_made_over(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(filled(path, new=False)) as connection:
        assert not gives_back(connection)
        connection.execute("DELETE FROM t WHERE n % 2 = 0")
        assert not run_batch(connection, [give_back])[0].value, "which has nothing to give as it is"
        before = size(path, connection)
    with closing(open_writer(path, gives_back=True)) as connection:
        assert not gives_back(connection)
        temp_store = connection.execute("PRAGMA temp_store").fetchall()
        compact(connection)
        assert gives_back(connection)
        assert connection.execute("PRAGMA temp_store").fetchall() == temp_store
        assert size(path, connection) < before * 0.6
        assert connection.execute("SELECT count(*), sum(length(data)) FROM t").fetchall() == [(100, 4_000_000)]


@pytest.mark.parametrize("new", [True, False])
def test_compacting_what_is_empty_costs_nothing(tmp_path: Path, new: bool) -> None:
    with closing(open_writer(tmp_path / "empty.db", gives_back=new)) as connection:
        compact(connection)
        assert gives_back(connection)
