"""The circuit breaker by itself, on a clock that the test turns."""

from parley.hub.derived.breaker import Breaker


def test_it_opens_with_the_last_of_so_many_failures_in_a_row() -> None:
    breaker = Breaker(3, 60.0)
    assert [breaker.failed(0.0) for _ in range(3)] == [False, False, True]
    assert breaker.is_open
    assert breaker.wait_seconds(20.0) == 40.0


def test_a_success_in_between_starts_the_count_again() -> None:
    breaker = Breaker(2, 60.0)
    assert breaker.failed(0.0) is False
    breaker.succeeded()
    assert breaker.failed(0.0) is False
    assert not breaker.is_open
    assert breaker.wait_seconds(0.0) == 0.0


def test_after_its_time_it_is_still_open_and_lets_somebody_try() -> None:
    breaker = Breaker(1, 60.0)
    breaker.failed(0.0)
    assert breaker.wait_seconds(60.0) == 0.0
    assert breaker.is_open


def test_a_trial_that_fails_opens_it_again_for_its_whole_time_and_is_no_news() -> None:
    breaker = Breaker(2, 60.0)
    breaker.failed(0.0)
    assert breaker.failed(0.0) is True
    assert breaker.failed(100.0) is False
    assert breaker.wait_seconds(100.0) == 60.0


def test_a_trial_that_succeeds_closes_it_and_forgets_all_failures() -> None:
    breaker = Breaker(2, 60.0)
    breaker.failed(0.0)
    breaker.failed(0.0)
    breaker.succeeded()
    assert not breaker.is_open
    assert breaker.failed(100.0) is False
    assert breaker.failed(100.0) is True
