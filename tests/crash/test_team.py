"""A team with random kills, in small."""

from pathlib import Path

import pytest

from tests.campaign.team import team

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_workers_that_are_killed_lose_their_claims_and_nothing_else(tmp_path: Path) -> None:
    report = team(tmp_path, workers=4, tasks=16, leases=40, kills=3, seed=20260204)
    assert report.violations == []
    assert report.control, "the broken variant must be found"
    assert report.facts["killed"] == 3
    assert report.facts["leases"] >= 40
