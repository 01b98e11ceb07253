"""Starting hubs: the flags, the reports of a detached one, and a foreign hub in the same folder."""

import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from parley.app import start
from parley.app.make import find_or_make, make_workspace
from parley.app.start import UpOptions, serve, start_detached
from parley.core.errors import BindRefused, StartupFailed, WriterLockHeld
from parley.serve.lock import InstanceLock
from parley.wire.answers import Health
from parley.wire.server_file import ServerFile
from parley.workspace import discovery
from parley.workspace.layout import Workspace


def test_flags_are_laid_over_the_file(tmp_path: Path) -> None:
    workspace = discovery.create(tmp_path)
    workspace.config.write_text('[hub]\nport = 4000\nhost = "::1"\n')
    settings = UpOptions(port=5000, rate_limit=False, idle_shutdown_ms=7, synchronous="normal").settings(workspace)
    assert (settings.hub.port, settings.hub.host) == (5000, "::1")
    assert (settings.hub.idle_shutdown_ms, settings.hub.synchronous) == (7, "normal")
    assert not settings.rate_limits.enabled
    other = tmp_path / "other.toml"
    other.write_text("[hub]\nport = 6000\n")
    assert UpOptions(config=other).settings(workspace).hub.port == 6000
    assert UpOptions(config=other).settings(workspace).rate_limits.enabled


def test_the_flags_of_the_serving_process_are_those_that_were_given(tmp_path: Path) -> None:
    assert UpOptions().arguments() == []
    given = UpOptions("::1", 0, tmp_path / "c.toml", False, "normal", True, 9).arguments()
    assert given == [
        "--host", "::1", "--port", "0", "--synchronous", "normal", "--idle-shutdown-ms", "9",
        "--config", str(tmp_path / "c.toml"), "--no-rate-limit", "--unsafe-network",
    ]  # fmt: skip


def test_a_detached_start_raises_the_error_of_the_process_that_failed(tmp_path: Path) -> None:
    workspace = discovery.create(tmp_path)
    with pytest.raises(BindRefused) as caught:
        start_detached(workspace, UpOptions(host="0.0.0.0"))
    assert caught.value.details["host"] == "0.0.0.0"


def test_an_end_without_a_report_is_a_failure_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = discovery.create(tmp_path)
    monkeypatch.setattr(start.sys, "executable", "/bin/false")
    with pytest.raises(StartupFailed, match="ended with code 1"):
        start_detached(workspace, UpOptions())


def test_a_workspace_is_found_named_or_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    made, is_new = find_or_make(None, here)
    assert (made.root, is_new) == (here, True)
    assert make_workspace(here)[1]
    assert find_or_make(None, here) == (made, False)
    monkeypatch.setenv("PARLEY_WORKSPACE", str(there))
    assert find_or_make(None, here)[0].root == there
    assert find_or_make(here, here)[0].root == here


@pytest.fixture
def foreign_hub() -> Iterator[ServerFile]:
    """Something that answers /health as an Agentlip hub does."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(msgspec.json.encode(Health("ok", "i", "d", 1, "v1", os.getpid(), 1)))

        def log_message(self, format: str, *args: object) -> None:
            """Not on the terminal."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever).start()
        yield ServerFile("i", "d", server.server_port, "127.0.0.1", "t", os.getpid(), "")
        server.shutdown()


def test_a_workspace_that_an_agentlip_hub_serves_is_refused(tmp_path: Path, foreign_hub: ServerFile) -> None:
    (tmp_path / ".agentlip").mkdir(mode=0o700)
    workspace = Workspace(tmp_path, tmp_path / ".agentlip")
    workspace.server_file.write_bytes(msgspec.json.encode(foreign_hub))
    with pytest.raises(WriterLockHeld, match=f"process {os.getpid()}"):
        serve(workspace, UpOptions(), on_ready=lambda report: None)
    assert not workspace.db.exists()


def test_making_a_workspace_needs_its_lock(tmp_path: Path) -> None:
    workspace = discovery.create(tmp_path)
    with InstanceLock(workspace.lock) as lock:
        lock.acquire({"pid": os.getpid()})
        with pytest.raises(WriterLockHeld):
            make_workspace(tmp_path)
    assert not workspace.db.exists()
