"""Real hub processes, started as a user starts them, and how they end."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from parley.workspace import discovery
from parley.workspace.layout import Workspace

DEADLINE_SECONDS = 60.0


class HubProcess:
    """The hub of one workspace in a process of its own. ``config`` is the text of ``parley.toml``."""

    def __init__(self, root: Path, config: str = "") -> None:
        self.root = root
        self._errors = root / "hub.stderr"
        self._process: subprocess.Popen[bytes] | None = None
        root.mkdir(parents=True, exist_ok=True)
        (root / "parley.toml").write_text(config)

    def start(self, *flags: str) -> "HubProcess":
        """Returns when the hub answers."""
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(self._argv(flags), stdout=subprocess.PIPE, stderr=errors)
        assert self._process.stdout is not None
        said = b""
        for line in self._process.stdout:
            said += line
            if _is_whole(said):
                return self
        raise AssertionError(f"the hub did not start: {self._errors.read_text()}")

    def refused(self, *flags: str) -> tuple[int, dict[str, Any]]:
        """A start that must fail: its exit code, and what it says about it."""
        ended = subprocess.run(self._argv(flags), capture_output=True, timeout=DEADLINE_SECONDS, check=False)
        lines = [line for line in ended.stderr.splitlines() if line.startswith(b"{") and b'"code"' in line]
        assert lines, ended.stderr.decode()
        return ended.returncode, json.loads(lines[-1])

    def stop(self) -> int:
        """Asks for a clean stop; its exit code."""
        self.terminate()
        return self.ended()

    def terminate(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """The end of a process that had no chance to say anything."""
        if self._process is not None:
            self._process.kill()
            self.ended()

    def ended(self) -> int:
        """Waits for the end; the exit code."""
        process, self._process = self._process, None
        assert process is not None
        code = process.wait(DEADLINE_SECONDS)
        assert process.stdout is not None
        process.stdout.close()
        return code

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def workspace(self) -> Workspace:
        return discovery.at(self.root)

    @property
    def server(self) -> dict[str, Any]:
        return json.loads(self.workspace.server_file.read_text())

    @property
    def log(self) -> list[dict[str, Any]]:
        """The lines that the hub has logged so far."""
        lines = self._errors.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith('{"ts"')]

    def client(self) -> httpx.Client:
        """A caller with the token."""
        server = self.server
        return httpx.Client(
            base_url=f"http://127.0.0.1:{server['port']}",
            headers={"Authorization": f"Bearer {server['auth_token']}"},
            timeout=DEADLINE_SECONDS,
        )

    def _argv(self, flags: tuple[str, ...]) -> list[str]:
        command = [sys.executable, "-m", "parley", "up", "--json", "--no-rate-limit", "--workspace", str(self.root)]
        return [*command, *flags]


def _is_whole(text: bytes) -> bool:
    try:
        return json.loads(text)["status"] == "running"
    except json.JSONDecodeError:
        return False


def make_topic(client: httpx.Client) -> str:
    channel = created(client.post("/api/v1/channels", json={"name": "general"}))["channel"]["id"]
    return created(client.post("/api/v1/topics", json={"channel_id": channel, "title": "t"}))["topic"]["id"]


def post(client: httpx.Client, topic_id: str, content: str = "hello", **headers: str) -> httpx.Response:
    body = {"topic_id": topic_id, "sender": "ann", "content_raw": content}
    return client.post("/api/v1/messages", json=body, headers=headers)


def created(answer: httpx.Response) -> Any:
    assert answer.status_code == 201, answer.text
    return answer.json()


def until(condition: Callable[[], bool]) -> None:
    """Waits for what another process will bring about."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777
