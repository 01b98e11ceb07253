"""Damage to the outbox stops the start; damage to the inbox does not."""

from pathlib import Path

import apsw
import pytest

from parley.core.daemon_errors import OutboxDamaged
from parley.core.errors import SchemaTooNew
from parley.daemon.databases import open_inbox, open_outbox
from parley.daemon.inbox.events import events_after
from parley.daemon.inbox.renewal import mark_refilled, wants_refill
from parley.sqlite import is_there
from tests.daemon.world import NOW, message, put


def spoil(path: Path) -> None:
    """Overwrites pages in the middle of the file."""
    with path.open("r+b") as file:
        file.seek(4096 + 100)
        file.write(b"\xff" * 8000)


def test_both_are_made_new_and_opened_again(tmp_path: Path) -> None:
    for _ in range(2):
        open_outbox(tmp_path / "outbox.db").close()
        opened = open_inbox(tmp_path / "inbox.db")
        opened.connection.close()
        assert opened.set_aside is None
    assert (tmp_path / "outbox.db").stat().st_mode & 0o777 == 0o600


def test_a_damaged_outbox_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    connection = open_outbox(path)
    put(connection, message())
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    spoil(path)
    spoiled = path.read_bytes()
    with pytest.raises(OutboxDamaged, match=r"outbox\.db is damaged"):
        open_outbox(path)
    assert path.read_bytes() == spoiled


@pytest.mark.parametrize("damage", ["pages", "no_database"])
def test_a_damaged_inbox_is_set_aside_and_an_empty_one_takes_its_place(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "inbox.db"
    first = open_inbox(path).connection
    first.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    first.close()
    if damage == "pages":
        spoil(path)
    else:
        path.write_bytes(b"not a database at all" * 1000)
    damaged = path.read_bytes()
    opened = open_inbox(path, now_ms=NOW)
    aside = tmp_path / "inbox.db.corrupt-20260101T000000000Z"
    assert opened.set_aside == aside
    assert aside.read_bytes() == damaged
    assert opened.connection.execute("SELECT count(*) FROM inbox").fetchall() == [(0,)]
    opened.connection.close()


@pytest.mark.parametrize("how", ["cut to nothing", "deleted"])
def test_an_outbox_that_is_gone_is_missed(tmp_path: Path, how: str) -> None:
    path = tmp_path / "outbox.db"
    if how == "cut to nothing":
        path.touch()
    with pytest.raises(OutboxDamaged):
        open_outbox(path, expected=True)
    assert not is_there(path)
    open_outbox(path).close()
    open_outbox(path, expected=True).close()


@pytest.mark.parametrize("how", ["cut to nothing", "deleted"])
def test_an_inbox_that_is_gone_is_made_anew_and_says_that_it_is_to_be_filled(tmp_path: Path, how: str) -> None:
    path = tmp_path / "inbox.db"
    if how == "cut to nothing":
        path.touch()
    opened = open_inbox(path, now_ms=NOW, expected=True)
    assert (opened.renewed, opened.set_aside) == (True, None)
    assert wants_refill(opened.connection, "mesh_team")
    mark_refilled(opened.connection, "mesh_team")
    (event,) = events_after(opened.connection, 0, 10)
    assert (event.kind, event.event_id > NOW) == ("inbox_corruption_recovered", True), "no number is given twice"
    opened.connection.close()
    again = open_inbox(path, now_ms=NOW, expected=True)
    assert not again.renewed
    assert not wants_refill(again.connection, "mesh_team")
    assert wants_refill(again.connection, "mesh_away"), "its broker could not be asked yet"
    again.connection.close()


def test_a_newer_schema_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    connection = open_outbox(path)
    connection.execute("PRAGMA journal_mode=delete").fetchall()
    connection.execute("PRAGMA user_version=99").fetchall()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(SchemaTooNew):
        open_outbox(path)
    assert path.read_bytes() == before


def test_status_cannot_be_null(tmp_path: Path) -> None:
    connection = open_outbox(tmp_path / "outbox.db")
    put(connection, message())
    with pytest.raises(apsw.ConstraintError):
        connection.execute("UPDATE outbox SET status = NULL")
    connection.close()
