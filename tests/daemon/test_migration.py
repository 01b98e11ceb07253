"""The databases of a daemon of every landed schema are migrated with all that they hold."""

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from parley.daemon.databases import INBOX_MIGRATIONS, OUTBOX_MIGRATIONS, open_inbox, open_outbox
from parley.daemon.inbox.events import events_after
from parley.daemon.inbox.reading import Filter, page, search
from parley.daemon.inbox.receive import open_kept
from parley.daemon.outbox.accept import message_fingerprint, recognise
from parley.daemon.outbox.rows import by_client_id, chain
from parley.daemon.outbox.terms import DEFAULT_TERMS, read_terms
from parley.daemon.rosters.copy import RosterCopy
from parley.daemon.rosters.rows import load_copy
from tests.core.roster.town import Town
from tests.daemon.world import NOW, commit, message, opens, put
from tests.mesh_fixtures import FOLDER, newest
from tests.workspace.databases import dump, run_script, shape

ROSTERS_SINCE = 5


def make_old(path: Path, name: str, version: int) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        run_script(connection, (FOLDER / name / f"v{version}.sql").read_text(encoding="utf-8"))


@pytest.mark.parametrize("version", range(1, len(OUTBOX_MIGRATIONS) + 1))
def test_an_outbox_of_every_schema_keeps_its_promises(tmp_path: Path, version: int) -> None:
    path = tmp_path / "outbox.db"
    make_old(path, "outbox", version)
    with closing(open_outbox(path)) as outbox:
        states = dict(dump(outbox, "SELECT client_message_id, status FROM outbox"))
        assert states == {
            "done": "done",
            "dead": "dead",
            "inflight": "inflight",
            "pending": "pending",
            "replaced": "aborted",
            "again": "pending",
        }
        done = by_client_id(outbox, "done")
        assert done is not None
        same = message_fingerprint(message("done", "text of done"))
        assert recognise(done, "mesh_1", same).row.broker_message_id == "bm_1"
        again = by_client_id(outbox, "again")
        assert again is not None
        assert [row.id for row in chain(outbox, again)] == ["out_replaced", "out_z"]
        assert read_terms(outbox, "mesh_1") == DEFAULT_TERMS
        put(outbox, message("new", "after the migration"))
        copy = RosterCopy(Town().state.fingerprint)
        load_copy(outbox, "mesh_2", copy)
        assert (copy.state is None) == (version < ROSTERS_SINCE)


@pytest.mark.parametrize("version", range(1, len(INBOX_MIGRATIONS) + 1))
def test_an_inbox_of_every_schema_is_read_searched_and_opened(tmp_path: Path, version: int) -> None:
    path = tmp_path / "inbox.db"
    make_old(path, "inbox", version)
    opened = open_inbox(path)
    assert opened.set_aside is None
    with closing(opened.connection) as inbox:
        assert [each.body for each in page(inbox, Filter(), 10)] == [None, "text 2", "text 1"]
        assert [each.seen_at for each in page(inbox, Filter(), 10)] == [None, None, NOW + 9]
        assert [each.id for each in search(inbox, "text", Filter(), 10)] == ["in_2", "in_1"]
        assert [event.kind for event in events_after(inbox, 0, 10)] == [
            "message",
            "message",
            "decrypt_failed",
            "broker_status",
        ]
        assert len(commit(inbox, lambda db: open_kept(db, opens, mesh_id="mesh_1", now_ms=NOW)).events) == 1
        assert len(search(inbox, "text", Filter(), 10)) == 3


def test_every_schema_has_a_fixture_and_the_newest_is_that_of_a_new_file(tmp_path: Path) -> None:
    for name, migrations in (("outbox", OUTBOX_MIGRATIONS), ("inbox", INBOX_MIGRATIONS)):
        assert len(list((FOLDER / name).glob("v*.sql"))) == len(migrations)
    for name, fresh in (
        ("outbox", open_outbox(tmp_path / "outbox.db")),
        ("inbox", open_inbox(tmp_path / "inbox.db").connection),
    ):
        with closing(fresh), closing(apsw.Connection(":memory:")) as old:
            run_script(old, newest(name).read_text(encoding="utf-8"))
            assert shape(old) == shape(fresh)
