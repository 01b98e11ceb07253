"""What becomes of a database's files under a writer: losses are seen, and what SQLite itself does is none."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from parley.core.errors import FilesLost
from parley.sqlite import FileWatch, checkpoint_once, close_quietly, open_writer
from parley.sqlite.checkpoint import Mode
from parley.sqlite.writer import Writer

Insert = Callable[..., None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "db.sqlite3"


@pytest.fixture
def connection(path: Path) -> Iterator[apsw.Connection]:
    opened = open_writer(path)
    opened.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, content BLOB)")
    yield opened
    close_quietly(opened)


@pytest.fixture
def watch(path: Path, connection: apsw.Connection) -> Iterator[FileWatch]:
    made = FileWatch(path, connection)
    yield made
    made.close()


@pytest.fixture
def insert(connection: apsw.Connection) -> Insert:
    def run(count: int = 1, size: int = 8_000) -> None:
        for _ in range(count):
            connection.execute("INSERT INTO note (content) VALUES (randomblob(?))", (size,))

    return run


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def test_commits_and_every_kind_of_checkpoint_are_no_loss(
    path: Path, connection: apsw.Connection, watch: FileWatch, insert: Insert
) -> None:
    other = open_writer(path)
    modes: tuple[Mode, ...] = ("passive", "restart", "truncate")
    for mode in modes * 3:
        for _ in range(3):
            insert(2)
            watch.look()
        assert checkpoint_once(other, mode).error is None
        watch.look()
    other.close()


def test_space_that_is_given_back_is_no_loss(
    path: Path, connection: apsw.Connection, watch: FileWatch, insert: Insert
) -> None:
    insert(50)
    checkpoint_once(connection, "truncate")
    watch.look()
    before = path.stat().st_size
    connection.execute("DELETE FROM note WHERE id > 5")
    connection.execute("VACUUM")
    checkpoint_once(connection, "truncate")
    assert path.stat().st_size < before
    insert(10)  # longer again, but in the log alone
    watch.look()
    insert()
    watch.look()


def test_a_database_that_was_cut_short_is_seen(
    path: Path, connection: apsw.Connection, watch: FileWatch, insert: Insert
) -> None:
    insert(50)
    checkpoint_once(connection, "truncate")
    watch.look()
    os.truncate(path, path.stat().st_size // 2)
    insert()
    with pytest.raises(FilesLost, match=r"db\.sqlite3 was cut short"):
        watch.look()


def test_a_database_that_was_cut_short_is_seen_though_the_log_still_has_what_it_lacks(
    path: Path, connection: apsw.Connection, watch: FileWatch, insert: Insert
) -> None:
    """It was moved into the database, so the next commit begins the log anew."""
    insert(50)
    assert checkpoint_once(connection, "passive").complete
    watch.look()
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(FilesLost, match=r"db\.sqlite3 was cut short"):
        watch.look()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_log_that_was_cut_short_is_seen_though_the_next_commit_makes_it_longer_again(
    path: Path, watch: FileWatch, insert: Insert, share: float
) -> None:
    insert(10)
    watch.look()
    size = log_of(path).stat().st_size
    os.truncate(log_of(path), int(size * share))
    insert()
    assert log_of(path).stat().st_size > size
    with pytest.raises(FilesLost, match="-wal was cut short"):
        watch.look()


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_removed_or_replaced_is_seen_by_name(
    path: Path, watch: FileWatch, insert: Insert, ending: str, replaced: bool
) -> None:
    insert()
    victim = path.with_name(path.name + ending)
    content = victim.read_bytes()
    victim.unlink()
    if replaced:
        victim.write_bytes(content)
    insert()
    with pytest.raises(FilesLost) as lost:
        watch.look()
    assert lost.value.details == {"path": str(victim), "reason": "replaced" if replaced else "removed"}


def test_a_writer_answers_no_commit_whose_file_is_lost_and_writes_no_more(
    path: Path, connection: apsw.Connection, watch: FileWatch
) -> None:
    told: list[FilesLost] = []
    writer = Writer(connection, on_committed=lambda batch: None, before_answer=watch.look, on_lost=told.append)
    writer.start()

    def write(db: apsw.Connection) -> int:
        db.execute("INSERT INTO note (content) VALUES ('x')")
        return db.last_insert_rowid()

    assert writer.run_sync(write) == 1
    path.unlink()
    for _ in range(2):
        with pytest.raises(FilesLost, match="was removed"):
            writer.run_sync(write)
    assert len(told) == 1
    assert writer.stop()
    assert connection.execute("SELECT max(id) FROM note").fetchall() in ([(1,)], [(2,)])


def test_a_writer_without_work_looks_too(path: Path, connection: apsw.Connection, watch: FileWatch) -> None:
    told = threading.Event()
    writer = Writer(
        connection, on_committed=lambda batch: None, before_answer=watch.look, on_lost=lambda lost: told.set()
    )
    writer.start()
    path.unlink()
    assert told.wait(60)
    assert writer.stop()
