"""Caveats only narrow: the laws of a meet-semilattice, and what each limit means."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.bus import EVERYTHING, Caveats, topic_names
from parley.core import limits

NUMBERS = st.none() | st.integers(0, 5) | st.just(limits.VERSION_MAX)
TOPICS = st.none() | st.sets(st.sampled_from(("alerts", "build", "chat", "ärger"))).map(topic_names)
CAVEATS = st.builds(Caveats, calls_max=NUMBERS, expires_at_ms=NUMBERS, generation=NUMBERS, topics=TOPICS)
bounded = settings(max_examples=60)


@bounded
@given(CAVEATS, CAVEATS, CAVEATS)
def test_meet_is_associative(a: Caveats, b: Caveats, c: Caveats) -> None:
    assert a.meet(b).meet(c) == a.meet(b.meet(c))


@bounded
@given(CAVEATS, CAVEATS)
def test_meet_is_commutative_idempotent_and_a_lower_bound(a: Caveats, b: Caveats) -> None:
    both = a.meet(b)
    assert both == b.meet(a)
    assert a.meet(a) == a
    assert both.is_within(a)
    assert both.is_within(b)


@bounded
@given(CAVEATS, CAVEATS, CAVEATS)
def test_meet_is_the_greatest_lower_bound(a: Caveats, b: Caveats, c: Caveats) -> None:
    low = a.meet(b).meet(c)
    assert low.is_within(a.meet(b))
    if c.is_within(a) and c.is_within(b):
        assert c.is_within(a.meet(b))


@bounded
@given(CAVEATS, CAVEATS, CAVEATS)
def test_being_within_is_an_order(a: Caveats, b: Caveats, c: Caveats) -> None:
    assert a.is_within(a)
    if a.is_within(b) and b.is_within(a):
        assert a == b
    if a.is_within(b) and b.is_within(c):
        assert a.is_within(c)


@bounded
@given(CAVEATS)
def test_everything_is_the_top(a: Caveats) -> None:
    assert a.is_within(EVERYTHING)
    assert EVERYTHING.meet(a) == a


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (Caveats(calls_max=0), Caveats(calls_max=1)),
        (Caveats(calls_max=1), Caveats()),
        (Caveats(expires_at_ms=1), Caveats(expires_at_ms=2)),
        (Caveats(generation=1), Caveats(generation=2)),
        (Caveats(topics=()), Caveats(topics=("alerts",))),
        (Caveats(topics=("alerts",)), Caveats(topics=("alerts", "build"))),
        (Caveats(topics=("alerts",)), Caveats()),
    ],
)
def test_a_narrower_limit_is_within_a_wider_one_and_not_the_other_way(narrow: Caveats, wide: Caveats) -> None:
    assert narrow.is_within(wide)
    assert not wide.is_within(narrow)


def test_limits_that_each_narrow_something_else_are_within_neither() -> None:
    one, other = Caveats(calls_max=1), Caveats(topics=("alerts",))
    assert not one.is_within(other)
    assert not other.is_within(one)
    assert one.meet(other) == Caveats(calls_max=1, topics=("alerts",))


@pytest.mark.parametrize(
    "text",
    [
        '{"topics": ["b", "a"]}',
        '{"topics": ["a", "a"]}',
        '{"topics": [""]}',
        '{"topics": ["a\\u0000b"]}',
        '{"topics": ["' + "t" * 201 + '"]}',
        '{"calls_max": -1}',
        '{"expires_at_ms": 253402300800000}',
        '{"generation": 9007199254740992}',
        '{"max_bytes": 1}',
    ],
)
def test_caveats_that_mean_nothing_here_are_refused(text: str) -> None:
    """A limit that this version does not know above all: passing over it would allow what it forbids."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Caveats)


def test_there_is_a_bound_on_topics() -> None:
    names = [f"t{number:03}" for number in range(limits.BUS_TOPICS_MAX + 1)]
    assert msgspec.convert({"topics": names[:-1]}, Caveats).topics == tuple(names[:-1])
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"topics": names}, Caveats)
