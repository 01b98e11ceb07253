"""Crash campaigns over any workload: power cuts at random operations, and an error at every operation.

A run that fails is repeated alone by its seed (``power_cuts(..., seed=S, runs=1)``) or its operation number.
"""

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import apsw

from parley.core.errors import ParleyError
from tests.faults.vfs import Failure, FaultVFS


class Workload(Protocol):
    """Something that writes to a database through a VFS and remembers what was acknowledged."""

    def setup(self, path: Path, vfs: str) -> None:
        """Opens the database. It may meet the failure already."""
        ...

    def step(self) -> bool:
        """One unit of work, catching what a real caller would; False when there is no more to do."""
        ...

    def close(self) -> None:
        """Lets go of every connection, whatever their state."""
        ...

    def check(self, path: Path) -> list[str]:
        """Opens the file that was left, with the ordinary VFS, and tells what is wrong: damage, losses."""
        ...


@dataclass
class Report:
    """How a campaign went; ``problems`` is per failing run, under the number that repeats it."""

    runs: int = 0
    problems: dict[int, list[str]] = field(default_factory=dict)


def power_cuts(make: Callable[[random.Random], Workload], folder: Path, *, runs: int, seed: int) -> Report:
    """Cuts the power once in each run, at a random operation of all those that the workload would do."""
    report = Report()
    total = _count_operations(make, folder, 0)
    for run_seed in range(seed, seed + runs):
        rng = random.Random(run_seed)
        workload, vfs = make(random.Random(run_seed)), FaultVFS()
        vfs.disk.cut_at = rng.randint(1, total)
        before = _fresh(folder, f"cut-{run_seed}")
        _run(workload, before / "db.sqlite3", vfs)
        after = _fresh(folder, f"back-{run_seed}")
        for path, image in vfs.disk.after_cut(rng).items():
            (after / Path(path).name).write_bytes(image)
        _judge(report, run_seed, workload, after / "db.sqlite3")
        shutil.rmtree(before)
        shutil.rmtree(after)
    return report


def failures_everywhere(
    make: Callable[[random.Random], Workload],
    folder: Path,
    *,
    error: type[apsw.Error],
    for_good: bool,
    seed: int,
    stride: int = 1,
) -> Report:
    """One run for every operation of the workload (every ``stride``-th), in which that operation fails."""
    report = Report()
    for at in range(1, _count_operations(make, folder, seed) + 1, stride):
        workload, vfs = make(random.Random(seed)), FaultVFS()
        vfs.disk.failure = Failure(at, error, for_good)
        place = _fresh(folder, f"fail-{at}")
        _run(workload, place / "db.sqlite3", vfs)
        _judge(report, at, workload, place / "db.sqlite3")
        shutil.rmtree(place)
    return report


def _count_operations(make: Callable[[random.Random], Workload], folder: Path, seed: int) -> int:
    vfs = FaultVFS()
    place = _fresh(folder, f"count-{seed}")
    _run(make(random.Random(seed)), place / "db.sqlite3", vfs)
    shutil.rmtree(place)
    return vfs.disk.operations


def _run(workload: Workload, path: Path, vfs: FaultVFS) -> None:
    try:
        workload.setup(path, vfs.name)
        while workload.step():
            pass
    except (apsw.Error, ParleyError):
        pass  # the workload could not even go on refusing: what it acknowledged before is what counts
    finally:
        workload.close()


def _judge(report: Report, number: int, workload: Workload, path: Path) -> None:
    report.runs += 1
    problems = workload.check(path)
    if problems:
        report.problems[number] = problems


def _fresh(folder: Path, name: str) -> Path:
    place = folder / name
    place.mkdir()
    return place
