"""One workspace, two kinds of hub: each keeps out while the other has it, and Agentlip's client can start ours."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from parley.core.exits import Exit
from tests.client.hubs import HubProcess
from tests.compat.agentlip import (
    DEADLINE_SECONDS,
    HEALTH,
    Caller,
    has_shape,
    hub_of_its_own,
    open_feed,
    read_server,
    taken,
)
from tests.workspace.databases import AGENTLIP_DB_ID, make_agentlip

LAUNCHER = Path(__file__).parents[2] / "examples" / "agentlip-launcher"
NEEDS_THE_WORKSPACE = {
    "up": ["up"],
    "down": ["down"],
    "repair": ["doctor", "--repair"],
    "archive": ["archive", "--before", "2026-02-01"],
}


def lock_of(root: Path) -> Path:
    return root / ".agentlip" / "locks" / "writer.lock"


@pytest.mark.parametrize("arguments", NEEDS_THE_WORKSPACE.values(), ids=NEEDS_THE_WORKSPACE)
def test_nothing_is_touched_while_agentlip_serves_the_workspace(tmp_path: Path, arguments: list[str]) -> None:
    workspace = make_agentlip(tmp_path, fts=True)
    before = workspace.db.read_bytes()
    with hub_of_its_own(tmp_path, AGENTLIP_DB_ID):
        done = subprocess.run(
            [sys.executable, "-m", "parley", *arguments, "--workspace", str(tmp_path), "--json"],
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        assert done.returncode == Exit.ALREADY_RUNNING, done.stdout + done.stderr
        assert f"process {os.getpid()}" in done.stdout + done.stderr
        assert taken(tmp_path)
    assert workspace.db.read_bytes() == before


def test_what_a_crashed_agentlip_left_is_no_obstacle(tmp_path: Path) -> None:
    make_agentlip(tmp_path, fts=False)
    with hub_of_its_own(tmp_path, AGENTLIP_DB_ID):
        pass
    hub = HubProcess(tmp_path).start()
    try:
        assert taken(tmp_path)
    finally:
        hub.stop()


def test_agentlip_keeps_out_for_as_long_as_ours_runs(tmp_path: Path) -> None:
    make_agentlip(tmp_path, fts=False)
    hub = HubProcess(tmp_path).start()
    try:
        assert taken(tmp_path)
    finally:
        hub.stop()
    assert not lock_of(tmp_path).exists()
    assert read_server(tmp_path) is None


def test_a_start_that_fails_leaves_no_lock(tmp_path: Path) -> None:
    workspace = make_agentlip(tmp_path, fts=False)
    workspace.suspect.touch()
    done = subprocess.run(
        [sys.executable, "-m", "parley", "up", "--workspace", str(tmp_path)],
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == Exit.CORRUPT
    assert not lock_of(tmp_path).exists()


def init(root: Path) -> None:
    """What the local client does where it finds no workspace: the folder and an empty file."""
    (root / ".agentlip").mkdir(mode=0o700)
    (root / ".agentlip" / "db.sqlite3").touch(0o600)


@contextmanager
def launched(root: Path, idle_shutdown_ms: int) -> Iterator["subprocess.Popen[bytes]"]:
    """The launcher, called as the local client calls Bun."""
    bun = ["x", "--bun", "-p", "@agentlip/hub", "agentlipd"]
    up = ["up", "--workspace", str(root), "--idle-shutdown-ms", str(idle_shutdown_ms)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        [LAUNCHER, *bun, *up],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PATH": path},
    ) as child:
        try:
            yield child
        finally:
            if child.poll() is None:
                child.kill()


def await_announcement(child: "subprocess.Popen[bytes]") -> None:
    assert child.stdout is not None
    assert child.stdout.readline()


def test_the_local_client_starts_our_hub_through_the_launcher(tmp_path: Path) -> None:
    init(tmp_path)
    with launched(tmp_path, 600_000) as child:
        await_announcement(child)
        server = read_server(tmp_path)
        assert server is not None
        assert server.pid == child.pid, "by this the client knows that it was its child that started the hub"
        reply = Caller(server).call("GET", "/health")
        assert reply.status == 200
        assert has_shape(reply.body, HEALTH)
        assert reply.body["protocol_version"] == "v1"
        assert reply.body["schema_version"] >= 1
        assert not (tmp_path / ".parley").exists()
        with launched(tmp_path, 600_000) as loser:
            assert loser.wait(DEADLINE_SECONDS) == 10, "by this the client knows that another one was faster"
        child.send_signal(signal.SIGTERM)
        assert child.wait(DEADLINE_SECONDS) == 0


def test_a_hub_ends_by_itself_when_its_clients_have_gone(tmp_path: Path) -> None:
    init(tmp_path)
    with launched(tmp_path, 200) as child:
        assert child.wait(DEADLINE_SECONDS) == 0
    assert read_server(tmp_path) is None


def test_a_hub_outlives_the_client_that_started_it(tmp_path: Path) -> None:
    init(tmp_path)
    with launched(tmp_path, 600_000) as child:
        await_announcement(child)
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        child.stderr.close()
        server = read_server(tmp_path)
        assert server is not None
        Caller(server).create("/api/v1/channels", "channel", name="general")
        with open_feed(server) as feed:
            assert feed.take(1)[0]["name"] == "channel.created"
        child.send_signal(signal.SIGTERM)
        assert child.wait(DEADLINE_SECONDS) == 0
