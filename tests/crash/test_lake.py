"""The campaign that kills those who fill a lake, in small."""

from pathlib import Path

import pytest

from tests.campaign.lake import lake_kills


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kill_9_of_drivers_and_workers_leaves_bronze_equal_to_the_logs(tmp_path: Path) -> None:
    report = lake_kills(tmp_path, kills=4, seed=20260206, spark_every=2)
    assert report.violations == []
    assert report.control, "the broken variant must be found"
    assert report.runs == 4
