"""Disks that fail: power cuts at random operations, and an error (full, I/O) at every operation, once or for good."""

import contextlib
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw

from tests.campaign.judge import Ack
from tests.campaign.report import Report
from tests.campaign.rules_workload import RulesWorkload
from tests.faults import campaign

CONTROL_RUNS = 20
BATCHES = 6
"""Fewer than for the cuts: here every operation of the run is made to fail in a run of its own."""


def power_cuts(*, runs: int, seed: int) -> Report:
    """Control: the same cuts under ``synchronous=NORMAL`` lose what was acknowledged."""
    with _memory_folder() as folder:
        return _power_cuts(folder, runs, seed)


def failing_operations(*, stride: int, seed: int) -> Report:
    """Control: a workload that takes a refusal for an acknowledgement."""
    with _memory_folder() as folder:
        return _failing_operations(folder, stride, seed)


def _power_cuts(folder: Path, runs: int, seed: int) -> Report:
    report = Report("power_cuts", seed)
    found = campaign.power_cuts(RulesWorkload, folder, runs=runs, seed=seed)
    report.runs = found.runs
    report.violations = [f"seed {number}: {problem}" for number, each in found.problems.items() for problem in each]
    for level in ("normal", "off"):
        broken = campaign.power_cuts(
            lambda rng, level=level: RulesWorkload(rng, level), folder, runs=CONTROL_RUNS, seed=seed
        )
        report.facts[f"cuts_of_{CONTROL_RUNS}_that_lose_with_synchronous_{level}"] = len(broken.problems)
        report.control += [problem for problems in broken.problems.values() for problem in problems]
    return report


def _failing_operations(folder: Path, stride: int, seed: int) -> Report:
    report = Report("failing_operations", seed)
    for error in (apsw.FullError, apsw.IOError):
        for for_good in (False, True):
            found = campaign.failures_everywhere(
                _small, folder, error=error, for_good=for_good, seed=seed, stride=stride
            )
            report.runs += found.runs
            kind = f"{error.__name__} {'for good' if for_good else 'once'}"
            report.violations += [
                f"{kind} at {at}: {problem}" for at, each in found.problems.items() for problem in each
            ]
    broken = campaign.failures_everywhere(
        _Credulous, folder, error=apsw.FullError, for_good=True, seed=seed, stride=max(stride, 10)
    )
    report.control = [problem for problems in broken.problems.values() for problem in problems]
    return report


@contextlib.contextmanager
def _memory_folder() -> Iterator[Path]:
    """What survives a cut is decided by the simulated disk, so the real one need not be made to sync."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="parley-disk-", dir=memory) as folder:
        yield Path(folder)


def _small(rng: random.Random) -> RulesWorkload:
    return RulesWorkload(rng, batches=BATCHES)


class _Credulous(RulesWorkload):
    """Takes a refusal for an acknowledgement."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng, batches=BATCHES)

    def check(self, path: Path) -> list[str]:
        if self.refusals:
            self.acks.append(Ack(1 << 40, "message.created", "msg_refused"))
        return super().check(path)
