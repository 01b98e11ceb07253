"""The generated parts are those that ``make docs`` would write."""

import subprocess
import sys

import pytest

from scripts import docs
from tests.docs.markdown import NAMES, document


@pytest.mark.parametrize("name", NAMES)
def test_the_generated_parts_are_fresh(name: str) -> None:
    text = document(name)
    assert docs.render(text) == text, "run: make docs"


def test_a_stale_part_is_found_and_written_again() -> None:
    fresh = document("docs/operations.md")
    stale = fresh.replace("`hub.port`", "`hub.harbour`")
    assert stale != fresh
    assert docs.render(stale) == fresh


def test_a_part_that_nobody_makes_is_an_error() -> None:
    with pytest.raises(KeyError):
        docs.render("<!-- generated:nothing -->\n<!-- /generated -->")


def test_every_part_stands_in_a_document() -> None:
    everything = "".join(map(document, NAMES))
    assert [part for part in docs.PARTS if f"<!-- generated:{part} -->" not in everything] == []


@pytest.mark.parametrize(("stale", "code"), [(False, 0), (True, 1)])
def test_check_changes_nothing_and_says_what_is_stale(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stale: bool, code: int
) -> None:
    monkeypatch.setattr("sys.argv", ["docs.py", "--check"])
    if stale:
        monkeypatch.setitem(docs.PARTS, "exits", lambda: "something else")
    before = document("docs/operations.md")
    assert docs.main() == code
    assert ("docs/operations.md is stale" in capsys.readouterr().err) is stale
    assert document("docs/operations.md") == before


def test_the_script_runs_by_itself() -> None:
    command = [sys.executable, "-m", docs.__name__, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=docs.ROOT)
    assert (done.returncode, done.stderr) == (0, "")
