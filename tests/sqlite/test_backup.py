"""Backups are whole, private, durable, never overwritten, and do not stop the writer."""

import stat
from pathlib import Path

import apsw
import pytest

from parley.core.errors import DatabaseCorrupt, ServiceUnavailable
from parley.sqlite import backup_name, integrity_check, online_backup, open_reader
from tests.sqlite.rows import insert, numbers


def test_a_name_tells_when_and_why(tmp_path: Path) -> None:
    name = backup_name(tmp_path / "db.sqlite3", "before-v2", 1_770_247_845_123)
    assert name == tmp_path / "db.sqlite3.20260204T233045123Z.before-v2.bak"


def test_a_backup_holds_commits_that_are_only_in_the_log_in_one_private_file(
    path: Path, connection: apsw.Connection
) -> None:
    insert(1)(connection)
    target = path.with_name("copy.bak")
    online_backup(path, target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(file.name for file in path.parent.iterdir()) == [
        "copy.bak",
        "db.sqlite3",
        "db.sqlite3-shm",
        "db.sqlite3-wal",
    ]
    copy = open_reader(target)
    assert numbers(copy) == {1}
    assert integrity_check(copy) == []
    copy.close()


def test_a_backup_shows_one_moment_while_writes_go_on(path: Path, connection: apsw.Connection) -> None:
    for number in range(700):
        insert(number, "y" * 3000)(connection)
    steps: list[tuple[int, int]] = []

    def write_meanwhile(done: int, total: int) -> None:
        steps.append((done, total))
        insert(1000 + len(steps))(connection)

    target = path.with_name("copy.bak")
    online_backup(path, target, on_progress=write_meanwhile)
    assert len(steps) > 2
    assert [done for done, _ in steps] == sorted({done for done, _ in steps}), "it never starts over"
    assert steps[-1][0] == steps[-1][1]
    copy = open_reader(target)
    assert numbers(copy) == set(range(700))
    copy.close()
    assert len(numbers(connection)) == 700 + len(steps)


def test_a_backup_is_never_overwritten(path: Path, connection: apsw.Connection) -> None:
    target = path.with_name("copy.bak")
    target.write_text("older")
    with pytest.raises(ServiceUnavailable) as caught:
        online_backup(path, target)
    assert caught.value.details["reason"] == "exists"
    assert target.read_text() == "older"


def test_a_backup_that_fails_leaves_nothing_behind(path: Path) -> None:
    path.write_bytes(b"not a database at all " * 100)
    with pytest.raises(DatabaseCorrupt):
        online_backup(path, path.with_name("copy.bak"))
    assert [file.name for file in path.parent.iterdir()] == ["db.sqlite3"]


def test_damage_met_while_copying_is_typed(path: Path, connection: apsw.Connection) -> None:
    def fail(_done: int, _total: int) -> None:
        raise apsw.FullError("as SQLite would")

    with pytest.raises(ServiceUnavailable) as caught:
        online_backup(path, path.with_name("copy.bak"), on_progress=fail)
    assert caught.value.details["reason"] == "disk_full"


def test_a_folder_that_does_not_exist_is_refused(path: Path, connection: apsw.Connection) -> None:
    with pytest.raises(ServiceUnavailable):
        online_backup(path, path.parent / "none" / "copy.bak")
