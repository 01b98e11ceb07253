"""A database is locked by its own inode, whatever becomes of the lock file, and SQLite notices nothing of it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.core.errors import FilesLost, WorkspaceUnsafe, WriterLockHeld
from parley.core.held_files import HeldFiles, held_alone
from parley.sqlite import open_writer

HOLDER = {"pid": os.getpid(), "instance_id": "inst-1", "started_at": "2026-01-01T00:00:00.000Z"}
OTHER = """
import sys
from pathlib import Path
from parley.core.errors import WriterLockHeld
from parley.core.held_files import HeldFiles
files = HeldFiles(Path(sys.argv[1]))
try:
    files.acquire({"pid": 1})
    files.take(Path(sys.argv[2]))
except WriterLockHeld as held:
    print("held", held.details["pid"])
else:
    print("won")
"""
CLOSER = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("SELECT count(*) FROM t").fetchall()
connection.close()
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "locks" / "hub.lock"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "db.sqlite3"


@pytest.fixture
def files(lock: Path, database: Path) -> Iterator[HeldFiles]:
    with HeldFiles(lock) as held:
        held.acquire(HOLDER)
        held.take(database)
        yield held


def run(program: str, *arguments: Path) -> str:
    argv = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def test_a_file_that_is_not_there_is_made_for_its_owner_alone(files: HeldFiles, database: Path) -> None:
    assert database.stat().st_mode & 0o777 == 0o600
    assert database.stat().st_size == 0
    files.look()


def test_another_process_is_refused_though_the_lock_file_is_gone(files: HeldFiles, lock: Path, database: Path) -> None:
    assert run(OTHER, lock, database) == f"held {os.getpid()}"
    lock.unlink()
    assert run(OTHER, lock, database) == f"held {os.getpid()}"
    with pytest.raises(FilesLost, match=r"hub\.lock was replaced"):
        files.look()


def test_a_file_that_is_given_back_can_be_taken(lock: Path, database: Path) -> None:
    with held_alone(lock, database, started_at="now"):
        assert not database.exists(), "work that needs no server makes none"
    assert run(OTHER, lock, database) == "won"


def test_the_lock_keeps_sqlite_neither_out_nor_from_its_own_locks(files: HeldFiles, database: Path) -> None:
    """A program that closes the database last would remove the log, if it could not see that it is in use."""
    connection = open_writer(database)
    connection.execute("CREATE TABLE t (x)")
    connection.execute("INSERT INTO t VALUES (1)")
    run(CLOSER, database)
    assert database.with_name("db.sqlite3-wal").exists()
    connection.close()


def test_a_file_that_was_replaced_on_purpose_is_taken_anew(files: HeldFiles, lock: Path, database: Path) -> None:
    fresh = database.with_name("fresh")
    fresh.touch()
    fresh.rename(database)
    with pytest.raises(FilesLost, match="was replaced"):
        files.look()
    files.take(database)
    files.look()
    lock.unlink()
    assert run(OTHER, lock, database).startswith("held")


def test_a_folder_in_place_of_the_database_is_refused(lock: Path, database: Path) -> None:
    database.mkdir()
    with HeldFiles(lock) as held, pytest.raises(WorkspaceUnsafe, match="cannot be used"):
        held.take(database)


def test_a_pipe_in_place_of_the_database_is_refused(lock: Path, database: Path) -> None:
    os.mkfifo(database)
    with HeldFiles(lock) as held, pytest.raises(WorkspaceUnsafe, match="not a regular file"):
        held.take(database)


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_a_folder_in_place_of_what_lies_beside_the_database_is_refused(lock: Path, database: Path, suffix: str) -> None:
    database.with_name(database.name + suffix).mkdir()
    with HeldFiles(lock) as held, pytest.raises(WorkspaceUnsafe, match=f"{suffix} cannot be used"):
        held.take(database)


def test_two_in_one_process_are_refused_as_well(files: HeldFiles, tmp_path: Path, database: Path) -> None:
    with HeldFiles(tmp_path / "other.lock") as second, pytest.raises(WriterLockHeld):
        second.take(database)
