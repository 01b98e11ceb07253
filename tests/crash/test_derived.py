"""The campaign that kills hubs while their plugins work, in small."""

from pathlib import Path

import pytest

from tests.campaign.derived import derived_kills
from tests.hub.derived.world import needs_sandbox


@needs_sandbox
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_gate_i_kill_9_of_the_hub_in_mid_run_loses_no_finding_and_tells_of_none_twice(tmp_path: Path) -> None:
    report = await derived_kills(tmp_path, kills=2, seed=20260205)
    assert report.violations == []
    assert report.control, "the broken variant must be found"
    assert report.runs == 2
