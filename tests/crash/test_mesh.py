"""The campaigns on real daemons and a real broker, in small."""

import pytest

from tests.campaign.mesh.kill import POINTS, mesh_kills

SEED = 20260204
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
async def test_kill_9_at_each_step_loses_nothing_and_doubles_nothing(store: str) -> None:
    report = await mesh_kills(rounds=len(POINTS), seed=SEED, stores=(store,))
    assert report.violations == []
    assert set(report.facts["deaths"]) == set(POINTS)
    assert report.control, "the hasty daemon must be found"
