"""Trouble that only a whole process can have: no descriptors, no folder, a dead writer, a log that fills its file."""

import asyncio
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from parley.core.exits import Exit
from parley.core.instance_lock import probe
from parley.core.settings import TroubleSettings
from parley.wire.server_file import ServerFile
from tests.hub.lifecycle.here import hub_of, run_here
from tests.hub.lifecycle.processes import DEADLINE_SECONDS, HubProcess, created, make_topic, post, until


@pytest.fixture
def hub(tmp_path: Path) -> Any:
    process = HubProcess(tmp_path / "work").start()
    yield process
    process.kill()


def test_part_x_file_descriptor_exhaustion_the_hub_survives_and_serves_again_when_there_are_some(
    hub: HubProcess,
) -> None:
    with hub.client() as client, ExitStack() as stack:
        topic = make_topic(client)
        open_now = len(list(Path(f"/proc/{hub.pid}/fd").iterdir()))
        before = resource.prlimit(hub.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(hub.pid, resource.RLIMIT_NOFILE, (open_now + 3, before[1]))
        for _ in range(30):
            stack.enter_context(socket.create_connection(("127.0.0.1", hub.server["port"])))
        until(lambda: len(list(Path(f"/proc/{hub.pid}/fd").iterdir())) >= open_now + 3)
        created(post(client, topic, "on a connection that is open"))
        assert client.get("/health").status_code == 200
        stack.close()
        resource.prlimit(hub.pid, resource.RLIMIT_NOFILE, before)
        with hub.client() as another:
            created(post(another, topic, "on a new connection"))
    assert hub.stop() == Exit.OK


def test_a_start_in_trouble_serves_reads_and_says_what_the_trouble_is(tmp_path: Path) -> None:
    answers: list[httpx.Response] = []

    def ask(server: ServerFile) -> None:
        def call() -> None:
            headers = {"Authorization": f"Bearer {server.auth_token}"}
            with httpx.Client(base_url=server.base_url, headers=headers, timeout=DEADLINE_SECONDS) as client:
                answers.append(client.get("/api/v1/channels"))
                answers.append(client.post("/api/v1/channels", json={"name": "general"}))
                answers.append(client.get("/health"))
            os.kill(os.getpid(), signal.SIGTERM)

        asyncio.get_running_loop().run_in_executor(None, call)

    code, _ = run_here(tmp_path, ask, trouble=TroubleSettings(disk_free_bytes_min=1 << 60))
    assert code == Exit.OK
    read, write, health = answers
    assert read.status_code == 200
    assert (write.status_code, write.json()["details"]["reason"]) == (503, "disk_low")
    assert health.json()["status"] == "degraded"


def test_a_state_folder_that_is_removed_under_a_running_hub_ends_it_with_an_error_that_is_told(tmp_path: Path) -> None:
    code, log = run_here(tmp_path, lambda _: shutil.rmtree(tmp_path / ".parley"))
    assert code == Exit.WORKSPACE_UNSAFE
    (told,) = [entry for entry in log.entries if entry["event"] == "files_lost"]
    assert "was removed" in told["problem"]


def test_a_writer_that_dies_ends_the_process_with_an_error_so_that_a_service_starts_it_again(tmp_path: Path) -> None:
    def dies(_: Any) -> None:
        raise SystemExit("the thread ends")

    def kill_the_writer(_: ServerFile) -> None:
        hub = hub_of(tmp_path)
        # Later, when the start is over: the writer is needed for it.
        asyncio.get_running_loop().call_later(0.2, lambda: hub.store.writer.run(dies).add_done_callback(seen))

    def seen(done: asyncio.Future[None]) -> None:
        assert done.exception() is not None

    code, log = run_here(tmp_path, kill_the_writer)
    assert code == Exit.ERROR
    assert [entry["reason"] for entry in log.entries if entry["event"] == "stopped"] == ["writer_died"]


def test_the_log_of_a_detached_hub_is_rotated_by_size(tmp_path: Path) -> None:
    (tmp_path / "parley.toml").write_text('[log]\nrequests = "all"\nrotate_bytes = 4096\nkeep = 2\n')
    command = [sys.executable, "-m", "parley", "up", "--detach", "--json", "--workspace", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    hub = HubProcess.__new__(HubProcess)
    hub.root = tmp_path
    pid = hub.server["pid"]
    try:
        with hub.client() as client:
            for _ in range(80):
                client.get("/api/v1/channels")
    finally:
        os.kill(pid, signal.SIGTERM)
        until(lambda: probe(hub.workspace.lock) is None)  # what it logs last may rotate its log once more
    logs = {path.name: path for path in hub.workspace.logs.iterdir()}
    assert set(logs) == {"hub.log", "hub.log.1", "hub.log.2"}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in logs.values())
    assert all(path.stat().st_size <= 4096 for path in logs.values())
