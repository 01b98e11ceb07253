"""Whole meshes under every kind of trouble: nothing promised is lost, nothing is doubled, and each run can repeat."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.flaws import FLAWS, Flaw
from tests.simulation.world import Plan, World

ROOT = Path(__file__).parent.parent.parent
WORLDS_A_TEST = 8
SEEDS = [range(first, first + WORLDS_A_TEST) for first in range(0, 64, WORLDS_A_TEST)]
OPERATIONS_A_TEST_MIN = 6_300
"""Eight tests together: more than 50,000 operations."""
SEEDS_UNTIL_CAUGHT = 30
pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_nothing_is_lost_doubled_or_misled(seeds: range, tmp_path: Path) -> None:
    operations = 0
    for seed in seeds:
        result = World(seed, tmp_path).run()
        assert result.problems == [], seed
        assert result.crashes > 0, seed
        operations += result.operations
    assert operations >= OPERATIONS_A_TEST_MIN


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.__name__)
def test_a_planted_bug_is_caught(flaw: Flaw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flaw(monkeypatch)
    reason = re.compile(FLAWS[flaw])
    found = (reason.search("\n".join(World(seed, tmp_path).run().problems)) for seed in range(SEEDS_UNTIL_CAUGHT))
    assert any(found), reason.pattern


def test_a_quiet_world_delivers_everything_without_a_crash(tmp_path: Path) -> None:
    """Without trouble nothing has to be repeated, so that whatever a world proves it proves of real deliveries."""
    world = World(1, tmp_path, Plan(rounds=1, trouble_ms=10**9))
    result = world.run()
    assert result.problems == []
    assert result.crashes == 0
    assert world.broker.accepted > 100
    assert sum(daemon.received for daemon in world.daemons) > world.broker.accepted


@pytest.mark.parametrize("kind", ["mesh", "bus"])
def test_the_same_seed_gives_the_same_bytes_in_any_process(kind: str) -> None:
    """Also when sets and dictionaries of strings have another order, and when worlds run side by side."""
    lines = {_simulate(kind, "3-4", hash_seed, jobs) for hash_seed, jobs in (("1", 1), ("2", 1), ("3", 2))}
    assert len(lines) == 1
    (line,) = lines
    assert line.startswith(f"simulated {kind} seeds=3-4 worlds=2 ")
    assert _simulate(kind, "4-5", "1", 1) != line


def _simulate(kind: str, seeds: str, hash_seed: str, jobs: int) -> str:
    command = [sys.executable, "-m", "tests.simulation", "--only", kind, "--seeds", seeds, "--jobs", str(jobs)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout.splitlines()[-1]
