"""Starting hubs: the flags, the reports of a detached one, and a foreign hub in the same folder."""

import os
from pathlib import Path

import pytest

from parley.app import start
from parley.app.make import find_or_make, make_workspace
from parley.app.start import UpOptions, start_detached
from parley.core.errors import AgentlipRunning, BindRefused, StartupFailed, WriterLockHeld
from parley.core.instance_lock import InstanceLock
from parley.workspace import discovery
from tests.app.agentlip import agentlip_answers
from tests.workspace.databases import make_agentlip


def test_flags_are_laid_over_the_file(tmp_path: Path) -> None:
    workspace = discovery.create(tmp_path)
    workspace.config.write_text('[hub]\nport = 4000\nhost = "::1"\n')
    settings = UpOptions(
        {"hub.port": 5000, "rate_limits.enabled": False, "hub.idle_shutdown_ms": 7, "hub.synchronous": "normal"}
    ).settings(workspace)
    assert (settings.hub.port, settings.hub.host) == (5000, "::1")
    assert (settings.hub.idle_shutdown_ms, settings.hub.synchronous) == (7, "normal")
    assert not settings.rate_limits.enabled
    other = tmp_path / "other.toml"
    other.write_text("[hub]\nport = 6000\n")
    assert UpOptions(config=other).settings(workspace).hub.port == 6000
    assert UpOptions(config=other).settings(workspace).rate_limits.enabled


def test_the_flags_of_the_serving_process_are_those_that_were_given(tmp_path: Path) -> None:
    assert UpOptions().arguments() == []
    given = {
        "hub.host": "::1",
        "hub.port": 0,
        "hub.synchronous": "normal",
        "hub.idle_shutdown_ms": 9,
        "rate_limits.enabled": False,
    }
    assert UpOptions(given, tmp_path / "c.toml", True).arguments() == [
        "--host", "::1", "--port", "0", "--synchronous", "normal", "--idle-shutdown-ms", "9", "--no-rate-limit",
        "--config", str(tmp_path / "c.toml"), "--unsafe-network",
    ]  # fmt: skip


def test_a_detached_start_raises_the_error_of_the_process_that_failed(tmp_path: Path) -> None:
    workspace = discovery.create(tmp_path)
    with pytest.raises(BindRefused) as caught:
        start_detached(workspace, UpOptions({"hub.host": "0.0.0.0"}))
    assert caught.value.details["host"] == "0.0.0.0"


def test_an_end_without_a_report_is_a_failure_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = discovery.create(tmp_path)
    monkeypatch.setattr(start.sys, "executable", "/bin/false")
    with pytest.raises(StartupFailed, match="ended with code 1"):
        start_detached(workspace, UpOptions())


def test_a_workspace_is_found_named_or_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    monkeypatch.delenv("PARLEY_WORKSPACE", raising=False)
    monkeypatch.chdir(here)
    made, is_new = find_or_make(None)
    assert (made.root, is_new) == (here, True)
    assert make_workspace(here)[1]
    assert find_or_make(None) == (made, False)
    monkeypatch.setenv("PARLEY_WORKSPACE", str(there))
    assert find_or_make(None)[0].root == there
    assert find_or_make(here)[0].root == here


def test_making_a_workspace_needs_its_lock(tmp_path: Path) -> None:
    workspace = discovery.create(tmp_path)
    with InstanceLock(workspace.lock) as lock:
        lock.acquire({"pid": os.getpid()})
        with pytest.raises(WriterLockHeld):
            make_workspace(tmp_path)
    assert not workspace.db.exists()


def test_a_detached_start_beside_agentlip_is_refused_with_the_way_out_of_that_refusal(tmp_path: Path) -> None:
    workspace = make_agentlip(tmp_path, fts=False)
    with agentlip_answers(workspace), pytest.raises(WriterLockHeld) as refused:
        start_detached(workspace, UpOptions())
    assert refused.value.hint == AgentlipRunning.hint
