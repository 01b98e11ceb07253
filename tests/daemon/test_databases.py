"""Damage to the outbox stops the start; damage to the inbox does not."""

from pathlib import Path

import apsw
import pytest

from parley.core.errors import DatabaseCorrupt, SchemaTooNew
from parley.daemon.databases import open_inbox, open_outbox
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
    with pytest.raises(DatabaseCorrupt):
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


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    connection = open_outbox(path)
    connection.execute("PRAGMA user_version=99").fetchall()
    connection.close()
    with pytest.raises(SchemaTooNew):
        open_outbox(path)


def test_status_cannot_be_null(tmp_path: Path) -> None:
    connection = open_outbox(tmp_path / "outbox.db")
    put(connection, message())
    with pytest.raises(apsw.ConstraintError):
        connection.execute("UPDATE outbox SET status = NULL")
    connection.close()
