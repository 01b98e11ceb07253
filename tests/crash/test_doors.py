"""The campaign of strangers at the doors, in small."""

from pathlib import Path

import pytest

from tests.campaign.doors.run import SMALL, SMALL_LIMITS, doors

SEED = 20260204
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


async def test_each_server_goes_on_answering_whatever_strangers_say_and_hold(tmp_path: Path) -> None:
    report = await doors(tmp_path, size=SMALL, seed=SEED, limits=SMALL_LIMITS)
    assert report.violations == []
    assert report.control, "what a careless hub lets happen must be found"
