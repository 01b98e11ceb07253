"""Whatever the store answered is true after a kill, a power cut and an error of the disk at any moment."""

import asyncio
import contextlib
import random
import subprocess
import sys
from functools import partial
from itertools import islice
from pathlib import Path

import apsw
import pytest

from parley.bus.sqlite_store import SqliteMeshStore
from parley.core.clock import ManualClock
from parley.core.errors import ParleyError
from parley.sqlite import open_writer
from tests.conformance.bus_store.ledger import Ledger, live
from tests.conformance.bus_store.makers import open_store
from tests.faults.campaign import failures_everywhere, power_cuts

SEED = 20261119
ROUNDS = 6


def killed(path: Path, seed: int, lines: int) -> list[str]:
    """What a process told of before it was killed, which it was after so many lines."""
    argv = [sys.executable, "-m", "tests.conformance.bus_store.victim", str(path), str(seed)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        told = list(islice(victim.stdout, lines))
        victim.kill()
        return told + [line for line in victim.stdout if line.endswith("\n")]


async def test_case_25_kill_9_at_any_moment_repeats_no_sequence_and_loses_nothing_answered(path: Path) -> None:
    ledger, rng = Ledger(), random.Random(SEED)
    for seed in range(ROUNDS):
        ledger.read(await asyncio.to_thread(killed, path, seed, rng.randint(1, 400)))
        store = open_store(path)
        assert await ledger.problems(store) == []
        await store.close()
    assert len(ledger) > 100


class StoreWorkload:
    """A store on a faulty disk, used by one after the other."""

    def __init__(self, rng: random.Random, turns: int = 6) -> None:
        self._rng = rng
        self._turns = turns
        self._ledger = Ledger()
        self._runner = asyncio.Runner()
        self._store: SqliteMeshStore | None = None

    def setup(self, path: Path, vfs: str) -> None:
        async def opened() -> SqliteMeshStore:
            return open_store(path, vfs=vfs, clock=ManualClock())

        self._store = self._runner.run(opened())

    def step(self) -> bool:
        assert self._store is not None
        self._turns -= 1
        with contextlib.suppress(ParleyError):  # what was not answered need not have happened
            self._runner.run(live(self._store, self._rng.randint(1, 2), self._rng, self._ledger.tell))
        return self._turns > 0

    def close(self) -> None:
        if self._store is not None:
            self._runner.run(self._store.close())
        self._runner.close()

    def check(self, path: Path) -> list[str]:
        async def problems() -> list[str]:
            store = open_store(path)
            try:
                return await self._ledger.problems(store)
            finally:
                await store.close()

        return asyncio.run(problems())


def test_no_power_cut_takes_back_what_was_answered(tmp_path: Path) -> None:
    report = power_cuts(StoreWorkload, tmp_path, runs=40, seed=SEED)
    assert report.runs == 40
    assert report.problems == {}


def test_control_power_cuts_do_so_where_commits_are_not_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.sqlite.checked.open_writer", partial(open_writer, synchronous="normal"))
    report = power_cuts(StoreWorkload, tmp_path, runs=20, seed=SEED)
    assert any("lost" in each or "sequence" in each for found in report.problems.values() for each in found)


@pytest.mark.parametrize("error", [apsw.FullError, apsw.IOError])
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for_good"])
def test_an_error_at_any_operation_loses_nothing_that_was_answered(
    tmp_path: Path, error: type[apsw.Error], for_good: bool
) -> None:
    report = failures_everywhere(
        lambda rng: StoreWorkload(rng, turns=4), tmp_path, error=error, for_good=for_good, seed=SEED, stride=5
    )
    assert report.runs > 15
    assert report.problems == {}
