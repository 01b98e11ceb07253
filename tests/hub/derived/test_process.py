"""Plugins of a hub that a user starts by its command: trusted from beside it, refused, and gone with it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from parley.workspace.config import load_settings
from parley.workspace.plugins import measure
from parley.workspace.trust import TrustStore, parley_home
from tests.hub.derived.modules import WORDS
from tests.hub.derived.world import all_processes, jails, needs_sandbox
from tests.hub.hubs import rows, workspace_in
from tests.hub.lifecycle.processes import DEADLINE_SECONDS, HubProcess, created, make_topic, post, until

pytestmark = needs_sandbox
CONFIG = """
[plugin_defaults]
deadline_seconds = 600
[[plugins]]
name = "words"
type = "linkifier"
module = "words.py"
"""
HANGS = "import time\n\ndef enrich(message, config):\n    time.sleep(10_000)\n"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubProcess]:
    monkeypatch.setenv("PARLEY_HOME", str(tmp_path / "home"))
    process = HubProcess(tmp_path / "w", CONFIG)
    (process.root / "words.py").write_text(WORDS)
    yield process
    process.kill()


def parley(root: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "parley", "--workspace", str(root), *arguments]
    ended = subprocess.run(command, capture_output=True, timeout=DEADLINE_SECONDS, check=False, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def health(client: httpx.Client) -> dict[str, Any]:
    return client.get("/api/v1/plugins").json()["plugins"][0]


def test_parley_trust_beside_a_running_hub_starts_its_plugins_on_what_waited(hub: HubProcess) -> None:
    hub.start()
    with hub.client() as client:
        message = created(post(client, make_topic(client), "hello there"))["message"]["id"]
        assert (health(client)["state"], health(client)["waiting"]) == ("untrusted", 1)
        parley(hub.root, "trust", "--yes")
        until(lambda: health(client)["waiting"] == 0)
        found = client.get("/api/v1/enrichments", params={"message_id": message}).json()["enrichments"]
        assert [each["data"]["word"] for each in found] == ["hello", "there"]
        assert health(client)["state"] == "ready"
    jailed = jails(hub.pid)
    assert jailed
    assert hub.stop() == 0
    assert not jailed & all_processes().keys()


def test_a_required_plugin_that_is_broken_refuses_the_start_with_26(hub: HubProcess) -> None:
    (hub.root / "parley.toml").write_text(CONFIG + "required = true\n")
    (hub.root / "words.py").unlink()
    code, error = hub.refused()
    assert (code, error["code"]) == (26, "PLUGIN_UNAVAILABLE")
    assert "words.py does not exist" in error["error"]


def test_part_x_a_hub_that_is_stopped_or_killed_while_a_plugin_hangs_takes_it_along_and_keeps_the_job(
    hub: HubProcess,
) -> None:
    (hub.root / "words.py").write_text(HANGS)
    workspace, settings = workspace_in(hub.root), load_settings(hub.root / "parley.toml")
    TrustStore(parley_home()).trust(workspace.root, measure(workspace, settings), "2026-01-01T00:00:00.000Z")
    hub.start()
    with hub.client() as client:
        message = created(post(client, make_topic(client), "hello"))["message"]["id"]
    for number, end in enumerate((hub.stop, hub.kill)):
        if number:
            hub.start()
        until(lambda: len(jails(hub.pid)) >= 2)
        jailed = jails(hub.pid)
        end()
        until(lambda jailed=jailed: not jailed & all_processes().keys())
        left = rows(workspace, "SELECT message_id, plugin_name, state, attempts FROM jobs")
        assert left == [(message, "words", "waiting", 0)]
