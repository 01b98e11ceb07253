"""A log that is cut short under its writer takes nothing back that was moved into the database."""

import contextlib
import os
import random
from pathlib import Path

import apsw
import pytest

from parley.sqlite import checkpoint_once, close_quietly, open_reader, open_writer, wal_bytes
from parley.sqlite.outdated_log import empty_if_outdated

HEAD_BYTES, FRAME_BYTES = 32, 24 + 4096


def insert(connection: apsw.Connection, *numbers: int) -> None:
    for number in numbers:
        connection.execute("INSERT INTO t VALUES (?, ?)", (number, "x" * 900)).fetchall()


def kept(path: Path) -> set[object]:
    """What a reader finds, and then whoever writes it again."""
    found: list[set[object]] = []
    for opened in (open_reader, open_writer):
        with contextlib.closing(opened(path)) as connection:
            found.append({row[0] for row in connection.execute("SELECT number FROM t").fetchall()})
    assert found[0] == found[1]
    return found[1]


def written(path: Path) -> tuple[apsw.Connection, int]:
    """A database that has 40 rows, all but the last moved into it, and a log that goes on: how many frames it has.

    A transaction is open while the log is moved, so that the next one does not begin the log anew.
    """
    writer = open_writer(path)
    writer.execute("CREATE TABLE t (number INTEGER PRIMARY KEY, text TEXT)").fetchall()
    insert(writer, *range(39))
    mover = open_writer(path)
    writer.execute("BEGIN IMMEDIATE").fetchall()
    insert(writer, 39)
    assert checkpoint_once(mover, "passive").complete
    writer.execute("COMMIT").fetchall()
    mover.close()
    return writer, (wal_bytes(path) - HEAD_BYTES) // FRAME_BYTES


@pytest.mark.parametrize("number", range(12))
def test_a_cut_log_hides_nothing_that_is_in_the_database(tmp_path: Path, number: int) -> None:
    path = tmp_path / "db"
    writer, _ = written(path)
    size = wal_bytes(path)
    at = random.Random(number).choice([0, 7, HEAD_BYTES, size - 1, random.Random(number).randrange(size)])
    os.truncate(f"{path}-wal", at)
    if number % 2:
        with contextlib.suppress(apsw.Error):
            insert(writer, 40)  # the log is long again, with a hole in it
    close_quietly(writer, leave_log=True)
    assert kept(path) >= set(range(39))


def test_without_that_it_would(tmp_path: Path) -> None:
    """The control: the log is left as it is."""
    path = tmp_path / "db"
    writer, frames = written(path)
    os.truncate(f"{path}-wal", HEAD_BYTES + frames // 2 * FRAME_BYTES)
    writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    writer.close()
    with pytest.raises(AssertionError):
        assert kept(path) >= set(range(39))


def test_a_log_that_reaches_beyond_the_database_stays(tmp_path: Path) -> None:
    path = tmp_path / "db"
    writer, frames = written(path)
    assert not empty_if_outdated(Path(f"{path}-wal"), frames - 1)
    close_quietly(writer, leave_log=True)
    assert wal_bytes(path) == HEAD_BYTES + frames * FRAME_BYTES
    assert kept(path) == set(range(40))


@pytest.mark.parametrize("content", [b"", b"x" * 31, b"x" * 5000], ids=["empty", "no head", "no log"])
def test_what_is_no_log_is_left_alone(tmp_path: Path, content: bytes) -> None:
    log = tmp_path / "db-wal"
    log.write_bytes(content)
    assert not empty_if_outdated(log, 5)
    assert log.read_bytes() == content
    assert not empty_if_outdated(tmp_path / "none", 5)


def test_the_log_of_a_database_that_took_the_place_is_left_alone(tmp_path: Path) -> None:
    path, moved = tmp_path / "db", tmp_path / "moved"
    writer, _ = written(path)
    moved.mkdir()
    for suffix in ("", "-wal", "-shm"):
        path.with_name(f"db{suffix}").rename(moved / f"db{suffix}")
    successor = open_writer(path)
    successor.execute("CREATE TABLE t (number INTEGER PRIMARY KEY, text TEXT)").fetchall()
    insert(successor, *range(5))
    before = wal_bytes(path)
    close_quietly(writer, leave_log=True)
    assert wal_bytes(path) == before
    assert kept(path) == set(range(5))
    successor.close()
