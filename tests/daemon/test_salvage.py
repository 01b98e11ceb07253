"""Whatever can be read of a damaged outbox is in the new one, and no step that is cut short loses any of it."""

import sqlite3
from pathlib import Path

import pytest

from parley.core.daemon_errors import OutboxDamaged
from parley.daemon.databases import open_both, open_inbox, open_outbox, salvaged_outbox
from parley.daemon.salvage import salvage
from parley.wire.daemon_home import DaemonHome
from tests.daemon.world import NOW, message, put

ROWS = 60


@pytest.fixture
def home(tmp_path: Path) -> DaemonHome:
    """A daemon's folder with rows in its outbox, about one to a page."""
    home = DaemonHome(tmp_path)
    connection = open_outbox(home.outbox)
    for number in range(1, ROWS + 1):
        put(connection, message(f"m-{number:03}", f"{number:03} " + "x" * 1500))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    open_inbox(home.inbox).connection.close()
    return home


def kept(path: Path) -> set[int]:
    connection = open_outbox(path)
    found = {int(str(row[0])) for row in connection.execute("SELECT seq FROM outbox").fetchall()}
    connection.close()
    return found


def spoil(path: Path, *rows: int) -> None:
    """Overwrites the pages that hold what the rows say; where they stood before is no part of the table any more."""
    content = path.read_bytes()
    with path.open("r+b") as file:
        for row in rows:
            file.seek(content.rindex(b"%03d " % row + b"x" * 100) // 4096 * 4096)
            file.write(b"\xff" * 4096)


@pytest.mark.parametrize(
    "damaged", [(1,), (30,), (ROWS,), (20, 40), (1, ROWS), (1, 30, ROWS)], ids=lambda rows: "-".join(map(str, rows))
)
def test_only_what_lay_in_a_damaged_page_is_lost(home: DaemonHome, damaged: tuple[int, ...]) -> None:
    spoil(home.outbox, *damaged)
    before = home.outbox.read_bytes()
    with pytest.raises(OutboxDamaged):
        open_both(home, now_ms=NOW)
    found = salvage(home.outbox, now_ms=NOW)
    assert found is not None
    lost = set(range(1, ROWS + 1)) - kept(home.outbox)
    assert set(damaged) <= lost
    assert len(lost) <= 4 * len(damaged), "a page holds few of them"
    assert (found.saved, found.unreadable) == (ROWS - len(lost), True)
    assert found.set_aside.read_bytes() == before
    opened = open_both(home, now_ms=NOW)
    opened.outbox.close()
    opened.inbox.connection.close()


def test_where_only_an_index_is_damaged_all_is_saved(home: DaemonHome) -> None:
    with sqlite3.connect(home.outbox) as connection:
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'outbox_status'").fetchall()
    connection.close()
    with home.outbox.open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(b"\xff" * 4096)
    with pytest.raises(OutboxDamaged):
        open_both(home, now_ms=NOW)
    found = salvage(home.outbox, now_ms=NOW)
    assert found is not None
    assert (found.saved, found.unreadable) == (ROWS, False)
    assert kept(home.outbox) == set(range(1, ROWS + 1))


def test_what_is_no_database_at_all_leaves_an_empty_one(home: DaemonHome) -> None:
    home.outbox.write_bytes(b"not a database at all" * 1000)
    found = salvage(home.outbox, now_ms=NOW)
    assert found is not None
    assert (found.saved, found.unreadable, found.set_aside.exists()) == (0, True, True)
    assert kept(home.outbox) == set()


def test_of_an_outbox_that_is_gone_nothing_is_said_to_be_saved(home: DaemonHome) -> None:
    home.outbox.unlink()
    assert salvage(home.outbox, now_ms=NOW) is None
    assert kept(home.outbox) == set()


def test_a_copy_that_was_cut_short_is_begun_anew(home: DaemonHome) -> None:
    spoil(home.outbox, 30)
    open_outbox(salvaged_outbox(home.outbox)).close()
    with pytest.raises(OutboxDamaged):
        open_both(home, now_ms=NOW)
    found = salvage(home.outbox, now_ms=NOW)
    assert found is not None
    assert found.saved >= ROWS - 4
    assert not salvaged_outbox(home.outbox).exists()


@pytest.mark.parametrize("inbox", ["there", "gone"])
def test_a_copy_that_has_not_taken_the_place_yet_takes_it(home: DaemonHome, inbox: str) -> None:
    spoil(home.outbox, 30)
    found = salvage(home.outbox, now_ms=NOW)
    assert found is not None
    home.outbox.rename(salvaged_outbox(home.outbox))
    if inbox == "gone":
        home.inbox.unlink()
    with pytest.raises(OutboxDamaged, match="gone or empty"):
        open_both(home, now_ms=NOW)
    assert salvage(home.outbox, now_ms=NOW + 1) == found
    assert len(kept(home.outbox)) == found.saved
