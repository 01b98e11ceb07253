"""The campaigns on real daemons and a real broker, in small."""

import pytest

from tests.campaign.mesh.faults import CUTS_MIN, mesh_faults
from tests.campaign.mesh.kill import POINTS, mesh_kills

SEED = 20260204
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
async def test_kill_9_at_each_step_loses_nothing_and_doubles_nothing(store: str) -> None:
    report = await mesh_kills(rounds=len(POINTS), seed=SEED, stores=(store,))
    assert report.violations == []
    assert set(report.facts["deaths"]) == set(POINTS)
    assert report.control, "the hasty daemon must be found"


async def test_a_bad_network_loses_nothing_and_a_mesh_in_trouble_is_alone_with_it() -> None:
    report = await mesh_faults(messages=60, seed=SEED)
    assert report.violations == []
    assert report.facts["cuts"] >= CUTS_MIN
    assert report.control, "a message too few and one too many must be found"
