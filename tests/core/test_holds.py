"""Who holds a thing, and who no longer does."""

import pytest

from parley.core.holds import Hold, is_live, loss_of

HELD = Hold("ann", 3, "2026-01-01T00:00:01.000Z")
BEFORE, AT_THE_END = "2026-01-01T00:00:00.999Z", "2026-01-01T00:00:01.000Z"


def test_a_hold_is_live_until_the_millisecond_of_its_end() -> None:
    assert is_live(HELD, BEFORE)
    assert not is_live(HELD, AT_THE_END)
    assert not is_live(Hold(None, 3, None), BEFORE)


@pytest.mark.parametrize(
    ("hold", "holder", "generation", "now", "expected"),
    [
        (HELD, "ann", 3, BEFORE, None),
        (HELD, "ann", 3, AT_THE_END, "expired"),
        (HELD, "bob", 3, BEFORE, "other_holder"),
        (HELD, "ann", 2, BEFORE, "other_generation"),
        (Hold(None, 3, None), "ann", 3, BEFORE, "not_held"),
    ],
)
def test_why_somebody_does_not_hold_it(
    hold: Hold, holder: str, generation: int, now: str, expected: str | None
) -> None:
    assert loss_of(hold, holder=holder, generation=generation, now=now) == expected
