"""Starting a hub: what it leaves on disk, whom it refuses, and what it puts right."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from parley.core.clock import ManualClock
from parley.core.errors import BindRefused, DatabaseCorrupt, StartupFailed, WriterLockHeld
from parley.core.exits import Exit
from parley.core.settings import HubSettings, Settings
from parley.hub.lifecycle import HubOptions, prepare_database, run_hub
from parley.serve import InstanceLock
from parley.sqlite import open_writer
from parley.workspace.layout import Workspace
from tests.hub.hubs import rows, workspace_in
from tests.hub.lifecycle.processes import HubProcess, created, make_topic, mode, post
from tests.workspace.databases import dump, make_agentlip, writing


class NoLog:
    """A log for starts that never come far enough to say anything."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def start_here(workspace: Workspace, **hub: object) -> Exit:
    """A start in this process; only for those that must fail before they serve."""
    return run_hub(workspace, Settings(hub=HubSettings(**hub)), NoLog(), HubOptions(), ManualClock())  # type: ignore


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
    }
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
            start_here(workspace)
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


def test_part_x_hub_port_already_in_use_another_is_taken_and_written_to_server_json(hub: HubProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        asked = taken.getsockname()[1]
        hub.start("--port", str(asked))
    assert hub.server["port"] != asked
    with hub.client() as client:
        assert client.get("/health").status_code == 200
    assert any(line["msg"] == "port_taken" and line["asked"] == asked for line in hub.log)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1"])
def test_gate_j_localhost_bind_check_refuses_an_address_that_others_can_reach(tmp_path: Path, host: str) -> None:
    workspace = workspace_in(tmp_path)
    with pytest.raises(BindRefused) as refused:
        start_here(workspace, host=host)
    assert refused.value.exit_code == Exit.BIND_REFUSED == 24
    assert not workspace.db.exists()
    assert not workspace.lock.exists(), "nothing was touched"


def test_gate_j_an_open_address_is_served_only_when_a_person_accepts_the_risk(hub: HubProcess) -> None:
    code, said = hub.refused("--host", "0.0.0.0")
    assert (code, said["code"]) == (24, "BIND_REFUSED")
    hub.start("--host", "0.0.0.0", "--unsafe-network")
    assert hub.server["host"] == "0.0.0.0"
    with hub.client() as client:
        assert client.get("/health").status_code == 200


def test_defect_19_part_x_downgrade_attempt_a_newer_schema_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    prepare_database(workspace, Settings(), ManualClock())
    with writing(workspace) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'parley_schema'")
    before = workspace.db.read_bytes()
    code, said = HubProcess(tmp_path).refused()
    assert code == Exit.SCHEMA_TOO_NEW == 20
    assert said["code"] == "SCHEMA_TOO_NEW"
    assert "99" in said["error"]
    assert workspace.db.read_bytes() == before


def test_part_x_migration_with_constraint_violation_is_rolled_back_and_its_backup_kept(tmp_path: Path) -> None:
    workspace = make_agentlip(tmp_path, fts=False)
    with writing(workspace) as connection:
        connection.execute("PRAGMA foreign_keys=OFF").fetchall()
        connection.execute("UPDATE messages SET topic_id = 'topic_gone' WHERE rowid = 1")
        before = dump(connection, "SELECT * FROM messages ORDER BY id")
        schema = dump(connection, "SELECT sql FROM sqlite_schema ORDER BY name")
    code, said = HubProcess(tmp_path).refused()
    assert code == Exit.MIGRATION_FAILED == 23
    assert said["code"] == "MIGRATION_FAILED"
    (backup,) = workspace.backups.iterdir()
    assert str(backup) in said["error"]
    for path in (workspace.db, backup):
        reader = open_writer(path)
        assert dump(reader, "SELECT * FROM messages ORDER BY id") == before
        assert dump(reader, "SELECT sql FROM sqlite_schema ORDER BY name") == schema
        reader.close()
    assert not workspace.server_file.exists()


def test_a_state_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    shutil.rmtree(workspace.lock.parent, ignore_errors=True)
    workspace.lock.parent.write_text("a file where the folder should be")
    with pytest.raises(StartupFailed, match=r"Cannot open the lock .*hub\.lock"):
        start_here(workspace)


def test_part_x_permission_error_a_server_json_that_cannot_be_written_is_a_clear_error(hub: HubProcess) -> None:
    workspace = workspace_in(hub.root)
    workspace.server_file.mkdir()
    code, said = hub.refused()
    assert code == Exit.ERROR
    assert said["code"] == "STARTUP_FAILED"
    assert "Cannot write" in said["error"]
    assert str(workspace.server_file) in said["error"]


def test_a_token_file_of_no_use_is_a_clear_error_that_does_not_show_it(hub: HubProcess) -> None:
    workspace = workspace_in(hub.root)
    workspace.token.write_text("short and guessable\n")
    code, said = hub.refused()
    assert (code, said["code"]) == (Exit.ERROR, "STARTUP_FAILED")
    assert "guessable" not in str(said)
    assert workspace.token.read_text() == "short and guessable\n"


def test_part_x_database_corruption_a_damaged_file_and_one_that_is_no_database_refuse_the_start(
    tmp_path: Path,
) -> None:
    workspace = workspace_in(tmp_path)
    workspace.db.write_bytes(b"this is not a database at all" * 1_000)
    with pytest.raises(DatabaseCorrupt) as damaged:
        start_here(workspace)
    assert damaged.value.exit_code == Exit.CORRUPT == 21


def test_exits_that_a_service_must_not_restart_on_are_20_to_29() -> None:
    refusals = {Exit.SCHEMA_TOO_NEW, Exit.CORRUPT, Exit.CONFIG_INVALID, Exit.MIGRATION_FAILED, Exit.BIND_REFUSED}
    assert all(20 <= code <= 29 for code in refusals)


def test_a_config_with_an_unknown_key_refuses_the_start_and_names_it(
    make_process: Callable[..., HubProcess],
) -> None:
    code, said = make_process("[hub]\nprot = 1\n").refused()
    assert (code, said["code"]) == (Exit.CONFIG_INVALID, "CONFIG_INVALID")
    assert "prot" in said["error"]
