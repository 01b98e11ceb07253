"""Reading without a hub: beside one, after one, from a place that cannot be written, and before adoption."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import apsw
import pytest

from parley.core.errors import DatabaseCorrupt, SchemaTooNew, ServiceUnavailable, StartupFailed, WorkspaceNotFound
from parley.workspace import queries
from parley.workspace.layout import Workspace
from parley.workspace.reading import open_reading, open_reading_file
from parley.workspace.versions import MIGRATIONS
from tests.workspace.databases import (
    AGENTLIP_DB_ID,
    add_channel,
    add_message,
    add_topic,
    dump,
    make_agentlip,
    prepared,
    writing,
)


@pytest.fixture
def stopped(workspace: Workspace) -> Workspace:
    """A workspace whose hub stopped cleanly."""
    with writing(workspace) as connection:
        prepared(connection, workspace)
        add_channel(connection)
        add_topic(connection)
        add_message(connection, "msg_1", "hello world")
    return workspace


def contents(workspace: Workspace) -> list[str]:
    with open_reading(workspace) as reading:
        page = queries.page_messages(reading.connection, channel_id="ch_1", limit=9)
    return [message.content_raw for message in page.messages]


def test_a_reader_sees_what_a_running_writer_has_committed(stopped: Workspace) -> None:
    with writing(stopped) as connection, open_reading(stopped) as reading:
        add_message(connection, "msg_2", "while it runs")
        assert queries.get_message(reading.connection, "msg_2") is not None
        connection.execute("BEGIN IMMEDIATE")
        add_message(connection, "msg_3", "not committed")
        assert queries.get_message(reading.connection, "msg_3") is None
        connection.execute("ROLLBACK")


def test_a_reader_works_after_a_clean_stop_and_cannot_write(stopped: Workspace) -> None:
    assert contents(stopped) == ["hello world"]
    with open_reading(stopped) as reading:
        assert (reading.schema, reading.path) == (len(MIGRATIONS), stopped.db)
        assert reading.db_id == queries.read_meta(reading.connection, "db_id")
        with pytest.raises(apsw.Error):
            reading.connection.execute("DELETE FROM idempotency_keys")
    with pytest.raises(apsw.ConnectionClosedError):
        reading.connection.execute("SELECT 1")


def test_a_reader_finds_what_a_killed_hub_left_in_its_log(stopped: Workspace) -> None:
    script = (
        "import os, sys; from pathlib import Path; from parley.sqlite import open_writer;"
        "c = open_writer(Path(sys.argv[1]));"
        "c.execute(\"UPDATE messages SET content_raw = 'last words'\"); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", script, str(stopped.db)], check=False, timeout=60)
    assert stopped.wal.stat().st_size > 0
    assert contents(stopped) == ["last words"]


def test_a_reader_works_where_nothing_can_be_written(stopped: Workspace) -> None:
    """A folder without write permission, read by a user who is bound by permissions: root would not be."""
    script = (
        "import os, sys; from pathlib import Path;"
        "from parley.workspace.reading import open_reading_file; from parley.workspace import queries;"
        "os.geteuid() == 0 and (os.setgid(65534), os.setuid(65534));"
        "r = open_reading_file(Path(sys.argv[1])); print(queries.get_message(r.connection, 'msg_1').content_raw)"
    )
    with tempfile.TemporaryDirectory() as name:  # not below a folder that only its owner may enter
        folder = Path(name)
        shutil.copy(stopped.db, folder / "db.sqlite3")
        (folder / "db.sqlite3").chmod(0o444)
        folder.chmod(0o555)
        command = [sys.executable, "-c", script, str(folder / "db.sqlite3")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        files = [path.name for path in folder.iterdir()]
        folder.chmod(0o700)
    assert (done.stdout, done.stderr) == ("hello world\n", "")
    assert files == ["db.sqlite3"]


@pytest.mark.parametrize("key", ["parley_schema", "schema_version"])
def test_a_newer_schema_is_refused(stopped: Workspace, key: str) -> None:
    with writing(stopped) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = ?", (key,))
    with pytest.raises(SchemaTooNew):
        open_reading(stopped)


def test_what_is_no_workspace_database_is_refused(workspace: Workspace) -> None:
    with pytest.raises(WorkspaceNotFound):
        open_reading(workspace)
    workspace.db.touch()
    with pytest.raises(ServiceUnavailable, match="no hub has prepared it"):
        open_reading(workspace)
    with apsw.Connection(str(workspace.db)) as other:
        other.execute("CREATE TABLE recipes (id INTEGER)")
    with pytest.raises(StartupFailed):
        open_reading(workspace)


@pytest.mark.parametrize("fts", [True, False])
def test_an_agentlip_workspace_can_be_read_before_and_after_adoption(tmp_path: Path, fts: bool) -> None:
    workspace = make_agentlip(tmp_path, fts=fts)

    def everything() -> list[object]:
        with open_reading(workspace) as reading:
            connection = reading.connection
            (channel,) = queries.list_channels(connection)
            topics, _ = queries.list_topics(connection, channel.id, limit=9)
            newest = queries.page_messages(connection, channel_id=channel.id, limit=9)
            older = queries.page_messages(connection, topic_id=topics[0].id, before_id=newest.messages[0].id, limit=9)
            newer = queries.page_messages(connection, topic_id=topics[1].id, after_id=older.messages[-1].id, limit=9)
            return [
                queries.find_channel(connection, "général"),
                topics,
                newest,
                older,
                newer,
                queries.get_message(connection, newest.messages[0].id),
                [queries.list_attachments(connection, topic.id) for topic in topics],
                {message.id for message in queries.search(connection, "quotes", limit=99).messages},
                queries.read_events(connection, after=0, until=43, limit=99, channels=[channel.id]),
                queries.oldest_cursor(connection),
                queries.largest_ids(connection),
                reading.db_id,
            ]

    with open_reading(workspace) as reading:
        assert (reading.schema, reading.db_id) == (0, AGENTLIP_DB_ID)
        assert queries.search(reading.connection, "quotes", limit=9).fts_used is fts
        with pytest.raises(apsw.Error):
            reading.connection.execute("DELETE FROM main.enrichments")
    before = everything()
    with writing(workspace) as connection:
        prepared(connection, workspace, fts=fts)
    assert everything() == before


def test_the_order_before_adoption_is_the_order_of_creation(tmp_path: Path) -> None:
    workspace = make_agentlip(tmp_path, fts=False)
    with open_reading(workspace) as reading:
        (channel,) = queries.list_channels(reading.connection)
        page = queries.page_messages(reading.connection, channel_id=channel.id, limit=99)
        created = [row[0] for row in dump(reading.connection, "SELECT id FROM main.messages ORDER BY rowid DESC")]
        assert [message.id for message in page.messages] == created
        assert created != sorted(created, reverse=True)


@pytest.mark.parametrize("table", ["meta", "channels"])
def test_damage_that_a_reader_meets_is_told_as_damage(stopped: Workspace, table: str) -> None:
    with open_reading(stopped) as reading:
        wanted = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        [[page]] = reading.connection.execute(wanted, (table,)).fetchall()
        [[size]] = reading.connection.execute("PRAGMA page_size").fetchall()
    with stopped.db.open("r+b") as file:
        file.seek((int(str(page)) - 1) * int(str(size)))
        file.write(b"\xde\xad" * 512)
    with pytest.raises(DatabaseCorrupt), open_reading(stopped) as reading:
        queries.list_channels(reading.connection)


def test_a_backup_opens_like_a_workspace(stopped: Workspace) -> None:
    copy = stopped.state / "copy.sqlite3"
    with writing(stopped) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    with open_reading_file(copy) as reading:
        assert queries.get_message(reading.connection, "msg_1") is not None
