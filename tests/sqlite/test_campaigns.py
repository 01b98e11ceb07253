"""Power cuts and failing operations under the real batch logic, each with the control that must show the damage."""

import contextlib
from pathlib import Path

import apsw
import pytest

from parley.core.errors import NotFound
from parley.sqlite import Outcome, Write
from tests.faults.campaign import failures_everywhere, power_cuts
from tests.sqlite.rows import RowWorkload

SEED = 20260204


def test_no_power_cut_loses_an_acknowledged_row_with_synchronous_full(tmp_path: Path) -> None:
    report = power_cuts(RowWorkload, tmp_path, runs=60, seed=SEED)
    assert report.runs == 60
    assert report.problems == {}


def test_control_power_cuts_lose_acknowledged_rows_with_synchronous_normal(tmp_path: Path) -> None:
    report = power_cuts(lambda rng: RowWorkload(rng, "normal"), tmp_path, runs=30, seed=SEED)
    assert any("lost" in problem for problems in report.problems.values() for problem in problems)


def test_control_power_cuts_damage_the_file_with_synchronous_off(tmp_path: Path) -> None:
    report = power_cuts(lambda rng: RowWorkload(rng, "off"), tmp_path, runs=30, seed=SEED)
    assert any("lost" not in problem for problems in report.problems.values() for problem in problems)


@pytest.mark.parametrize("error", [apsw.FullError, apsw.IOError])
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for_good"])
def test_an_error_at_any_operation_loses_nothing_acknowledged(
    tmp_path: Path, error: type[apsw.Error], for_good: bool
) -> None:
    report = failures_everywhere(
        lambda rng: RowWorkload(rng, batches=8), tmp_path, error=error, for_good=for_good, seed=SEED, stride=3
    )
    assert report.runs > 20
    assert report.problems == {}


class HastyWorkload(RowWorkload):
    """Acknowledges before COMMIT has returned, as a writer must not."""

    def run(self, connection: apsw.Connection, writes: list[Write[int]]) -> list[Outcome[int]]:
        outcomes: list[Outcome[int]] = []
        with contextlib.suppress(apsw.Error):
            connection.execute("BEGIN IMMEDIATE")
            for write in writes:
                with contextlib.suppress(NotFound):
                    outcomes.append(Outcome(write(connection)))
            connection.execute("COMMIT")
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        return outcomes


def test_control_a_writer_that_acknowledges_too_early_is_found(tmp_path: Path) -> None:
    report = failures_everywhere(
        lambda rng: HastyWorkload(rng, batches=8), tmp_path, error=apsw.IOError, for_good=True, seed=SEED, stride=7
    )
    assert any("lost" in problem for problems in report.problems.values() for problem in problems)


def test_the_same_seed_cuts_the_same_way(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = (
        power_cuts(lambda rng: RowWorkload(rng, "normal"), tmp_path / name, runs=8, seed=SEED) for name in ("a", "b")
    )
    assert first.problems == second.problems
