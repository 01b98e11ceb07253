"""What a killed hub leaves behind is clean, as the command itself says."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.campaign.audited import audit_left, command
from tests.campaign.kill import kill_cycles
from tests.cli.conftest import Parley, parley

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["parley"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
SEED = 20260217


async def test_the_audit_is_clean_on_what_kill_9_leaves_and_not_on_a_copy_that_lacks_an_event(
    spark: "SparkSession", parley: Parley, tmp_path: Path
) -> None:
    def audit(left: Path) -> tuple[int, Any]:
        done = parley(*command(left))
        return done.code, done.json

    left = tmp_path / "left"
    left.mkdir()
    assert (await kill_cycles(tmp_path / "work", cycles=2, seed=SEED, keep=left)).violations == []

    report = audit_left(left, seed=SEED, audit=audit)

    assert report.violations == []
    assert report.runs == 1
    assert report.control, "the broken variant must be found"
    assert spark.range(3).count() == 3
