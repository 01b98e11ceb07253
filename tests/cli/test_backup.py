"""``doctor``, ``token``, ``archive``, ``backup``, ``export`` and ``bench``."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from parley.app.start import UpOptions, start_detached
from parley.app.stop import stop_hub
from parley.cli.commands.archive import moment_ms
from parley.client import Client
from parley.core.clock import ManualClock, parse_iso
from parley.wire.server_file import ServerFile
from parley.workspace import discovery
from parley.workspace.layout import Workspace
from tests.cli.conftest import Parley


@pytest.fixture
def workspace(parley: Parley, tmp_path: Path) -> Iterator[Workspace]:
    """A workspace with a database; a hub that a test starts is stopped."""
    parley("init", tmp_path)
    workspace = discovery.at(tmp_path)
    yield workspace
    stop_hub(workspace, 30)


def fill(workspace: Workspace, messages: int = 3) -> None:
    """Serves the workspace for as long as it takes to say something."""
    start_detached(workspace, UpOptions())
    with Client(workspace.root, sender="ann") as client:
        topic = client.create_topic(client.create_channel("general").channel.id, "Talk").topic
        for number in range(messages):
            client.send_message(topic.id, f"message {number}")
    stop_hub(workspace, 30)


def by_name(report: Any) -> dict[str, Any]:
    return {check["name"]: check for check in report["checks"]}


def damage(workspace: Workspace) -> None:
    """Overwrites the middle of the database, as a failing disk would."""
    with apsw.Connection(str(workspace.db)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    size = workspace.db.stat().st_size
    with workspace.db.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(size - 2 * 4096))


def test_doctor_finds_a_sound_workspace_in_order(parley: Parley, workspace: Workspace) -> None:
    fill(workspace)
    result = parley("doctor", "-w", workspace.root, "--json")
    assert (result.code, result.json["status"]) == (0, "ok")
    assert {"workspace_root", "db_path", "db_id", "schema_version", "query_only"} <= result.json.keys()
    assert (result.json["warnings"], result.json["errors"], result.json["repairs"]) == (0, 0, [])
    checks = by_name(result.json)
    named_by_the_plan = {
        "integrity", "wal", "disk", "schema", "foreign_keys", "events", "last_event", "server", "lock", "leftovers",
        "config", "rate_limits", "modes", "checkpoint",
    }  # fmt: skip
    assert named_by_the_plan <= checks.keys()
    assert all(check.keys() == {"name", "status", "message", "fix"} for check in checks.values())


def test_doctor_for_a_person(parley: Parley, workspace: Workspace) -> None:
    workspace.config.write_text("[rate_limits]\nenabled = false\n")
    lines = parley("doctor", "-w", workspace.root).stdout.splitlines()
    assert lines[0].startswith("Parley Doctor ")
    assert f"Workspace: {workspace.root}" in lines
    assert "[✓] integrity: The file is sound" in lines
    assert "[⚠] rate limits: Rate limits are off" in lines
    assert lines[-1] == "Summary: 1 warning, 0 errors"


def test_doctor_examines_a_running_hub(parley: Parley, workspace: Workspace) -> None:
    report = start_detached(workspace, UpOptions())
    checks = by_name(parley("doctor", "-w", workspace.root, "--json").json)
    assert checks["server"]["status"] == checks["server_file"]["status"] == "ok"
    assert report["instance_id"] in checks["server"]["message"]
    assert str(report["pid"]) in checks["lock"]["message"]


def test_doctor_tells_that_a_reader_keeps_the_log_from_being_merged(parley: Parley, workspace: Workspace) -> None:
    start_detached(workspace, UpOptions())
    reader = apsw.Connection(str(workspace.db), flags=apsw.SQLITE_OPEN_READONLY)
    with Client(workspace.root) as client:
        client.create_channel("one")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchall()
        client.create_channel("two")
    checks = by_name(parley("doctor", "-w", workspace.root, "--json").json)
    assert checks["checkpoint"]["status"] == "warn"
    reader.close()
    checks = by_name(parley("doctor", "-w", workspace.root, "--json").json)
    assert checks["checkpoint"]["status"] == "ok"


def test_doctor_names_a_bad_setting(parley: Parley, workspace: Workspace) -> None:
    workspace.config.write_text("[hub]\nprot = 1\n")
    result = parley("doctor", "-w", workspace.root, "--json")
    assert result.code == 1
    assert "hub.prot" in by_name(result.json)["config"]["message"]


def test_doctor_tells_that_the_foreign_config_has_no_effect(parley: Parley, workspace: Workspace) -> None:
    (workspace.root / "agentlip.config.ts").write_text("export default {}")
    result = parley("doctor", "-w", workspace.root, "--json")
    assert (result.code, by_name(result.json)["foreign_config"]["status"]) == (0, "warn")


def test_repair_fixes_modes_and_removes_what_a_crash_left(parley: Parley, workspace: Workspace) -> None:
    fill(workspace)
    workspace.token.chmod(0o644)
    workspace.db.chmod(0o640)
    leftover = workspace.state / ".server.json.0011223344556677.tmp"
    leftover.write_text("half")
    foreign_lock = workspace.lock.with_name("writer.lock")
    foreign_lock.write_text("")
    workspace.server_file.write_bytes(msgspec.json.encode(ServerFile("i", "d", 1, "127.0.0.1", "t", 1, "")))
    workspace.server_file.chmod(0o600)

    before = parley("doctor", "-w", workspace.root, "--json")
    assert before.code == 1
    checks = by_name(before.json)
    assert checks["modes"]["status"] == "error"
    assert checks["server_file"]["status"] == "error"
    assert leftover.name in checks["leftovers"]["message"]
    assert "writer.lock" in checks["leftovers"]["message"]

    after = parley("doctor", "-w", workspace.root, "--repair", "--json")
    assert (after.code, after.json["errors"], after.json["warnings"]) == (0, 0, 0)
    assert not leftover.exists()
    assert not foreign_lock.exists()
    assert not workspace.server_file.exists()
    assert stat.S_IMODE(workspace.token.stat().st_mode) == stat.S_IMODE(workspace.db.stat().st_mode) == 0o600
    assert "Built the indexes anew" in after.json["repairs"]


def test_repair_keeps_everything_that_was_said(parley: Parley, workspace: Workspace) -> None:
    fill(workspace)
    before = parley("export", "-w", workspace.root).stdout.splitlines()[1:]
    assert parley("doctor", "--repair", "-w", workspace.root).code == 0
    assert parley("export", "-w", workspace.root).stdout.splitlines()[1:] == before
    assert parley("search", "message", "-w", workspace.root, "--json").json["count"] == 3


def test_repair_beside_a_running_hub_fixes_modes_only(parley: Parley, workspace: Workspace) -> None:
    start_detached(workspace, UpOptions())
    workspace.token.chmod(0o644)
    result = parley("doctor", "--repair", "-w", workspace.root, "--json")
    assert result.code == 1
    assert result.json["repairs"] == ["token has mode 0600 now"]
    assert "parley down" in by_name(result.json)["repair"]["fix"]
    assert stat.S_IMODE(workspace.token.stat().st_mode) == 0o600
    assert parley("status", "-w", workspace.root).code == 0


def test_checkpoint_merges_the_log_beside_a_running_hub(parley: Parley, workspace: Workspace) -> None:
    start_detached(workspace, UpOptions())
    with Client(workspace.root) as client:
        client.create_channel("general")
    assert workspace.wal.stat().st_size > 0
    result = parley("doctor", "--checkpoint", "-w", workspace.root, "--json")
    assert result.code == 0
    assert result.json["repairs"] == ["The write-ahead log is merged and empty"]
    assert workspace.wal.stat().st_size == 0


def test_a_damaged_database_is_found_and_the_sound_backup_named(parley: Parley, workspace: Workspace) -> None:
    fill(workspace, 200)
    backup = parley("backup", "-w", workspace.root, "--json").json["backup"]
    damage(workspace)
    workspace.suspect.write_text("found by a hub")
    assert parley("doctor", "-w", workspace.root, "--json").code == 21
    result = parley("doctor", "--repair", "-w", workspace.root, "--json")
    assert result.code == 21
    assert workspace.suspect.exists()
    assert f"cp {backup} {workspace.db}" in result.json["repairs"][-1]
    kept = [path for path in workspace.backups.iterdir() if "before-repair" in path.name]
    assert kept


def test_the_mark_of_a_suspect_database_goes_when_it_is_sound(parley: Parley, workspace: Workspace) -> None:
    fill(workspace)
    workspace.suspect.write_text("a false alarm")
    assert parley("doctor", "-w", workspace.root).code == 21
    result = parley("doctor", "--repair", "-w", workspace.root, "--json")
    assert result.code == 0
    assert not workspace.suspect.exists()


def test_a_broken_index_is_rebuilt(parley: Parley, workspace: Workspace) -> None:
    fill(workspace)
    with apsw.Connection(str(workspace.db)) as connection:
        connection.execute("DELETE FROM messages_fts_data WHERE id > 10")
    connection.close()
    assert parley("doctor", "-w", workspace.root).code == 21
    assert parley("doctor", "--repair", "-w", workspace.root).code == 0
    assert parley("search", "message", "-w", workspace.root, "--json").json["count"] == 3


@pytest.mark.parametrize("running", [True, False], ids=["hub running", "no hub"])
def test_token_rotate_replaces_the_token_and_prints_none(parley: Parley, workspace: Workspace, running: bool) -> None:
    fill(workspace)
    if running:
        start_detached(workspace, UpOptions())
    before = workspace.token.read_text()
    result = parley("token", "rotate", "-w", workspace.root, "--json")
    after = workspace.token.read_text()
    assert before != after
    assert result.json == {
        "status": "ok", "rotated": True, "hub_running": running, "grace_seconds": 300.0 if running else 0.0
    }  # fmt: skip
    assert after.strip() not in result.stdout
    if running:
        assert json.loads(workspace.server_file.read_text())["auth_token"] == after.strip()
        assert parley("channel", "create", "x", "-w", workspace.root).code == 0


def test_archive_moves_what_is_old_and_says_where(parley: Parley, workspace: Workspace) -> None:
    fill(workspace)
    nothing = parley("archive", "--before", "2000-01-01", "-w", workspace.root, "--json")
    assert (nothing.json["archive"], nothing.json["events"]) == (None, 0)
    result = parley("archive", "--before", "2100-01-01T00:00:00Z", "-w", workspace.root, "--json")
    assert result.json.keys() == {"status", "archive", "sha256", "up_to_event_id", "events", "messages"}
    assert (result.json["up_to_event_id"], result.json["events"], result.json["messages"]) == (5, 5, 3)
    assert Path(result.json["archive"]).is_file()
    assert by_name(parley("doctor", "-w", workspace.root, "--json").json)["events"]["status"] == "ok"


def test_archive_takes_an_age_in_the_place_of_a_time(parley: Parley, workspace: Workspace) -> None:
    fill(workspace)
    assert parley("archive", "--before", "1d", "-w", workspace.root, "--json").json["events"] == 0
    assert parley("archive", "--before", "0s", "-w", workspace.root, "--json").json["events"] > 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("2m", 120), ("12h", 43_200), ("30d", 2_592_000), ("1w", 604_800), ("2025-12-31", 86_400)],
)
def test_a_time_and_an_age_name_the_same_moments(text: str, seconds: int) -> None:
    clock = ManualClock(parse_iso("2026-01-01"))
    assert clock.now_ms() - moment_ms(text, clock) == seconds * 1000


@pytest.mark.parametrize("before", ["soon", "3", "3y", "-1d", "99999999999999d"])
def test_archive_refuses_what_is_neither_a_time_nor_an_age(before: str, parley: Parley, workspace: Workspace) -> None:
    result = parley("archive", f"--before={before}", "-w", workspace.root, "--json")
    assert (result.code, result.json["code"]) == (1, "INVALID_INPUT")


def test_a_local_failure_has_a_hint_about_files_and_not_about_a_server(parley: Parley, workspace: Workspace) -> None:
    nowhere = parley("backup", workspace.root / "missing" / "copy", "-w", workspace.root, "--json")
    workspace.db.write_bytes(b"")
    unprepared = parley("channel", "list", "-w", workspace.root, "--json")
    finding = by_name(parley("doctor", "-w", workspace.root, "--json").json)["database"]
    assert {nowhere.json["code"], unprepared.json["code"]} == {"SERVICE_UNAVAILABLE"}
    for hint in (nowhere.json["hint"], unprepared.json["hint"], finding["fix"]):
        assert hint
        assert "Retry-After" not in hint
    assert "parley up" in finding["fix"]


def test_a_file_that_the_system_refuses_is_named_and_is_no_fault_of_ours(parley: Parley, workspace: Workspace) -> None:
    workspace.backups.write_text("in the way")
    result = parley("backup", "-w", workspace.root, "--json")
    assert (result.code, result.stderr) == (1, "")
    assert (result.json["code"], result.json["details"]["reason"]) == ("SERVICE_UNAVAILABLE", "io_error")
    assert str(workspace.backups) in result.json["error"]


def test_a_log_that_cannot_be_opened_prevents_a_detached_start_with_a_reason(
    parley: Parley, workspace: Workspace
) -> None:
    (workspace.logs / "hub.log").mkdir(parents=True)
    result = parley("up", "--detach", "-w", workspace.root)
    assert result.code == 25
    assert result.stderr.startswith(f"Error: {workspace.logs / 'hub.log'} cannot be used")


def test_a_token_file_of_no_use_is_found_and_set_aside(parley: Parley, workspace: Workspace) -> None:
    workspace.token.write_text("x")
    workspace.token.chmod(0o600)
    found = parley("doctor", "-w", workspace.root, "--json")
    assert (found.code, by_name(found.json)["token"]["status"]) == (1, "error")
    assert "--repair" in by_name(found.json)["token"]["fix"]
    assert workspace.token.read_text() == "x"

    repaired = parley("doctor", "--repair", "-w", workspace.root, "--json")
    assert (repaired.code, by_name(repaired.json)["token"]["status"]) == (0, "ok")
    (kept,) = workspace.state.glob("token.unusable-*")
    assert kept.read_text() == "x"
    assert any(kept.name in line for line in repaired.json["repairs"])
    start_detached(workspace, UpOptions())
    assert by_name(parley("doctor", "-w", workspace.root, "--json").json)["token"]["status"] == "ok"


def test_archive_needs_a_stopped_hub(parley: Parley, workspace: Workspace) -> None:
    start_detached(workspace, UpOptions())
    result = parley("archive", "--before", "2100-01-01", "-w", workspace.root, "--json")
    assert (result.code, result.json["code"]) == (1, "HUB_RUNNING")


def test_backup_copies_a_database_in_use(parley: Parley, workspace: Workspace, tmp_path: Path) -> None:
    fill(workspace)
    start_detached(workspace, UpOptions())
    result = parley("backup", "-w", workspace.root, "--json")
    copy = Path(result.json["backup"])
    assert copy.parent == workspace.backups
    assert result.json["bytes"] == copy.stat().st_size
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    named = tmp_path / "named.sqlite3"
    assert parley("backup", named, "-w", workspace.root).stdout == f"{named}\n"
    for path in (copy, named):
        connection = apsw.Connection(str(path))
        assert connection.execute("SELECT count(*) FROM messages").fetchall() == [(3,)]
        connection.close()
    again = parley("backup", named, "-w", workspace.root, "--json")
    assert again.code == 1
    assert again.json["details"]["reason"] == "exists"


def test_export_writes_lines_to_stdout_or_a_new_file(parley: Parley, workspace: Workspace, tmp_path: Path) -> None:
    fill(workspace)
    lines = [json.loads(line) for line in parley("export", "-w", workspace.root).stdout.splitlines()]
    assert lines[0]["type"] == "export"
    assert [line["type"] for line in lines[1:]].count("event") == 5
    events = parley("export", "--kind", "event", "--since", "3", "-w", workspace.root).stdout.splitlines()
    assert [json.loads(line)["event_id"] for line in events[1:]] == [4, 5]
    target = tmp_path / "out.jsonl"
    result = parley("export", target, "-w", workspace.root, "--json")
    assert result.json["counts"]["message"] == 3
    assert len(target.read_text().splitlines()) == len(lines)
    assert parley("export", target, "-w", workspace.root, "--json").json["code"] == "INVALID_INPUT"
    assert parley("export", "--kind", "nonsense", "-w", workspace.root, "--json").json["code"] == "INVALID_INPUT"


def test_bench_measures_a_hub_of_its_own(parley: Parley, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    result = parley("bench", "--messages", "40")
    assert result.code == 0
    assert result.json["messages"] == 40
    results = result.json["results"]
    assert results["populate"]["count"] == 40
    assert results["replay"]["events"] > 40
    assert results["retopic"]["moved"] > 40
    for name in ("insert", "edit", "tail"):
        assert 0 < results[name]["p50_ms"] <= results[name]["p99_ms"] <= results[name]["max_ms"]
    assert all("within_budget" in results[name] for name in ("insert", "edit", "tail", "replay", "retopic"))
    assert list(tmp_path.iterdir()) == []
