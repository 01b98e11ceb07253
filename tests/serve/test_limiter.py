"""The rate limiter against its promise: burst plus rate, per key and overall, and nothing kept for the idle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from parley.core.clock import ManualClock
from parley.serve import RateLimiter

BUSY = 10**6


def test_one_second_of_requests_may_come_at_once_and_no_more() -> None:
    limiter = RateLimiter(5, BUSY, ManualClock())
    decisions = [limiter.take("a") for _ in range(7)]
    assert [decision.allowed for decision in decisions] == [True] * 5 + [False] * 2
    assert [decision.remaining for decision in decisions] == [4, 3, 2, 1, 0, 0, 0]
    assert {decision.limit for decision in decisions} == {5}


def test_keys_are_independent_below_the_overall_limit() -> None:
    limiter = RateLimiter(2, BUSY, ManualClock())
    assert [limiter.take("a").allowed for _ in range(3)] == [True, True, False]
    assert [limiter.take("b").allowed for _ in range(3)] == [True, True, False]


def test_all_keys_together_stay_below_the_overall_limit() -> None:
    limiter = RateLimiter(2, 5, ManualClock())
    decisions = [limiter.take(f"key-{number}") for number in range(6)]
    assert [decision.allowed for decision in decisions] == [True] * 5 + [False]
    assert [decision.remaining for decision in decisions[:5]] == [1, 1, 1, 1, 0]
    assert decisions[5].limit == 5
    assert decisions[5].retry_after == pytest.approx(0.2)


def test_a_refusal_by_the_overall_limit_takes_nothing_from_the_key() -> None:
    clock = ManualClock()
    limiter = RateLimiter(1, 1, clock)
    assert limiter.take("a").allowed
    assert not limiter.take("b").allowed
    clock.advance(1.0)
    assert limiter.take("b").allowed


def test_refusals_do_not_push_the_next_chance_away() -> None:
    clock = ManualClock()
    limiter = RateLimiter(2, BUSY, clock)
    for _ in range(100):
        limiter.take("a")
    clock.advance(0.5)
    assert limiter.take("a").allowed
    assert not limiter.take("a").allowed


@given(
    limit=st.integers(1, 1000), spent=st.integers(0, 2000), pause=st.floats(0, 3), overall=st.sampled_from([7, BUSY])
)
def test_waiting_as_told_always_helps(limit: int, spent: int, pause: float, overall: int) -> None:
    clock = ManualClock()
    limiter = RateLimiter(limit, overall, clock)
    for _ in range(spent):
        limiter.take("a")
    clock.advance(pause)
    decision = limiter.take("a")
    while decision.allowed:
        decision = limiter.take("a")
    assert 0 < decision.retry_after <= 1 / min(limit, overall) + 1e-9
    clock.advance(decision.retry_after + 1e-9)
    assert limiter.take("a").allowed


def test_reset_is_the_unix_second_by_which_the_bucket_is_full() -> None:
    clock = ManualClock(now_ms=1_700_000_000_000)
    limiter = RateLimiter(10, BUSY, clock)
    assert limiter.take("a").reset_unix_seconds == 1_700_000_001
    for _ in range(10):
        refused = limiter.take("a")
    assert not refused.allowed
    assert refused.reset_unix_seconds == 1_700_000_001


def test_reset_follows_a_jump_of_the_wall_clock_within_a_second() -> None:
    clock = ManualClock(now_ms=1_700_000_000_000)
    limiter = RateLimiter(10, BUSY, clock)
    limiter.take("a")
    clock.jump(3_600_000)
    clock.advance(1.0)
    assert limiter.take("a").reset_unix_seconds == 1_700_003_602


def test_after_a_second_without_requests_the_bucket_is_full_again() -> None:
    clock = ManualClock()
    limiter = RateLimiter(3, BUSY, clock)
    for _ in range(5):
        limiter.take("a")
    clock.advance(1.0)
    assert [limiter.take("a").allowed for _ in range(4)] == [True, True, True, False]


def test_keys_that_fell_silent_are_forgotten() -> None:
    clock = ManualClock()
    limiter = RateLimiter(10, BUSY, clock)
    for number in range(1000):
        limiter.take(f"key-{number}")
    assert len(limiter) == 1000
    clock.advance(1.0)
    limiter.take("one")
    clock.advance(1.0)
    limiter.take("one")
    assert len(limiter) <= 2
    limiter.take("two")
    clock.advance(5.0)
    limiter.take("one")
    assert len(limiter) == 1


def test_memory_is_bounded_by_what_was_let_in_not_by_what_was_asked() -> None:
    limiter = RateLimiter(10, 50, ManualClock())
    for number in range(10_000):
        limiter.take(f"key-{number}")
    assert len(limiter) == 50


def test_a_connection_is_a_key_by_its_address_and_port() -> None:
    limiter = RateLimiter(1, BUSY, ManualClock())
    assert limiter.take(("127.0.0.1", 5001)).allowed
    assert limiter.take(("127.0.0.1", 5002)).allowed
    assert not limiter.take(("127.0.0.1", 5001)).allowed


def test_a_very_long_name_is_cut_before_it_is_kept() -> None:
    limiter = RateLimiter(1, BUSY, ManualClock())
    assert limiter.take("x" * 200 + "a").allowed
    assert not limiter.take("x" * 60_000).allowed
    assert limiter.take("x" * 199).allowed
    assert len(limiter) == 2


@pytest.mark.parametrize(("per_key", "overall"), [(0, 1), (1, 0), (-1, 1)])
def test_a_limit_that_lets_nothing_through_is_a_mistake(per_key: int, overall: int) -> None:
    with pytest.raises(ValueError, match="lets nothing through"):
        RateLimiter(per_key, overall, ManualClock())


class Limits(RuleBasedStateMachine):
    """Random traffic; in every window of any length no more than burst + rate x length is let in."""

    per_key, overall = 5, 8

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.limiter = RateLimiter(self.per_key, self.overall, self.clock)
        self.let_in: list[tuple[float, str]] = []

    @rule(key=st.sampled_from("abc"), times=st.integers(1, 12))
    def ask(self, key: str, times: int) -> None:
        for _ in range(times):
            if self.limiter.take(key).allowed:
                self.let_in.append((self.clock.monotonic(), key))

    @rule(seconds=st.floats(0.0, 2.5))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def no_window_holds_too_many(self) -> None:
        for key, limit in (("a", self.per_key), ("b", self.per_key), ("c", self.per_key), (None, self.overall)):
            times = [at for at, who in self.let_in if key in (None, who)]
            for first, start in enumerate(times):
                for last in range(first, len(times)):
                    assert last - first + 1 <= limit * (1 + times[last] - start) + 1e-6


TestLimits = Limits.TestCase


@given(pauses=st.lists(st.floats(0.0, 0.4), max_size=60))
def test_whoever_stays_below_the_rate_is_never_refused(pauses: list[float]) -> None:
    clock = ManualClock()
    limiter = RateLimiter(4, BUSY, clock)
    for pause in pauses:
        clock.advance(0.25 + pause)
        assert limiter.take("a").allowed
