"""The programs in ``examples/`` run, and say what they are meant to say."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.app.start import UNLIMITED, start_detached
from parley.app.stop import stop_hub
from parley.workspace import discovery
from scripts.docs import ROOT

EXAMPLES = ROOT / "examples"
STOP_SECONDS = 30.0
SAID = {
    "post_and_listen.py": ["builder: The build is green, please review.", "reviewer: Looks good to me."],
    "send_once.py": ["the same message: True, a duplicate: True", "IDEMPOTENCY_KEY_REUSED", "messages in the topic: 1"],
    "edit_together.py": ["too late: Version conflict", "[x] build\n[x] test\n[ ] ship"],
    "share_work.py": ["done: Tidy the guide", "done: Name the errors", " is gone"],
    "bus_in_memory.py": ["built main", "the build is green"],
    "read_without_hub.py": ["the newest event is "],
}
BY_HAND = {"resume_from_cursor.py", "agentlip-launcher", "bus_on_a_lan.py", "bus_blocking.py"}
"""What is run in a way of its own: the first below, the others in ``tests/compat`` and ``tests/cli``."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace whose hub runs."""
    workspace = discovery.create(tmp_path_factory.mktemp("examples"))
    start_detached(workspace, UNLIMITED)
    try:
        yield workspace.root
    finally:
        stop_hub(workspace, STOP_SECONDS)


def run(name: str, *arguments: object) -> str:
    argv = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == {*SAID, *BY_HAND}


@pytest.mark.parametrize("name", SAID)
def test_an_example_says_what_it_is_meant_to_say(name: str, folder: Path) -> None:
    said = run(name, folder)
    assert [expected for expected in SAID[name] if expected not in said] == []


def test_a_reader_with_a_cursor_goes_on_where_it_was(folder: Path, tmp_path: Path) -> None:
    run("send_once.py", folder)
    first = run("resume_from_cursor.py", tmp_path / "cursor", folder)
    assert "deployer: 1.2 is live." in first
    assert run("resume_from_cursor.py", tmp_path / "cursor", folder) == ""
    run("send_once.py", folder)
    assert run("resume_from_cursor.py", tmp_path / "cursor", folder).count("1.2 is live.") == 1
