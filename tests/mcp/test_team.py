"""A team of agents shares tasks and paths, and some of them are killed: the campaign in small."""

from pathlib import Path

import pytest

from tests.campaign.tool_team import tool_team


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_no_two_agents_ever_hold_the_same_and_every_task_is_done_once(tmp_path: Path) -> None:
    report = await tool_team(tmp_path, agents=6, tasks=30, leases=60, kills=3, seed=20261117)
    assert report.violations == []
    assert report.control, "the broken logs must be found"
    assert report.facts["leases"] >= 60
