"""``parley try``: the tour runs to its end by itself, tells the truth, and leaves nothing behind."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

from parley.workspace import discovery
from tests.cli.conftest import parley_process
from tests.hub.hubs import fold_problems

STEPS = 8


def test_the_tour_tells_each_step_and_removes_its_workspace(tmp_path: Path) -> None:
    ran = parley_process("try", "--json", env={**os.environ, "TMPDIR": str(tmp_path)})
    assert ran.code == 0, ran.stderr
    steps = ran.json["steps"]
    assert len(steps) == STEPS
    assert all(step["lines"] for step in steps)
    told = json.dumps(steps)
    assert "is held by builder-1" in told
    assert "Reserved by builder-1" in told
    assert list(tmp_path.glob("parley-tour-*")) == []


def test_a_kept_workspace_holds_what_was_told(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    ran = parley_process("try", "--keep", str(folder), "--json")
    assert ran.code == 0, ran.stderr
    workspace = discovery.at(folder)
    assert fold_problems(workspace) == []
    tasks = parley_process("task", "list", "--workspace", str(folder), "--json").json["tasks"]
    assert [task["status"] for task in tasks] == ["completed"] * 3
    again = parley_process("try", "--keep", str(folder))
    assert again.code == 1
    assert "is a workspace already" in again.stderr


def test_at_a_terminal_each_step_waits_for_enter() -> None:
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "parley", "try"], stdin=terminal, stdout=subprocess.PIPE, stderr=terminal, text=True
    )
    os.close(terminal)
    try:
        assert process.stdout is not None
        os.write(controller, b"\n" * STEPS)
        output = process.stdout.read()
        assert process.wait(60) == 0
        assert output.count("$ parley --workspace") == STEPS
        process.stdout.close()
    finally:
        os.close(controller)
