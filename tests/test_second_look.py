"""What ``make test`` does about tests that failed: which of them get a second look, and what that has to show; and what
it says of the time that tests took.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import run_tests

FAILS_AT_FIRST = """
from pathlib import Path

def test_passes_in_the_end():
    tries = Path(__file__).with_suffix(".tries")
    tried = len(tries.read_text()) if tries.exists() else 0
    tries.write_text("x" * (tried + 1))
    assert tried >= {times}
"""
BARE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist -p no:cacheprovider"}
"""No plugin but the one that the script needs, so that a start takes a second and not ten."""


@pytest.mark.parametrize(
    ("text", "passes", "said"),
    [
        (FAILS_AT_FIRST.format(times=1), True, "UNSTEADY, to be mended: tests/test_a.py::test_passes_in_the_end"),
        (FAILS_AT_FIRST.format(times=2), False, "1 failed"),
        ("def broken(:\n", False, "A second look, alone and twice, at: tests/test_a.py\n"),
    ],
    ids=["alone_and_twice", "not_even_then", "no_test_at_all"],
)
def test_what_failed_has_to_pass_alone_and_twice(tmp_path: Path, text: str, passes: bool, said: str) -> None:
    ran = run_in(tmp_path, {"test_a.py": text, "test_b.py": "def test_passes(): pass\n"})
    assert (ran.returncode == 0, said in ran.stdout) == (passes, True), ran.stdout + ran.stderr


def run_in(folder: Path, files: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """The script, on these tests."""
    for name, text in files.items():
        path = folder / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return subprocess.run(
        [sys.executable, run_tests.__file__, "tests"],
        cwd=folder,
        env={**os.environ, **BARE},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_the_time_is_told_by_folder_and_for_the_slowest_tests_before_the_closing_line(tmp_path: Path) -> None:
    many = "import pytest\n@pytest.mark.parametrize('n', range(20))\ndef test_many(n): pass\n"
    ran = run_in(tmp_path, {"hub/http/test_a.py": many, "cli/test_b.py": "def test_one(): pass\n", "test_c.py": many})
    lines = ran.stdout.rstrip().splitlines()
    head = next(number for number, line in enumerate(lines) if line.split() == ["folder", "tests", "seconds"])
    table = {line.split()[0]: int(line.split()[1]) for line in lines[head + 1 : head + 5]}
    assert table == {"tests/hub": 20, "tests/cli": 1, "tests": 20, "all": 41}
    assert lines[head + 6] == "slowest tests, in seconds"
    slowest = [line.split() for line in lines[head + 7 : -1]]
    assert len(slowest) == run_tests.SLOWEST
    assert [float(taken) for taken, _ in slowest] == sorted((float(taken) for taken, _ in slowest), reverse=True)
    assert lines[-1].startswith("41 passed"), lines[-1]


def test_times_are_added_up_over_a_test_and_its_fixtures_and_the_longest_stands_first() -> None:
    times = run_tests.Times()
    for name, taken in (("tests/cli/test_a.py::test_x", 1.0), ("tests/hub/http/test_b.py::test_y[1/2]", 2.5)):
        times.seconds[name] += taken
        times.seconds[name] += 0.5
    assert times.lines() == [
        "",
        "folder     tests  seconds",
        "tests/hub      1      3.0",
        "tests/cli      1      1.5",
        "all            2      4.5",
        "",
        "slowest tests, in seconds",
        "    3.0  tests/hub/http/test_b.py::test_y[1/2]",
        "    1.5  tests/cli/test_a.py::test_x",
    ]


def test_many_failures_stand_as_they_are() -> None:
    names = [f"tests/hub/test_posts.py::test_{number}" for number in range(run_tests.FEW + 1)]
    assert run_tests.no_second_look(names[:-1]) is None
    assert run_tests.no_second_look(names) == "4 tests failed, which is no accident"


@pytest.mark.parametrize("room", run_tests.NO_SECOND_LOOK)
def test_one_sight_of_what_must_never_happen_is_enough(room: str) -> None:
    assert (Path(run_tests.__file__).parent.parent / room).exists()
    assert "must never happen" in str(run_tests.no_second_look([f"{room}::test_a", "tests/hub/test_b.py::test_c"]))
