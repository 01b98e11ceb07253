"""The campaigns on real hub processes, in small."""

from pathlib import Path

import pytest

from tests.campaign.crowd import crowd
from tests.campaign.files.run import struck_files
from tests.campaign.full_disk import full_disk
from tests.campaign.kill import kill_cycles
from tests.campaign.report import Report
from tests.campaign.starts import simultaneous_starts

SEED = 20260204
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def check(report: Report) -> None:
    assert report.runs > 0
    assert report.violations == []
    assert report.control, "the broken variant must be found"


async def test_kill_9_under_load_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    check(await kill_cycles(tmp_path, cycles=8, seed=SEED))


async def test_of_six_simultaneous_starts_one_serves_and_five_name_it(tmp_path: Path) -> None:
    check(await simultaneous_starts(tmp_path, rounds=2, seed=SEED))


async def test_a_hundred_feeds_are_served_and_two_hundred_more_get_503(tmp_path: Path) -> None:
    check(await crowd(tmp_path, seed=SEED))


async def test_a_disk_that_fills_refuses_writes_and_takes_them_again_with_the_space(tmp_path: Path) -> None:
    check(await full_disk(tmp_path, rounds=1, seed=SEED))


async def test_files_that_are_taken_away_under_load_cost_nothing_that_is_acknowledged_afterwards() -> None:
    check(await struck_files(rounds=6, seed=SEED))
