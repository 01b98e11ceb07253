"""Starting a hub: what it leaves on disk, whom it refuses, and what it puts right."""

import json
import os
import socket
from pathlib import Path

import msgspec
import pytest
import structlog

from bench.load.ports import lasting_port
from parley.app.archive import archive
from parley.app.make import make_workspace
from parley.core.clock import ManualClock
from parley.core.errors import (
    BindRefused,
    DatabaseCorrupt,
    MigrationFailed,
    SchemaTooNew,
    WorkspaceUnsafe,
    WriterLockHeld,
)
from parley.core.exits import Exit
from parley.core.instance_lock import InstanceLock
from parley.core.settings import Settings
from parley.hub.last_port import recall_port
from parley.hub.lifecycle import HubOptions, prepare_database, run_hub
from parley.sqlite import open_writer
from parley.wire.server_file import ServerFile
from parley.workspace import discovery
from tests.hub.hubs import rows, workspace_in
from tests.hub.lifecycle.here import run_here, stop_at_once
from tests.hub.lifecycle.processes import HubProcess, created, make_topic, mode, post
from tests.workspace.databases import dump, make_agentlip, writing


def test_a_start_writes_server_json_and_token_for_their_owner_alone_and_a_clean_stop_leaves_only_the_token(
    hub: HubProcess,
) -> None:
    hub.start()
    workspace, server = hub.workspace, hub.server
    text = workspace.server_file.read_text()
    assert text == json.dumps(server, indent=2) + "\n", "a person can read it"
    assert set(server) == {
        "instance_id",
        "db_id",
        "port",
        "host",
        "auth_token",
        "pid",
        "started_at",
        "protocol_version",
        "schema_version",
        "state_inode",
    }
    assert server["state_inode"] == workspace.state.stat().st_ino
    assert (server["pid"], server["protocol_version"], server["schema_version"]) == (hub.pid, "v1", 1)
    assert workspace.token.read_text().strip() == server["auth_token"]
    assert len(server["auth_token"]) == 64, "256 bits (Gate J asks for 128)"
    for path in (workspace.server_file, workspace.token, workspace.db, workspace.lock):
        assert mode(path) == 0o600, path
    with hub.client() as client:
        topic = make_topic(client)
        created(post(client, topic))
        assert client.get("/health").json()["instance_id"] == server["instance_id"]
    assert workspace.wal.stat().st_size > 0
    assert hub.stop() == Exit.OK
    assert not workspace.server_file.exists()
    assert not workspace.wal.exists() or workspace.wal.stat().st_size == 0, "the log is emptied into the database"
    assert rows(workspace, "SELECT content_raw FROM messages") == [("hello",)]
    hub.start()
    again = hub.server
    assert again["auth_token"] == server["auth_token"], "defect 11: a restart keeps the token"
    assert again["db_id"] == server["db_id"]
    assert again["instance_id"] != server["instance_id"]
    token = server["auth_token"]
    assert token not in (hub.root / "hub.stderr").read_text()


def test_part_x_multiple_hub_instances_a_second_start_exits_10_and_names_the_first(hub: HubProcess) -> None:
    hub.start()
    before = hub.workspace.server_file.read_bytes()
    code, said = hub.refused()
    assert code == Exit.ALREADY_RUNNING == 10
    assert said["code"] == "WRITER_LOCK_HELD"
    assert str(hub.pid) in said["error"]
    assert hub.workspace.server_file.read_bytes() == before
    with hub.client() as client:
        assert client.get("/health").status_code == 200


def test_part_x_concurrent_start_during_migration_the_lock_is_taken_before_anything_is_read_or_written(
    tmp_path: Path,
) -> None:
    """Whoever holds the lock may be in the middle of a migration: a second start touches nothing, not even the file."""
    workspace = workspace_in(tmp_path)
    workspace.db.write_bytes(b"half migrated, not a database at this moment")
    with InstanceLock(workspace.lock) as lock:
        lock.acquire({"pid": os.getpid()})
        before = sorted(path.name for path in workspace.state.iterdir())
        with pytest.raises(WriterLockHeld) as held:
            run_here(tmp_path)
        assert held.value.details["pid"] == os.getpid()
        assert sorted(path.name for path in workspace.state.iterdir()) == before
        assert workspace.db.read_bytes() == b"half migrated, not a database at this moment"


def test_part_x_server_json_permissions_wrong_modes_are_fixed_with_a_warning(hub: HubProcess) -> None:
    hub.start()
    hub.kill()
    workspace = hub.workspace
    workspace.token.chmod(0o644)
    workspace.server_file.chmod(0o644)
    hub.start()
    assert mode(workspace.token) == 0o600
    assert mode(workspace.server_file) == 0o600
    warnings = [line for line in hub.log if line["level"] == "warning" and "0644" in str(line)]
    assert any("could be read by others" in str(line) for line in warnings)


def test_part_x_hub_port_already_in_use_another_is_taken_and_written_to_server_json(tmp_path: Path) -> None:
    served: list[ServerFile] = []

    def note(server: ServerFile) -> None:
        written = msgspec.json.decode(discovery.at(tmp_path).server_file.read_bytes(), type=ServerFile)
        assert written == server
        served.append(server)
        stop_at_once(server)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        asked = taken.getsockname()[1]
        code, log = run_here(tmp_path, note, port=asked)
    assert code == Exit.OK
    assert served[0].port != asked
    assert any(entry["event"] == "port_taken" and entry["asked"] == asked for entry in log.entries)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1"])
def test_gate_j_localhost_bind_check_refuses_an_address_that_others_can_reach(tmp_path: Path, host: str) -> None:
    workspace = workspace_in(tmp_path)
    with pytest.raises(BindRefused) as refused:
        run_here(tmp_path, host=host)
    assert refused.value.exit_code == Exit.BIND_REFUSED == 24
    assert not workspace.db.exists()
    assert not workspace.lock.exists(), "nothing was touched"


def test_gate_j_an_open_address_is_served_only_when_a_person_accepts_the_risk(tmp_path: Path) -> None:
    hosts: list[str] = []

    def note(server: ServerFile) -> None:
        hosts.append(server.host)
        stop_at_once(server)

    code, _ = run_here(tmp_path, note, host="0.0.0.0", unsafe_network=True)
    assert (code, hosts) == (Exit.OK, ["0.0.0.0"])


def test_defect_19_part_x_downgrade_attempt_a_newer_schema_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    prepare_database(workspace, Settings(), ManualClock())
    with writing(workspace) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'parley_schema'")
    before = workspace.db.read_bytes()
    with pytest.raises(SchemaTooNew, match="99") as refused:
        run_here(tmp_path)
    assert refused.value.exit_code == Exit.SCHEMA_TOO_NEW == 20
    assert workspace.db.read_bytes() == before


def test_part_x_migration_with_constraint_violation_is_rolled_back_and_its_backup_kept(tmp_path: Path) -> None:
    workspace = make_agentlip(tmp_path, fts=False)
    with writing(workspace) as connection:
        connection.execute("PRAGMA foreign_keys=OFF").fetchall()
        connection.execute("UPDATE messages SET topic_id = 'topic_gone' WHERE rowid = 1")
        before = dump(connection, "SELECT * FROM messages ORDER BY id")
        schema = dump(connection, "SELECT sql FROM sqlite_schema ORDER BY name")
    with pytest.raises(MigrationFailed) as failed:
        run_hub(workspace, Settings(), structlog.get_logger(), HubOptions())
    assert failed.value.exit_code == Exit.MIGRATION_FAILED == 23
    (backup,) = workspace.backups.iterdir()
    assert str(backup) in str(failed.value)
    for path in (workspace.db, backup):
        reader = open_writer(path)
        assert dump(reader, "SELECT * FROM messages ORDER BY id") == before
        assert dump(reader, "SELECT sql FROM sqlite_schema ORDER BY name") == schema
        reader.close()
    assert not workspace.server_file.exists()


def test_a_state_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    workspace.lock.mkdir()
    with pytest.raises(WorkspaceUnsafe, match=r"hub\.lock cannot be used"):
        run_here(tmp_path)


def test_part_x_permission_error_a_server_json_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    workspace.server_file.mkdir()
    with pytest.raises(WorkspaceUnsafe, match=r"server\.json cannot be used"):
        run_here(tmp_path)


def test_a_token_file_of_no_use_is_a_clear_error_that_does_not_show_it(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    workspace.token.write_text("short and guessable\n")
    with pytest.raises(WorkspaceUnsafe, match="no usable token") as refused:
        run_here(tmp_path)
    assert refused.value.exit_code == Exit.WORKSPACE_UNSAFE == 25
    assert "guessable" not in str(refused.value)
    assert workspace.token.read_text() == "short and guessable\n"


def test_part_x_database_corruption_a_file_that_is_no_database_refuses_the_start_with_21(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    workspace.db.write_bytes(b"this is not a database at all" * 1_000)
    with pytest.raises(DatabaseCorrupt) as damaged:
        run_here(tmp_path)
    assert damaged.value.exit_code == Exit.CORRUPT == 21


@pytest.mark.parametrize("how", ["removed", "emptied"])
def test_h3_a_start_without_the_database_that_there_was_is_refused_with_21(tmp_path: Path, how: str) -> None:
    workspace = workspace_in(tmp_path)
    run_here(tmp_path)
    workspace.db.unlink()
    if how == "emptied":
        workspace.db.touch()
    before = sorted(path.name for path in workspace.state.iterdir())
    with pytest.raises(DatabaseCorrupt, match="last_port") as lost:
        run_here(tmp_path)
    assert lost.value.exit_code == Exit.CORRUPT == 21
    with pytest.raises(DatabaseCorrupt, match="last_port"):
        archive(workspace, 0)
    if how == "removed":
        with pytest.raises(DatabaseCorrupt, match="last_port"):
            make_workspace(tmp_path)
    assert sorted(path.name for path in workspace.state.iterdir()) == before
    workspace.last_port.unlink()
    assert run_here(tmp_path)[0] == Exit.OK


def test_a_restarted_hub_takes_its_old_port_so_that_an_open_page_finds_it(hub: HubProcess) -> None:
    port = lasting_port()
    hub.start("--port", str(port))
    assert hub.server["port"] == port
    for end in (hub.stop, hub.kill):
        end()
        hub.start()
        assert hub.server["port"] == port


def test_an_old_port_that_somebody_else_has_taken_is_left_to_them_without_a_warning(tmp_path: Path) -> None:
    ports: list[int] = []

    def note(server: ServerFile) -> None:
        ports.append(server.port)
        stop_at_once(server)

    run_here(tmp_path, note, port=lasting_port())
    with socket.create_server(("127.0.0.1", ports[0])):
        _, log = run_here(tmp_path, note)
    assert ports[1] != ports[0]
    assert not [entry for entry in log.entries if entry["log_level"] == "warning"]
    assert recall_port(discovery.at(tmp_path).last_port) == ports[1], "the last one is remembered"


def test_a_last_port_that_cannot_be_written_is_warned_of_and_the_hub_serves(tmp_path: Path) -> None:
    (discovery.create(tmp_path).state / "last_port").mkdir()
    code, log = run_here(tmp_path)
    assert code == Exit.OK
    assert any(entry["event"] == "last_port_not_written" for entry in log.entries)
