"""Times: UTC, three decimals, and a clock that a test moves."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.core.clock import ManualClock, SystemClock, iso, parse_iso, stamp

MILLISECONDS = st.integers(0, 253_402_300_799_999)  # up to the end of the year 9999


def test_iso_always_has_three_decimals() -> None:
    assert iso(1_770_247_845_123) == "2026-02-04T23:30:45.123Z"
    assert iso(1_770_247_845_000) == "2026-02-04T23:30:45.000Z"
    assert iso(0) == "1970-01-01T00:00:00.000Z"


@given(MILLISECONDS)
def test_parse_iso_is_the_inverse_of_iso(now_ms: int) -> None:
    assert parse_iso(iso(now_ms)) == now_ms


@given(MILLISECONDS, MILLISECONDS)
def test_iso_and_stamp_sort_as_the_times_do(left: int, right: int) -> None:
    assert (iso(left) < iso(right)) == (left < right)
    assert (stamp(left) < stamp(right)) == (left < right)


def test_stamp_is_the_same_time_without_marks() -> None:
    assert stamp(1_770_247_845_123) == "20260204T233045123Z"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-02-04T23:30:45", "2026-02-04T23:30:45.000Z"),
        ("2026-02-04", "2026-02-04T00:00:00.000Z"),
        ("2026-02-04T23:30:45+02:00", "2026-02-04T21:30:45.000Z"),
    ],
)
def test_parse_iso_takes_a_time_without_a_zone_as_utc(text: str, expected: str) -> None:
    assert iso(parse_iso(text)) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "23:30"])
def test_parse_iso_refuses_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError):
        parse_iso(text)


def test_the_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(now_ms=1_000, monotonic=5.0)
    assert (clock.now_ms(), clock.monotonic()) == (1_000, 5.0)
    clock.advance(1.5)
    assert (clock.now_ms(), clock.monotonic()) == (2_500, 6.5)
    clock.jump(-2_000)
    assert (clock.now_ms(), clock.monotonic()) == (500, 6.5)


def test_the_system_clock_is_the_machines() -> None:
    clock = SystemClock()
    before, after = time.time_ns() // 1_000_000, clock.now_ms()
    assert before <= after
    assert datetime.fromtimestamp(after / 1000, UTC).year >= 2025
    assert clock.monotonic() <= clock.monotonic()
