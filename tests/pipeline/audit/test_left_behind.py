"""What a killed hub leaves behind is clean, as the command itself says."""

from pathlib import Path

import pytest

from tests.campaign.audited import audit_left
from tests.campaign.kill import kill_cycles

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
SEED = 20260217


async def test_the_audit_is_clean_on_what_kill_9_leaves_and_not_on_a_copy_that_lacks_an_event(tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    assert (await kill_cycles(tmp_path / "work", cycles=2, seed=SEED, keep=left)).violations == []

    report = audit_left(left, seed=SEED)

    assert report.violations == []
    assert report.runs == 1
    assert report.control, "the broken variant must be found"
