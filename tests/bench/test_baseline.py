"""Two commits are measured in turns by one driver, each with servers of its own."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import baseline
from bench.figures import Sample
from bench.plan import Plan

TINY = Plan(insert_1=8, insert_16=40, mesh_closed=12)
pytestmark = pytest.mark.timeout(600)
needs_git = pytest.mark.skipif(
    shutil.which("git") is None or not (baseline.ROOT / ".git").exists(), reason="this is no clone of the repository"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One with a short name: the path of a socket must be."""
    with tempfile.TemporaryDirectory(prefix="p-") as made:
        yield Path(made)


async def test_sides_take_turns_and_each_alternation_begins_with_the_other() -> None:
    order: list[str] = []
    figures = {"now": iter((30.0, 99.0, 33.0)), "baseline": iter((20.0, 90.0, 30.0))}

    def loop(side: str) -> baseline.Loop:
        async def measured() -> Sample:
            order.append(side)
            return {"cpu_us": next(figures[side])}

        return measured

    found = await baseline.alternate({side: loop(side) for side in figures}, 3)
    assert order == ["now", "baseline", "baseline", "now", "now", "baseline"]
    assert (found["now"]["cpu_us"], found["baseline"]["cpu_us"]) == (33.0, 30.0)
    assert (found["ratios"]["cpu_us_ratio"], found["ratios"]["spread"]) == (1.1, {"cpu_us_ratio": [1.1, 1.5]})


@needs_git
async def test_an_earlier_commit_serves_beside_the_working_tree(folder: Path) -> None:
    with baseline.worktree("HEAD") as tree:
        sides = baseline.environments(tree)
        assert sides["baseline"]["PYTHONPATH"] == str(tree / "src")
        assert sides["now"]["PYTHONPATH"] == str(baseline.ROOT / "src")
        found = await baseline.compare(folder, TINY, ["insert"], 2, sides)
        async with baseline.meshes(folder / "mesh", TINY, sides, daemons=2, meshes=1) as loops:
            found["mesh"] = await baseline.alternate(loops, 2)
    assert not tree.exists()
    assert set(found) == {"insert_16", "insert_16_fts", "mesh"}
    for name, figures in found.items():
        assert figures["now"]["repetitions"] == figures["baseline"]["repetitions"] == 2, name
        assert min(figures[side][key] for side in sides for key in ("cpu_us", "per_second")) > 0, name
        assert figures["ratios"]["cpu_us_ratio"] > 0, name


@needs_git
def test_code_that_is_not_the_commits_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "tree" / "src").mkdir(parents=True)
    with pytest.raises(baseline.NotServed, match="baseline would serve"):
        baseline.environments(tmp_path / "tree")


@needs_git
def test_a_commit_that_is_not_there_is_told() -> None:
    with pytest.raises(subprocess.CalledProcessError), baseline.worktree("no-such-commit"):
        pass
