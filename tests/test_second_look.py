"""What ``make test`` does about tests that failed: which of them get a second look, and what that has to show."""

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
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(text)
    (tmp_path / "tests" / "test_b.py").write_text("def test_passes(): pass\n")
    ran = subprocess.run(
        [sys.executable, run_tests.__file__, "tests"],
        cwd=tmp_path,
        env={**os.environ, **BARE},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (ran.returncode == 0, said in ran.stdout) == (passes, True), ran.stdout + ran.stderr


def test_many_failures_stand_as_they_are() -> None:
    names = [f"tests/hub/test_posts.py::test_{number}" for number in range(run_tests.FEW + 1)]
    assert run_tests.no_second_look(names[:-1]) is None
    assert run_tests.no_second_look(names) == "4 tests failed, which is no accident"


@pytest.mark.parametrize("room", run_tests.NO_SECOND_LOOK)
def test_one_sight_of_what_must_never_happen_is_enough(room: str) -> None:
    assert (Path(run_tests.__file__).parent.parent / room).exists()
    assert "must never happen" in str(run_tests.no_second_look([f"{room}::test_a", "tests/hub/test_b.py::test_c"]))
