"""``init``, ``up``, ``down``, ``status``: the life of a hub as the command line sees it, with real processes."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from parley.app.stop import stop_hub
from parley.workspace import discovery
from tests.cli.conftest import Parley, parley_process

UP = [sys.executable, "-m", "parley", "up", "--json", "--workspace"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in which a hub may be started; one that a test leaves running is stopped."""
    yield tmp_path
    if (tmp_path / ".parley").is_dir():
        stop_hub(discovery.at(tmp_path), 30)


def token_of(folder: Path) -> str:
    return (folder / ".parley" / "token").read_text().strip()


def read_object(stream: Any) -> Any:
    """One indented JSON object from a stream that stays open."""
    lines = []
    for line in stream:
        lines.append(line)
        if line == "}\n":
            return json.loads("".join(lines))
    raise AssertionError(f"the stream ended: {lines}")


def test_init_makes_a_workspace_once(parley: Parley, tmp_path: Path) -> None:
    made = parley("init", "--workspace", tmp_path, "--json")
    db = tmp_path / ".parley" / "db.sqlite3"
    assert made.json == {"status": "ok", "workspace_root": str(tmp_path), "db_path": str(db), "created": True}
    assert stat.S_IMODE(db.stat().st_mode) == 0o600
    assert (tmp_path / ".parley" / ".gitignore").read_text() == "*\n"
    before = db.read_bytes()
    assert parley("init", tmp_path, "--json").json["created"] is False
    assert "already" in parley("init", tmp_path).stdout
    assert db.read_bytes() == before


def test_init_without_a_folder_uses_this_one(parley: Parley, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path) in parley("init").stdout
    assert parley("channel", "list", "--json").json["channels"] == []


def test_a_current_folder_that_was_removed_is_named_as_the_reason(
    parley: Parley, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PARLEY_WORKSPACE", raising=False)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for words in (["init"], ["status"], ["channel", "list"], ["up", "--detach"]):
        result = parley(*words)
        assert result.code == 1
        assert "The current folder does not exist any more" in result.stderr
        assert "Traceback" not in result.stderr
    assert parley("init", "-w", tmp_path / "other").code == 0


def test_a_settings_file_that_was_named_must_exist(parley: Parley, folder: Path) -> None:
    refused = parley("up", "--detach", "-w", folder, "--config", folder / "nope.toml", "--json")
    assert (refused.code, json.loads(refused.stderr)["code"]) == (22, "CONFIG_INVALID")
    assert "nope.toml does not exist" in refused.stderr


def test_a_folder_that_cannot_be_used_is_refused_with_25(parley: Parley, tmp_path: Path) -> None:
    (tmp_path / ".parley").write_text("a file where the folder should be")
    result = parley("init", tmp_path, "--json")
    assert (result.code, result.json["code"]) == (25, "WORKSPACE_UNSAFE")


def test_up_detached_status_and_down(parley: Parley, folder: Path) -> None:
    up = parley_process("up", "--workspace", folder, "--detach", "--json")
    assert up.code == 0, up.stderr
    assert {"status", "host", "port", "workspace_root", "instance_id"} <= up.json.keys()
    assert (up.json["status"], up.json["workspace_root"]) == ("running", str(folder))
    assert up.stderr == ""
    assert token_of(folder) not in up.stdout + up.stderr
    log = folder / ".parley" / "logs" / "hub.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert any(json.loads(line)["msg"] == "started" for line in log.read_text().splitlines())

    status = parley("status", "-w", folder, "--json")
    assert status.code == 0
    assert status.json["status"] == "running"
    assert status.json["instance_id"] == up.json["instance_id"]
    assert (status.json["port"], status.json["pid"]) == (up.json["port"], up.json["pid"])
    assert {"db_id", "schema_version", "protocol_version", "uptime_seconds"} <= status.json.keys()
    assert {"events", "latest_event_id", "growth_per_day", "db_bytes", "wal_bytes"} <= status.json.keys()
    assert "The hub is running." in parley("status", "-w", folder).stdout
    assert token_of(folder) not in json.dumps(status.json)

    down = parley("down", "-w", folder, "--json")
    expected = {"status": "stopped", "workspace_root": str(folder), "pid": up.json["pid"], "killed": False}
    assert (down.code, down.json) == (0, expected)
    assert not (folder / ".parley" / "server.json").exists()

    again = parley("down", "-w", folder, "--json")
    assert (again.code, again.json["status"], again.json["pid"]) == (0, "already_stopped", None)
    assert "No hub is running" in parley("down", "-w", folder).stdout
    status = parley("status", "-w", folder, "--json")
    assert (status.code, status.json["status"]) == (3, "not_running")


def test_up_in_the_foreground_announces_itself_and_ends_with_0_when_told(folder: Path) -> None:
    with subprocess.Popen([*UP, folder], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        report = read_object(process.stdout)
        assert report["status"] == "running"
        assert report["pid"] == process.pid
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert not (folder / ".parley" / "server.json").exists()


def test_a_second_start_exits_with_10_and_names_the_first(parley: Parley, folder: Path) -> None:
    first = parley_process("up", "-w", folder, "--detach", "--json").json
    for extra in ([], ["--detach"]):
        second = parley_process("up", "-w", folder, "--json", *extra)
        assert second.code == 10
        assert second.stdout == ""
        report = json.loads(second.stderr)
        assert report["code"] == "WRITER_LOCK_HELD"
        assert report["workspace_root"] == str(folder)
        assert {"error", "reason"} <= report.keys()
        assert report["details"]["pid"] == first["pid"]
    spoken = parley_process("up", "-w", folder)
    assert spoken.code == 10
    assert str(first["pid"]) in spoken.stderr
    assert parley("status", "-w", folder, "--json").json["instance_id"] == first["instance_id"]


def test_up_alone_uses_the_nearest_workspace_and_says_so(folder: Path, parley: Parley) -> None:
    parley("init", folder)
    below = folder / "below"
    below.mkdir()
    up = parley_process("up", "--detach", cwd=below)
    assert up.stderr == f"Using the workspace {folder}.\n"
    assert f"The hub of {folder} is running at http://127.0.0.1:" in up.stdout


def test_up_alone_without_a_workspace_makes_one_here_and_says_so(
    folder: Path, parley: Parley, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    up = parley_process("up", "--detach", cwd=folder)
    assert (up.code, up.stderr) == (0, f"Made the workspace {folder}.\n")
    assert parley("status", "-w", folder).code == 0


def test_a_detached_hub_imports_nothing_from_the_workspace_or_the_current_folder(folder: Path) -> None:
    for name in ("parley", "json", "uvicorn", "sitecustomize"):
        (folder / f"{name}.py").write_text("raise SystemExit('code of the workspace was run')")
    argv = [sys.executable, "-P", "-m", "parley", "up", "--detach", "--json", "--workspace", str(folder)]
    up = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert up.returncode == 0, up.stderr


@pytest.mark.parametrize(
    ("flags", "toml", "code", "name"),
    [
        (["--host", "0.0.0.0"], "", 24, "BIND_REFUSED"),
        ([], "[hub]\nprot = 1\n", 22, "CONFIG_INVALID"),
        ([], "[limits]\npage_max = 0\n", 22, "CONFIG_INVALID"),
    ],
)
@pytest.mark.parametrize("detach", [[], ["--detach"]], ids=["foreground", "detached"])
def test_a_refused_start_says_why_on_stderr_and_has_its_own_code(
    flags: list[str], toml: str, code: int, name: str, detach: list[str], folder: Path
) -> None:
    (folder / "parley.toml").write_text(toml)
    up = parley_process("up", "-w", folder, "--json", *flags, *detach)
    assert (up.code, up.stdout) == (code, "")
    report = json.loads(up.stderr)
    assert (report["status"], report["code"]) == ("error", name)
    assert report["hint"]


def test_the_flags_of_up_reach_the_hub(folder: Path) -> None:
    config = folder / "other.toml"
    config.write_text("[rate_limits]\nper_connection = 1\noverall = 1\n[hub]\nopen_reads = true\n")
    flags = ["--config", config, "--no-rate-limit", "--synchronous", "normal", "--host", "::1"]
    up = parley_process("up", "-w", folder, "--detach", "--json", *flags)
    assert up.code == 0, up.stderr
    assert up.json["host"] == "::1"
    import urllib.request

    for _ in range(20):  # far above one request a second, and readable without a token
        with urllib.request.urlopen(f"http://[::1]:{up.json['port']}/api/v1/channels", timeout=60) as answer:
            assert answer.status == 200


def test_an_idle_hub_stops_by_itself(folder: Path) -> None:
    process = subprocess.Popen(
        [*UP, folder, "--idle-shutdown-ms", "200"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert process.wait(60) == 0


def test_down_kills_a_hub_that_does_not_end_in_time(parley: Parley, folder: Path) -> None:
    pid = parley_process("up", "-w", folder, "--detach", "--json").json["pid"]
    os.kill(pid, signal.SIGSTOP)
    down = parley("down", "-w", folder, "--timeout", "0.2", "--json")
    assert (down.code, down.json["status"], down.json["killed"]) == (0, "stopped", True)
    assert not (folder / ".parley" / "server.json").exists()
    assert parley_process("up", "-w", folder, "--detach", "--json").code == 0


def test_status_tells_a_silent_hub_from_none_at_all(parley: Parley, folder: Path) -> None:
    pid = parley_process("up", "-w", folder, "--detach", "--json").json["pid"]
    server_file = folder / ".parley" / "server.json"
    text = server_file.read_text()
    os.kill(pid, signal.SIGSTOP)
    silent = parley("status", "-w", folder, "--json")
    assert (silent.code, silent.json["status"], silent.json["pid"]) == (3, "unreachable", pid)
    os.kill(pid, signal.SIGCONT)
    assert parley("down", "-w", folder).code == 0
    server_file.write_text(text)
    stale = parley("status", "-w", folder, "--json")
    assert (stale.code, stale.json["status"]) == (3, "not_running")
    assert "no answer" in stale.json["error"]


def test_status_notices_the_hub_of_another_workspace(parley: Parley, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    parley("init", other)
    parley_process("up", "-w", folder, "--detach")
    (other / ".parley" / "server.json").write_bytes((folder / ".parley" / "server.json").read_bytes())
    status = parley("status", "-w", other, "--json")
    assert (status.code, status.json["status"]) == (1, "db_mismatch")
    assert "this workspace is" in status.json["error"]


def test_changes_without_a_hub_exit_with_3_and_reads_work(parley: Parley, tmp_path: Path) -> None:
    parley("init", tmp_path)
    for words in (
        ["channel", "create", "x"],
        ["topic", "rename", "t", "--title", "x"],
        ["msg", "send", "x", "--topic-id", "t", "--sender", "s"],
        ["msg", "edit", "m", "--content", "x"],
        ["msg", "delete", "m", "--actor", "s"],
        ["msg", "retopic", "m", "--to-topic-id", "t"],
        ["attachment", "add", "--topic-id", "t", "--kind", "k", "--value-json", "{}"],
        ["listen"],
    ):
        result = parley(*words, "-w", tmp_path, "--json")
        assert (result.code, result.json["code"]) == (3, "HUB_NOT_RUNNING"), words
        assert "parley up" in result.json["hint"]
    assert parley("channel", "list", "-w", tmp_path, "--json").json["count"] == 0


def test_a_folder_without_a_database_is_not_mistaken_for_the_workspace_above(parley: Parley, tmp_path: Path) -> None:
    parley("init", tmp_path)
    inner = tmp_path / "inner"
    (inner / ".parley").mkdir(parents=True, mode=0o700)
    result = parley("channel", "create", "x", "-w", inner, "--json")
    assert (result.code, result.json["code"]) == (3, "HUB_NOT_RUNNING")


def test_a_newer_database_is_refused_with_20(parley: Parley, tmp_path: Path) -> None:
    parley("init", tmp_path)
    connection = apsw.Connection(str(tmp_path / ".parley" / "db.sqlite3"))
    connection.execute("UPDATE meta SET value = '999' WHERE key = 'parley_schema'")
    connection.close()
    for words in (["channel", "list"], ["status"]):
        result = parley(*words, "-w", tmp_path, "--json")
        assert "schema version 999" in json.dumps(result.json)
    assert parley("channel", "list", "-w", tmp_path).code == 20
    assert parley_process("up", "-w", tmp_path, "--json").code == 20


def test_h12_up_says_that_a_config_of_agentlip_is_not_executed(tmp_path: Path) -> None:
    (tmp_path / "agentlip.config.ts").write_text("throw new Error()")
    try:
        told = parley_process("up", "--detach", "--workspace", tmp_path)
        assert told.code == 0, told.stderr
        assert "agentlip.config.ts is not executed" in told.stderr
        assert "agentlip.config.ts is not executed" in (tmp_path / ".parley" / "logs" / "hub.log").read_text()
    finally:
        parley_process("down", "--workspace", tmp_path)


def test_h12_a_database_without_an_id_is_given_one_and_it_is_said(parley: Parley, tmp_path: Path) -> None:
    parley("init", tmp_path)
    connection = apsw.Connection(str(tmp_path / ".parley" / "db.sqlite3"))
    connection.execute("DELETE FROM meta WHERE key = 'db_id'")
    connection.close()
    given: set[str] = set()
    for _ in range(2):
        assert parley_process("up", "--detach", "--workspace", tmp_path).code == 0
        given.add(parley("status", "--workspace", tmp_path, "--json").json["db_id"])
        parley_process("down", "--workspace", tmp_path)
    (db_id,) = given
    assert db_id
    log = (tmp_path / ".parley" / "logs" / "hub.log").read_text()
    assert log.count(f"it is {db_id} now") == 1
