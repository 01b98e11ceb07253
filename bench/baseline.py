"""Two commits in one run: the working tree and an earlier commit serve the same load in turns.

The driver is always that of the working tree. A commit's servers run in the same environment with ``PYTHONPATH`` set to
its sources, which are taken before an installed package. Servers of both stay up for the whole run and are measured one
after the other; each alternation begins with the other one, so that neither has the better place. What counts is the
median of the alternations' ratios: what disturbs the machine for longer than a turn disturbs both.
"""

import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.figures import Sample, figure, ratios
from bench.load.hub import Hub, by_command
from bench.load.mesh import Mesh
from bench.plan import Plan
from bench.scenarios import insert, mesh

ROOT: Final = Path(__file__).parent.parent
COMPARED: Final = ("insert", "mesh")
NOW, BEFORE = "now", "baseline"
Loop = Callable[[], Awaitable[Sample]]
Environments = Mapping[str, Mapping[str, str]]
"""What the servers of each side find in their environment."""


class NotServed(RuntimeError):
    """The servers of a commit would not run that commit's code."""


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """The commit's files in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="parley-baseline-") as folder:
        tree = Path(folder) / "tree"
        _git("worktree", "add", "--quiet", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def full_name(commit: str) -> str:
    """The commit's whole hash. Raises ``CalledProcessError`` if there is none of this name."""
    return _git("rev-parse", "--verify", f"{commit}^{{commit}}").strip()


def environments(tree: Path) -> Environments:
    """Both sides, each by its sources. Raises ``NotServed`` if Python would take others."""
    sides = {NOW: ROOT / "src", BEFORE: tree / "src"}
    found = {side: {"PYTHONPATH": str(sources)} for side, sources in sides.items()}
    for side, sources in sides.items():
        loaded = subprocess.run(
            [sys.executable, "-c", "import parley; print(parley.__file__)"],
            env=found[side],
            cwd=tree.parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        if not Path(loaded).is_relative_to(sources):
            raise NotServed(f"{side} would serve {loaded} and not {sources}")
    return found


async def compare(folder: Path, plan: Plan, only: Sequence[str], alternations: int, sides: Environments) -> Any:
    """The figures of both sides and their ratios, by scenario."""
    figures: dict[str, Any] = {}
    if "insert" in only:
        for name, config in (("insert_16", insert.WITHOUT_FTS), ("insert_16_fts", "")):
            async with hubs(folder / name, config, plan, sides) as loops:
                figures[name] = await alternate(loops, alternations)
    if "mesh" in only:
        async with meshes(folder / "mesh", plan, sides) as loops:
            figures["mesh_closed_100"] = await alternate(loops, alternations)
    return figures


async def alternate(loops: Mapping[str, Loop], times: int) -> dict[str, Any]:
    """Runs the loops of both sides in turns: their medians, and the medians of what now is to the baseline."""
    samples: dict[str, list[Sample]] = {side: [] for side in loops}
    for turn in range(times):
        for side in list(loops) if turn % 2 == 0 else reversed(list(loops)):
            samples[side].append(await loops[side]())
    pairs = [ratios(now, before, list(now)) for now, before in zip(samples[NOW], samples[BEFORE], strict=True)]
    return {**{side: figure("", taken) for side, taken in samples.items()}, "ratios": figure("", pairs)}


@asynccontextmanager
async def hubs(folder: Path, config: str, plan: Plan, sides: Environments) -> AsyncGenerator[dict[str, Loop]]:
    """Inserts at 16 connections of both sides, at a hub of their own."""
    async with AsyncExitStack() as stack:
        serving = {
            side: stack.enter_context(
                Hub(folder / side, config=config, launch=partial(by_command, environment=environment))
            )
            for side, environment in sides.items()
        }
        yield {side: await insert.loop_16(hub, plan) for side, hub in serving.items()}


@asynccontextmanager
async def meshes(
    folder: Path, plan: Plan, sides: Environments, daemons: int = mesh.DAEMONS, meshes: int = mesh.MESHES
) -> AsyncGenerator[dict[str, Loop]]:
    """The mesh's closed loop of both sides, at a broker and daemons of their own."""
    async with AsyncExitStack() as stack:
        loops: dict[str, Loop] = {}
        for side, environment in sides.items():
            world = await stack.enter_async_context(Mesh(folder / side, None, daemons, meshes, environment))
            loops[side] = await mesh.closed_loop(world, plan)
        yield loops


def _git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True).stdout
