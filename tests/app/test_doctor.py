"""What the doctor makes of a lock, a ``server.json`` and a silence that do not fit together."""

import os
from pathlib import Path

import msgspec
import pytest

from parley.app.doctor import check_serving, exit_code
from parley.app.make import make_workspace
from parley.core.exits import Exit
from parley.core.instance_lock import InstanceLock
from parley.wire.server_file import ServerFile
from parley.workspace.checks import Check
from parley.workspace.layout import Workspace
from parley.workspace.reading import open_reading
from tests.app.agentlip import agentlip_answers
from tests.workspace.databases import make_agentlip


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)[0]


def announce(workspace: Workspace, *, mode: int = 0o600, pid: int | None = None) -> None:
    """A ``server.json`` about this database, at a port where nobody listens."""
    with open_reading(workspace) as reading:
        server = ServerFile("i", reading.db_id, 1, "127.0.0.1", "t", pid or os.getpid(), "")
    workspace.server_file.write_bytes(msgspec.json.encode(server))
    workspace.server_file.chmod(mode)


def statuses(workspace: Workspace) -> dict[str, str]:
    return {check.name: check.status for check in check_serving(workspace)}


def test_nothing_runs_and_nothing_says_so(workspace: Workspace) -> None:
    assert statuses(workspace) == {"lock": "ok", "server": "ok", "leftovers": "ok"}


def test_a_file_that_no_hub_wrote_is_an_error(workspace: Workspace) -> None:
    workspace.server_file.write_text("{")
    assert statuses(workspace)["server_file"] == "error"


def test_a_file_that_a_crash_left_is_a_warning(workspace: Workspace) -> None:
    announce(workspace)
    assert statuses(workspace) == {"lock": "ok", "server_file": "warn", "server": "ok", "leftovers": "ok"}


def test_a_file_that_others_can_read_is_an_error(workspace: Workspace) -> None:
    announce(workspace, mode=0o644)
    assert statuses(workspace)["server_file"] == "error"


def test_a_holder_that_has_not_announced_itself_is_a_warning(workspace: Workspace) -> None:
    with InstanceLock(workspace.lock) as lock:
        lock.acquire({"pid": os.getpid(), "started_at": "now"})
        assert statuses(workspace)["server"] == "warn"


def test_a_holder_that_does_not_answer_is_an_error(workspace: Workspace) -> None:
    announce(workspace)
    with InstanceLock(workspace.lock) as lock:
        lock.acquire({"pid": os.getpid(), "started_at": "now"})
        assert statuses(workspace) == {"lock": "ok", "server_file": "ok", "server": "error", "leftovers": "ok"}


def test_the_files_of_a_running_agentlip_hub_are_not_called_stale(tmp_path: Path) -> None:
    workspace = make_agentlip(tmp_path, fts=False)
    with agentlip_answers(workspace):
        checks = {check.name: check for check in check_serving(workspace)}
    assert {name: check.status for name, check in checks.items()} == {"lock": "ok", "server": "warn", "leftovers": "ok"}
    assert "Agentlip hub" in checks["server"].message


def test_the_files_of_an_agentlip_hub_that_crashed_are_called_stale(tmp_path: Path) -> None:
    workspace = make_agentlip(tmp_path, fts=False)
    with agentlip_answers(workspace):
        pass
    assert statuses(workspace) == {"lock": "ok", "server_file": "warn", "server": "ok", "leftovers": "warn"}


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([("wal", "ok")], Exit.OK),
        ([("wal", "warn")], Exit.OK),
        ([("config", "error")], Exit.ERROR),
        ([("config", "error"), ("integrity", "error")], Exit.CORRUPT),
    ],
)
def test_the_exit_code_tells_damage_from_other_errors(found: list[tuple[str, str]], code: Exit) -> None:
    assert exit_code([Check(name, status, "") for name, status in found]) == code  # type: ignore[arg-type]
