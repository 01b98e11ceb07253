"""Creating, migrating, adopting and refusing a database."""

import hashlib
from pathlib import Path

import apsw
import pytest

from parley.core.errors import MigrationFailed, SchemaTooNew, StartupFailed
from parley.core.fold import differences, fold
from parley.sqlite import Migration, foreign_key_check, integrity_check
from parley.workspace import queries
from parley.workspace.fts import index_new
from parley.workspace.layout import Workspace
from parley.workspace.versions import MIGRATIONS
from tests.workspace.databases import (
    AGENTLIP_DB_ID,
    add_channel,
    add_message,
    add_topic,
    dump,
    make_agentlip,
    new_workspace,
    prepared,
    run_script,
    shape,
    writing,
)

FIXTURES = Path(__file__).parent.parent / "fixtures" / "schema"
MESSAGE_COLUMNS = (
    "id, topic_id, channel_id, sender, content_raw, version, created_at, edited_at, deleted_at, deleted_by"
)
ENRICHMENT_COLUMNS = "id, message_id, kind, span_start, span_end, data_json, created_at"
DATA_OF_AGENTLIP = {
    "channels": "SELECT * FROM channels ORDER BY id",
    "topics": "SELECT * FROM topics ORDER BY id",
    "messages": f"SELECT rowid, {MESSAGE_COLUMNS} FROM messages ORDER BY rowid",
    "topic_attachments": "SELECT * FROM topic_attachments ORDER BY id",
    "enrichments": f"SELECT {ENRICHMENT_COLUMNS} FROM enrichments ORDER BY id",
    "events": "SELECT * FROM events WHERE name <> 'workspace.adopted' ORDER BY event_id",
}


def second(sql: str) -> tuple[Migration, ...]:
    """The schema as it might be after one more release."""
    return (*MIGRATIONS, Migration(len(MIGRATIONS) + 1, "next", sql))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_new_database_has_an_identity_and_an_empty_log(workspace: Workspace) -> None:
    with writing(workspace) as connection:
        done = prepared(connection, workspace, new_id=lambda: "the-id")
        assert (done.db_id, done.change, done.backup, done.fts, done.warnings) == ("the-id", "created", None, True, ())
        assert queries.read_meta(connection, "schema_version") == "1"
        assert queries.read_meta(connection, "parley_schema") == str(len(MIGRATIONS))
        assert queries.read_meta(connection, "created_at") == "2026-01-01T00:00:00.000Z"
        assert queries.latest_event_id(connection) == 0


def test_preparing_again_changes_nothing(workspace: Workspace) -> None:
    with writing(workspace) as connection:
        first = prepared(connection, workspace)
        before = shape(connection)
        again = prepared(connection, workspace)
        assert (again.db_id, again.change, again.backup) == (first.db_id, None, None)
        assert shape(connection) == before
        assert not workspace.backups.exists()


def test_an_upgrade_keeps_the_data_takes_a_backup_and_is_an_event(workspace: Workspace) -> None:
    with writing(workspace) as connection:
        prepared(connection, workspace)
        add_channel(connection)
        done = prepared(connection, workspace, migrations=second("CREATE TABLE extra (id INTEGER PRIMARY KEY) STRICT"))
        assert (done.change, done.schema) == ("migrated", len(MIGRATIONS) + 1)
        assert [channel.name for channel in queries.list_channels(connection)] == ["general"]
        (event,) = queries.read_events(connection, after=0, until=9, limit=9)
        assert (event.name, event.data_json) == (
            "schema.migrated",
            {"from_version": len(MIGRATIONS), "to_version": len(MIGRATIONS) + 1},
        )
        assert (event.entity.type, event.entity.id, event.scope.channel_id) == ("workspace", done.db_id, None)
    assert done.backup is not None
    assert done.backup.name == f"db.sqlite3.backup-v{len(MIGRATIONS)}-20260101T000000000Z"
    assert done.backup.stat().st_mode & 0o777 == 0o600
    with apsw.Connection(str(done.backup)) as backup:
        assert dump(backup, "SELECT name FROM channels") == [("general",)]
        assert dump(backup, "SELECT count(*) FROM sqlite_schema WHERE name = 'extra'") == [(0,)]


def test_a_failed_upgrade_is_rolled_back_and_names_its_backup(workspace: Workspace) -> None:
    with writing(workspace) as connection:
        prepared(connection, workspace)
        add_channel(connection)
        broken = second("INSERT INTO topics VALUES ('t', 'no such channel', 'x', 'x', 'x')")
        with pytest.raises(MigrationFailed) as failure:
            prepared(connection, workspace, migrations=broken)
        assert dump(connection, "SELECT count(*) FROM topics") == [(0,)]
        assert queries.read_meta(connection, "parley_schema") == str(len(MIGRATIONS))
        assert queries.latest_event_id(connection) == 0
    assert Path(str(failure.value.details["backup"])).is_file()


@pytest.mark.parametrize(("key", "version"), [("parley_schema", "99"), ("schema_version", "2")])
def test_a_newer_schema_is_refused_before_anything_is_touched(workspace: Workspace, key: str, version: str) -> None:
    with writing(workspace) as connection:
        prepared(connection, workspace)
        connection.execute("UPDATE meta SET value = ? WHERE key = ?", (version, key))
    before = digest(workspace.db)
    with writing(workspace) as connection, pytest.raises(SchemaTooNew) as refusal:
        prepared(connection, workspace)
    assert refusal.value.details["found"] == int(version)
    assert digest(workspace.db) == before
    assert not workspace.backups.exists()


def test_a_newer_agentlip_database_is_refused(tmp_path: Path) -> None:
    workspace = make_agentlip(tmp_path, fts=False)
    with writing(workspace) as connection:
        connection.execute("UPDATE meta SET value = '2' WHERE key = 'schema_version'")
        with pytest.raises(SchemaTooNew):
            prepared(connection, workspace)


@pytest.mark.parametrize(
    "script", ["CREATE TABLE recipes (id INTEGER)", "CREATE TABLE meta (key TEXT, value TEXT)"], ids=["tables", "meta"]
)
def test_a_database_of_something_else_is_left_alone(workspace: Workspace, script: str) -> None:
    with writing(workspace) as connection:
        connection.execute(script)
        with pytest.raises(StartupFailed):
            prepared(connection, workspace)
        assert len(dump(connection, "SELECT 1 FROM sqlite_schema")) == 1


def test_a_version_that_is_no_number_is_refused(workspace: Workspace) -> None:
    with writing(workspace) as connection:
        prepared(connection, workspace)
        connection.execute("UPDATE meta SET value = 'one' WHERE key = 'parley_schema'")
        with pytest.raises(StartupFailed, match="parley_schema"):
            prepared(connection, workspace)


@pytest.mark.parametrize("fts_before", [False, True])
@pytest.mark.parametrize("fts_after", [False, True])
def test_adoption_keeps_every_value_and_the_order(tmp_path: Path, fts_before: bool, fts_after: bool) -> None:
    workspace = make_agentlip(tmp_path, fts=fts_before)
    with writing(workspace) as connection:
        before = {table: dump(connection, statement) for table, statement in DATA_OF_AGENTLIP.items()}
        done = prepared(connection, workspace, fts=fts_after)
        after = {table: dump(connection, statement) for table, statement in DATA_OF_AGENTLIP.items()}
        assert after == before
        assert (done.change, done.db_id, done.fts) == ("adopted", AGENTLIP_DB_ID, fts_after)
        assert dump(connection, "SELECT seq FROM messages") == dump(connection, "SELECT rowid FROM messages")
        assert integrity_check(connection) == []
        assert foreign_key_check(connection) == []
        assert dump(connection, "PRAGMA foreign_keys") == [(1,)]
        assert prepared(connection, workspace, fts=fts_after).change is None
    assert done.backup is not None
    with apsw.Connection(str(done.backup)) as backup:
        assert {table: dump(backup, statement) for table, statement in DATA_OF_AGENTLIP.items()} == before


def test_adoption_is_an_event_after_the_old_ones(tmp_path: Path) -> None:
    workspace = make_agentlip(tmp_path, fts=True)
    with writing(workspace) as connection:
        newest = queries.latest_event_id(connection)
        prepared(connection, workspace)
        (event,) = queries.read_events(connection, after=newest, until=newest + 9, limit=9)
    assert (event.event_id, event.name) == (newest + 1, "workspace.adopted")
    assert event.data_json == {"source": "agentlip", "messages": 40}


def test_an_adopted_database_has_the_schema_of_a_new_one(tmp_path: Path) -> None:
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
    adopted, fresh = make_agentlip(tmp_path / "old", fts=True), new_workspace(tmp_path / "new")
    with writing(adopted) as left, writing(fresh) as right:
        prepared(left, adopted)
        prepared(right, fresh)
        assert shape(left) == shape(right)


def test_agentlips_command_line_reads_an_adopted_database(tmp_path: Path) -> None:
    """The statements with which its ``msg tail``, ``msg page``, ``topic list`` and ``search`` read the file."""
    workspace = make_agentlip(tmp_path, fts=True)
    statements = [
        ("SELECT key, value FROM meta WHERE key IN ('db_id', 'schema_version') ORDER BY key", ()),
        ("SELECT * FROM channels ORDER BY name", ()),
        ("SELECT * FROM topics WHERE channel_id = (SELECT id FROM channels) ORDER BY updated_at DESC LIMIT 50", ()),
        ("SELECT id, content_raw, version FROM messages WHERE topic_id = ? ORDER BY id DESC LIMIT ?", ("T", 20)),
        (
            "SELECT id FROM messages WHERE topic_id = ? AND id < 'msg_mjugxxxxk' ORDER BY id DESC LIMIT ?",
            ("T", 20),
        ),
        ("SELECT * FROM topic_attachments WHERE topic_id = ? ORDER BY created_at DESC LIMIT ?", ("T", 20)),
        (
            "SELECT m.id FROM messages m JOIN messages_fts f ON f.rowid = m.rowid WHERE f.content_raw MATCH ? LIMIT ?",
            ("quotes", 20),
        ),
    ]

    def read(connection: apsw.Connection) -> list[list[tuple[object, ...]]]:
        topic = dump(connection, "SELECT id FROM topics ORDER BY rowid")[0][0]
        return [
            dump(connection, statement, tuple(topic if value == "T" else value for value in values))
            for statement, values in statements
        ]

    with writing(workspace) as connection:
        before = read(connection)
        prepared(connection, workspace)
        assert read(connection) == before
        assert all(before)
        names = [name for _, name, *_ in dump(connection, "PRAGMA table_info(messages)")]
        assert set(MESSAGE_COLUMNS.split(", ")) <= set(names)


def test_a_failed_adoption_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    workspace = make_agentlip(tmp_path, fts=True)
    with writing(workspace) as connection:
        connection.execute("CREATE TABLE moves (mine TEXT)")  # in the way of a table of ours
        before, data = shape(connection), dump(connection, DATA_OF_AGENTLIP["messages"])
        with pytest.raises(MigrationFailed):
            prepared(connection, workspace)
        assert shape(connection) == before
        assert dump(connection, DATA_OF_AGENTLIP["messages"]) == data


def test_the_schema_forbids_rewriting_history(connection: apsw.Connection) -> None:
    add_channel(connection)
    add_topic(connection)
    add_message(connection, "msg_1")
    connection.execute(
        "INSERT INTO events (ts, name, entity_type, entity_id, data_json) VALUES ('t', 'n', 'message', 'x', '{}')"
    )
    for statement in (
        "DELETE FROM messages",
        "DELETE FROM events",
        "UPDATE events SET ts = 'later'",
        "DELETE FROM topics",
        "DELETE FROM channels",
    ):
        with pytest.raises(apsw.ConstraintError):
            connection.execute(statement)


def test_the_order_of_messages_survives_vacuum(connection: apsw.Connection) -> None:
    add_channel(connection)
    add_topic(connection)
    for number in range(5):
        add_message(connection, f"msg_{number}", f"word{number}")
    index_new(connection)
    connection.execute("INSERT INTO meta VALUES ('archive_in_progress', '1')")
    connection.execute("DELETE FROM messages WHERE id = 'msg_0'")
    connection.execute("DELETE FROM meta WHERE key = 'archive_in_progress'")
    connection.execute("VACUUM")
    assert dump(connection, "SELECT seq, id FROM messages ORDER BY seq") == [(n + 1, f"msg_{n}") for n in range(1, 5)]
    assert [hit.id for hit in queries.search(connection, "word3", limit=5).messages] == ["msg_3"]


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_a_database_of_every_landed_schema_can_be_prepared(workspace: Workspace, version: int) -> None:
    with writing(workspace) as connection:
        run_script(connection, (FIXTURES / f"v{version}.sql").read_text(encoding="utf-8"))
        done = prepared(connection, workspace)
        assert done.change == (None if version == len(MIGRATIONS) else "migrated")
        assert done.schema == len(MIGRATIONS)
        assert queries.read_meta(connection, "parley_schema") == str(len(MIGRATIONS))
        assert integrity_check(connection) == []
        assert differences(fold(queries.logged_events(connection)), queries.stored_state(connection)) == []
        assert queries.search(connection, "hello", limit=9).messages


def test_the_newest_fixture_has_the_schema_that_a_new_database_gets(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "fixture").mkdir()
    other = new_workspace(tmp_path / "fixture")
    with writing(workspace) as fresh, writing(other) as old:
        prepared(fresh, workspace)
        run_script(old, (FIXTURES / f"v{len(MIGRATIONS)}.sql").read_text(encoding="utf-8"))
        prepared(old, other)
        assert shape(old) == shape(fresh)
