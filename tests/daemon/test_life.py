"""The daemon as a user starts it: one at a time, refused for a reason, killed, recovered, kept by the system."""

import json
import os
import plistlib
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from parley.app.daemon.service import daemon_service
from parley.app.services import REFUSALS, launchd_agent, systemd_unit
from parley.client.daemon import DaemonClient
from parley.core.daemon_errors import DaemonNotRunning
from parley.daemon.databases import open_outbox
from parley.daemon.lifecycle import in_container
from parley.daemon.outbox.rows import by_client_id
from parley.daemon.outbox.sending import take_due
from parley.wire.daemon_home import DaemonHome
from tests.daemon.conftest import Parley
from tests.daemon.served_daemon import BOB, member
from tests.daemon.test_databases import spoil
from tests.daemon.world import DAY, commit


def test_it_starts_takes_a_message_stops_and_still_has_it(parley: Parley, home: DaemonHome) -> None:
    code, up = parley("daemon", "up")
    assert (code, up["status"], up["meshes"]) == (0, "running", ["team"])
    assert home.socket.stat().st_mode & 0o777 == 0o600
    assert home.root.stat().st_mode & 0o777 == 0o700
    code, again = parley("daemon", "up")
    assert (code, again["code"], again["details"]["pid"]) == (10, "WRITER_LOCK_HELD", up["pid"])
    assert "parley daemon down" in again["hint"]
    code, sent = parley("send", BOB, "hello", "--id", "m-1")
    assert (code, sent["client_message_id"], sent["delivery"]) == (0, "m-1", "queued")
    assert parley("daemon", "status")[1]["queue_depth"] == 1
    assert parley("daemon", "outbox", "inspect", "m-1")[1]["message"] == "hello"
    assert parley("daemon", "version")[1]["ipc_api"] == "v1"
    assert parley("daemon", "down")[1]["status"] == "stopped"
    assert parley("daemon", "down")[1]["status"] == "already_stopped"
    assert parley("daemon", "status")[0] == 3
    assert not home.socket.exists()
    connection = open_outbox(home.outbox)
    row = by_client_id(connection, "m-1")
    connection.close()
    assert row is not None
    assert row.status == "pending"


def test_an_ephemeral_daemon_leaves_nothing_behind(parley: Parley) -> None:
    argv = [sys.executable, "-P", "-m", "parley", "daemon", "up", "--ephemeral", "--ttl", "1", "--json"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            text += process.stdout.readline()
        folder = json.loads(text)["home"]
        code, status = parley("daemon", "status", PARLEY_DAEMON_HOME=folder)
        assert (code, status["pid"]) == (0, process.pid)
        process.send_signal(signal.SIGALRM)  # what the end of its hours sends
        assert process.wait(60) == 0
    assert not Path(folder).exists()
    assert parley("daemon", "up", "--ttl", "1")[0] == 1


def test_a_message_starts_the_daemon_unless_it_must_not(parley: Parley) -> None:
    code, refused = parley("send", BOB, "hello", "--no-start")
    assert (code, refused["code"]) == (3, "DAEMON_NOT_RUNNING")
    assert parley("send", BOB, "hello")[0] == 0
    assert parley("daemon", "status")[0] == 0


def test_a_daemon_that_does_not_answer_is_told_from_none(parley: Parley) -> None:
    _, up = parley("daemon", "up")
    os.kill(up["pid"], signal.SIGSTOP)
    try:
        code, status = parley("daemon", "status")
    finally:
        os.kill(up["pid"], signal.SIGCONT)
    assert (code, status["status"], status["pid"]) == (3, "not_answering", up["pid"])


def test_a_daemon_that_was_killed_starts_again_and_sends_what_was_in_flight(parley: Parley, home: DaemonHome) -> None:
    _, up = parley("daemon", "up")
    parley("send", BOB, "hello", "--id", "m-1")
    os.kill(up["pid"], signal.SIGKILL)
    while parley("daemon", "status")[0] == 0:
        pass
    connection = open_outbox(home.outbox)
    commit(connection, lambda db: take_due(db, "mesh_team", now_ms=2**53, limit=1, max_age_ms=2**53 + DAY))
    connection.close()
    assert parley("daemon", "up")[0] == 0
    assert parley("daemon", "outbox", "list", "--pending")[1]["items"][0]["client_message_id"] == "m-1"


def test_a_folder_of_another_machine_is_refused_with_27_until_it_is_accepted(parley: Parley, home: DaemonHome) -> None:
    record = {"schema_version": 2, "fingerprint": "0" * 64, "host_id": "linux:other", "stable_mac": ""}
    home.host_fingerprint.write_text(json.dumps(record))
    code, refused = parley("daemon", "up")
    assert (code, refused["code"]) == (27, "HOST_MISMATCH")
    assert "accept-host" in refused["hint"]
    assert json.loads(home.host_fingerprint.read_text()) == record
    assert parley("daemon", "accept-host")[0] == 0
    assert parley("daemon", "up")[0] == 0
    code, busy = parley("daemon", "accept-host")
    assert (code, busy["code"]) == (10, "WRITER_LOCK_HELD")


def test_a_damaged_outbox_is_refused_with_21_and_recovered(parley: Parley, home: DaemonHome) -> None:
    parley("send", BOB, "hello", "--id", "m-1")
    parley("daemon", "down")
    connection = open_outbox(home.outbox)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    spoil(home.outbox)
    code, refused = parley("daemon", "up")
    assert (code, refused["code"]) == (21, "DATABASE_CORRUPT")
    code, recovered = parley("daemon", "recover")
    assert (code, recovered["outbox"], recovered["problems"]) == (0, "damaged", [])
    assert (home.root / recovered["outbox_set_aside"]).exists()
    assert parley("daemon", "up")[0] == 0


def test_a_setting_that_does_not_exist_is_refused_with_22(parley: Parley, home: DaemonHome) -> None:
    home.config.write_text("[ipc]\nstreams = 3\n[outbox]\nrows_max = 0\n[clone]\npolicy = 'maybe'\n[x]\n")
    code, refused = parley("daemon", "up")
    assert (code, refused["code"]) == (22, "CONFIG_INVALID")
    assert len(refused["details"]["problems"]) == 4


def test_the_token_is_replaced_whether_or_not_a_daemon_runs(parley: Parley, home: DaemonHome) -> None:
    assert parley("daemon", "rotate-token")[1]["running"] is False
    first = home.token.read_text()
    parley("daemon", "up")
    assert parley("daemon", "rotate-token")[1]["running"] is True
    assert home.token.read_text() != first
    assert home.token.stat().st_mode & 0o777 == 0o600


def test_the_loopback_port_asks_for_the_token_our_name_and_no_origin(parley: Parley, home: DaemonHome) -> None:
    home.config.write_text("[ipc]\ntcp_in_container = true\n")
    _, up = parley("daemon", "up")
    assert int(home.port_file.read_text()) == up["port"]
    base = f"http://127.0.0.1:{up['port']}"
    bearer = {"authorization": f"Bearer {home.token.read_text().strip()}"}
    with httpx.Client(base_url=base, trust_env=False, timeout=60) as client:
        assert client.get("/v1/health", headers=bearer).json()["pid"] == up["pid"]
        assert client.get("/v1/health").json()["code"] == "MISSING_AUTH"
        assert (
            client.get("/v1/health", headers={"authorization": "Bearer " + "0" * 64}).json()["code"] == "INVALID_AUTH"
        )
        sent = client.post("/v1/send", json={"to": BOB, "message": "hello"}, headers=bearer)
        assert sent.status_code == 202
        for host in ("evil.example", f"evil.example:{up['port']}", f"127.0.0.1:{up['port'] % 65_535 + 1}"):
            assert client.get("/v1/health", headers={**bearer, "host": host}).json()["code"] == "HOST_FORBIDDEN"
        assert client.get("/v1/health", headers={**bearer, "host": f"localhost:{up['port']}"}).status_code == 200
        refused = client.get("/v1/health", headers={**bearer, "origin": base})
        assert (refused.status_code, refused.json()["code"]) == (403, "ORIGIN_FORBIDDEN")
        assert client.options("/v1/send", headers={"origin": "https://evil.example"}).status_code == 403
        assert client.get(f"/v1/health?token={home.token.read_text().strip()}").json()["code"] == "TOKEN_IN_QUERY"
    assert parley("daemon", "down")[1]["status"] == "stopped"
    assert not home.port_file.exists()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{base}/v1/health", trust_env=False)


def test_without_tcp_there_is_no_port(parley: Parley, home: DaemonHome) -> None:
    home.config.write_text("[ipc]\ntcp_in_container = true\n")
    _, up = parley("daemon", "up", "--no-tcp")
    assert up["port"] is None
    assert not home.port_file.exists()


def test_a_port_that_a_container_does_not_open_is_refused_and_not_passed_over(parley: Parley, home: DaemonHome) -> None:
    code, refused = parley("daemon", "up", "--port", "0", CONTAINER="1")
    assert (code, refused["code"], refused["details"]["field"]) == (1, "INVALID_INPUT", "port")
    assert "ipc.tcp_in_container" in refused["error"]
    assert parley("daemon", "up", CONTAINER="1")[0] == 0
    assert "port_left_out" in (home.logs / "daemon.log").read_text()
    _, status = parley("daemon", "status")
    assert (status["socket"], status["port"]) == (str(home.socket), None)
    while home.outbox.stat().st_size != status["outbox_bytes"]:  # a checkpoint came in between
        _, status = parley("daemon", "status")
    assert status["outbox_bytes"] > 0


def test_a_broker_that_is_away_is_told_of_with_the_reason(parley: Parley) -> None:
    parley("daemon", "up")
    code, peers = parley("mesh", "peers")
    assert (code, peers["peers"], peers["unreachable"]) == (1, [], ["team"])
    (mesh,) = parley("daemon", "status")[1]["meshes"]
    assert mesh["status"] == "reconnecting"
    assert "ConnectionRefusedError" in mesh["lost"]["reason"] or "Connect call failed" in mesh["lost"]["reason"]


def test_a_container_is_known_by_what_its_runtime_leaves(tmp_path: Path) -> None:
    assert not in_container(tmp_path, {})
    assert in_container(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert in_container(tmp_path, {"CONTAINER": "1"})
    (tmp_path / "proc" / "1").mkdir(parents=True)
    cgroup = tmp_path / "proc" / "1" / "cgroup"
    for text, known in (("0::/init.scope\n", False), ("0::/kubepods/pod1\n", True), ("1:name=/docker/ab\n", True)):
        cgroup.write_text(text)
        assert in_container(tmp_path, {}) is known
    cgroup.unlink()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".containerenv").touch()
    assert in_container(tmp_path, {})


def test_a_backup_is_sealed_and_restored_elsewhere(parley: Parley, home: DaemonHome, tmp_path: Path) -> None:
    file = tmp_path / "daemon.backup"
    before = home.memberships.read_bytes()
    assert parley("daemon", "backup", str(file))[0] == 0
    assert member("team").seed.encode() not in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert parley("daemon", "backup", str(file))[0] == 1
    assert parley("daemon", "backup", str(tmp_path / "x"), PARLEY_PASSPHRASE="short")[0] == 1
    other = {"PARLEY_DAEMON_HOME": str(tmp_path / "other")}
    assert parley("daemon", "restore", str(file), PARLEY_PASSPHRASE="wrong horse battery", **other)[0] == 1
    assert parley("daemon", "restore", str(file), **other)[0] == 0
    assert (tmp_path / "other" / "memberships.json").read_bytes() == before
    assert parley("daemon", "restore", str(file), **other)[0] == 1
    assert parley("daemon", "restore", str(file), "--force", **other)[0] == 0


def test_the_service_is_written_and_removed(parley: Parley, tmp_path: Path) -> None:
    code, installed = parley("daemon", "install-service", "--no-start")
    assert code == 0
    unit = Path(installed["path"])
    assert unit == tmp_path / "config" / "systemd" / "user" / "parley-daemon.service"
    assert sys.executable in unit.read_text()
    assert parley("daemon", "uninstall-service")[1]["removed"] is True
    assert parley("daemon", "uninstall-service")[1]["removed"] is False
    assert parley("daemon", "install-service", "--no-start", CI="true")[0] == 1
    assert parley("daemon", "install-service", "--no-start", "--allow-ci-persistent", CI="true")[0] == 0


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    home = DaemonHome(tmp_path / 'a "strange" %home $of mine')
    unit = tmp_path / "parley-daemon.service"
    unit.write_text(systemd_unit(daemon_service(home)))
    assert f"RestartPreventExitStatus={' '.join(map(str, REFUSALS))}" in unit.read_text()
    assert {10, 20, 21, 22, 27, 28, 29} <= set(REFUSALS)
    analyze = shutil.which("systemd-analyze")
    if analyze is not None:
        checked = subprocess.run(
            [analyze, "--user", "verify", str(unit)],
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (checked.returncode, checked.stderr) == (0, "")


def test_the_property_list_is_one_and_waits_between_two_starts(tmp_path: Path) -> None:
    found = plistlib.loads(launchd_agent(daemon_service(DaemonHome(tmp_path / "a <b> & c"))).encode())
    assert found["ProgramArguments"][0] == sys.executable
    assert found["KeepAlive"] == {"SuccessfulExit": False}
    assert found["ThrottleInterval"] >= 60
    assert found["EnvironmentVariables"]["PARLEY_DAEMON_HOME"].endswith("a <b> & c")


def test_a_client_without_a_daemon_says_what_to_do(home: DaemonHome) -> None:
    with DaemonClient(home) as client, pytest.raises(DaemonNotRunning):
        client.peers()
    with DaemonClient(home) as client, pytest.raises(DaemonNotRunning):
        list(client.events())
