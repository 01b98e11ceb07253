"""The simulated disk: what was synced stays, what was not may go, and SQLite lives on it as on any other."""

import contextlib
import random
from pathlib import Path

import apsw
import pytest

from parley.sqlite import Synchronous, close_quietly, integrity_check, open_writer, run_batch
from tests.simulation.disk import Disk

TABLE = "CREATE TABLE IF NOT EXISTS entry (number INTEGER PRIMARY KEY, text TEXT NOT NULL)"
INSERT = "INSERT INTO entry (text) VALUES (?) RETURNING number"


def _live(disk: Disk, path: Path, rng: random.Random, synchronous: Synchronous) -> set[int]:
    """Writes until the power goes; the numbers of the rows that were acknowledged."""
    acknowledged: set[int] = set()
    disk.cut_after = disk.operations + rng.randrange(20, 300)
    connection: apsw.Connection | None = None
    with contextlib.suppress(Exception):
        connection = open_writer(path, synchronous=synchronous, vfs=disk.name)
        connection.execute(TABLE)
        while not disk.is_off:
            text = "x" * rng.randrange(2_000)
            (outcome,) = run_batch(connection, [lambda db, text=text: db.execute(INSERT, (text,)).fetchall()[0][0]])
            if outcome.error is None:
                acknowledged.add(int(str(outcome.value)))
            if rng.random() < 0.1:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    close_quietly(connection)
    return acknowledged


def _losses(path: Path, seed: int, synchronous: Synchronous) -> tuple[set[int], list[str], bytes]:
    """Three lives of one disk: what was lost, what is damaged, and what is left."""
    rng, disk, acknowledged = random.Random(seed), Disk(), set[int]()
    for _ in range(3):
        acknowledged |= _live(disk, path, rng, synchronous)
        disk.start_again(rng, torn=True)
    connection = open_writer(path, vfs=disk.name)
    connection.execute(TABLE)
    rows = connection.execute("SELECT number, text FROM entry ORDER BY number").fetchall()
    damage = integrity_check(connection)
    connection.close()
    return acknowledged - {int(str(row[0])) for row in rows}, damage, repr(rows).encode()


def test_what_was_acknowledged_survives_torn_writes(tmp_path: Path) -> None:
    for seed in range(20):
        lost, damage, _ = _losses(tmp_path / "db", seed, "full")
        assert (lost, damage) == (set(), []), seed


def test_without_a_sync_at_each_commit_rows_are_lost(tmp_path: Path) -> None:
    """Positive control: the disk does tear, and nothing but the sync protects a row."""
    assert any(_losses(tmp_path / "db", seed, "normal")[0] for seed in range(20))


def test_the_same_seed_loses_the_same(tmp_path: Path) -> None:
    assert _losses(tmp_path / "a", 7, "normal") == _losses(tmp_path / "b", 7, "normal")


def test_a_killed_process_loses_nothing_that_it_wrote(tmp_path: Path) -> None:
    disk = Disk()
    connection = open_writer(tmp_path / "db", synchronous="normal", vfs=disk.name)
    connection.execute(TABLE)
    connection.execute(INSERT, ("kept",)).fetchall()
    disk.switch_off()
    with pytest.raises(apsw.IOError):
        connection.execute(INSERT, ("refused",)).fetchall()
    close_quietly(connection)
    disk.start_again(random.Random(1), torn=False)
    connection = open_writer(tmp_path / "db", vfs=disk.name)
    assert connection.execute("SELECT text FROM entry").fetchall() == [("kept",)]
    connection.close()


def test_files_of_one_disk_do_not_meet(tmp_path: Path) -> None:
    disk = Disk()
    for name in ("outbox", "inbox"):
        connection = open_writer(tmp_path / name, vfs=disk.name)
        connection.execute(TABLE)
        connection.execute(INSERT, (name,)).fetchall()
        connection.close()
    for name in ("outbox", "inbox"):
        connection = open_writer(tmp_path / name, vfs=disk.name)
        assert connection.execute("SELECT text FROM entry").fetchall() == [(name,)]
        connection.close()
