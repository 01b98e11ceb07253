"""``make demo`` tells its story to the end, counts right, and leaves nothing running."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.sandbox import missing
from scripts.demo import DEADLINE_SECONDS
from scripts.demo_bus import BusAct
from scripts.docs import ROOT


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A path that leaves room for a socket's below it, which may have about a hundred characters."""
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:
        yield Path(folder)


@pytest.mark.slow
@pytest.mark.timeout(2 * DEADLINE_SECONDS)
def test_the_demo_ends_well_and_leaves_nothing_behind(short_folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.demo"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(short_folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "each done and reported once: yes" in done.stdout
    assert done.stdout.count("each there once: yes") == 2
    assert "/ui#code=" in done.stdout
    if not missing():
        assert "all there and each told once: yes" in done.stdout
    assert list(short_folder.iterdir()) == []
    assert [command for command in running() if str(short_folder) in command] == []


def test_the_act_of_the_bus_ends_well_by_itself(short_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It needs no other act, no multicast and no extra, so it can be looked at in each run of the tests."""
    assert BusAct(short_folder / "bus").run()
    said = capfd.readouterr().out
    assert "4 messages sent, 4 at the server; each there once: yes" in said
    assert "server heard: commit 2 is green" in said
    assert [command for command in running() if str(short_folder) in command] == []


@pytest.mark.slow
@pytest.mark.timeout(DEADLINE_SECONDS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_demo_that_is_ended_early_leaves_nothing_behind_either(short_folder: Path, number: signal.Signals) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "scripts.demo"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(short_folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert demo.stdout is not None
    said = ""
    for line in demo.stdout:
        said += line
        if "Three agents join" in line:
            demo.send_signal(number)
    demo.stdout.close()
    assert demo.wait() == 128 + number, said
    assert "The hub stops" in said
    assert list(short_folder.iterdir()) == []
    assert [command for command in running() if str(short_folder) in command] == []


def running() -> list[str]:
    """The command lines of all processes."""
    commands: list[str] = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(place.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # it has ended since
            continue
    return commands
