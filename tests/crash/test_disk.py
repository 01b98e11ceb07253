"""Gate B and the crash campaigns: a failing disk under the hub's real rules loses nothing that was acknowledged."""

from tests.campaign.disk import failing_operations, power_cuts

SEED = 20260204


def test_no_power_cut_loses_damages_or_repeats_anything() -> None:
    report = power_cuts(runs=150, seed=SEED)
    assert report.runs == 150
    assert report.violations == []
    assert report.control, "with weaker durability the same cuts must lose something"


def test_an_error_at_any_operation_is_a_typed_refusal_and_loses_nothing() -> None:
    report = failing_operations(stride=11, seed=SEED)
    assert report.runs > 20
    assert report.violations == []
    assert report.control, "an acknowledgement that was really a refusal must be found"
