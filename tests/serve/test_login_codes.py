"""One-time codes: once, for five minutes, a bounded number, and in no log."""

import re
from itertools import count

import pytest

from parley.core.clock import ManualClock
from parley.core.limits import LOGIN_CODE_SECONDS, LOGIN_CODES_MAX
from parley.serve import LoginCodes
from parley.serve.redact import scrub


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def codes(clock: ManualClock) -> LoginCodes:
    return LoginCodes(clock)


def test_a_code_works_once(codes: LoginCodes) -> None:
    code = codes.issue()
    assert codes.redeem(code)
    assert not codes.redeem(code)
    assert len(codes) == 0


def test_a_code_has_192_random_bits_that_a_link_holds_without_escapes(codes: LoginCodes) -> None:
    issued = {codes.issue() for _ in range(10)}
    assert len(issued) == 10
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{32}", code) for code in issued)


def test_a_code_ends_after_five_minutes(codes: LoginCodes, clock: ManualClock) -> None:
    in_time, late = codes.issue(), codes.issue()
    clock.advance(LOGIN_CODE_SECONDS - 0.001)
    assert codes.redeem(in_time)
    clock.advance(0.001)
    assert not codes.redeem(late)
    assert len(codes) == 0


def test_a_clock_that_is_set_does_not_change_how_long_a_code_lives(codes: LoginCodes, clock: ManualClock) -> None:
    code = codes.issue()
    clock.jump(365 * 24 * 3600 * 1000)
    assert codes.redeem(code)


def test_each_code_is_by_itself(codes: LoginCodes) -> None:
    first, second = codes.issue(), codes.issue()
    assert codes.redeem(second)
    assert codes.redeem(first)


def test_what_was_never_issued_is_refused_and_uses_up_nothing(codes: LoginCodes) -> None:
    code = codes.issue()
    for wrong in ("", code[:-1], f"{code}x", code.swapcase(), "ü" * 32, "\udcff", "a" * 10_000):
        assert not codes.redeem(wrong)
    assert codes.redeem(code)


def test_the_oldest_code_gives_way_to_one_too_many(clock: ManualClock) -> None:
    numbers = count()
    codes = LoginCodes(clock, lambda: f"a-code-that-is-long-enough-{next(numbers)}")
    issued = [codes.issue() for _ in range(LOGIN_CODES_MAX + 1)]
    assert len(codes) == LOGIN_CODES_MAX
    assert not codes.redeem(issued[0])
    assert codes.redeem(issued[1])
    assert codes.redeem(issued[-1])


def test_no_log_line_holds_a_code_while_it_is_of_use(codes: LoginCodes, clock: ManualClock) -> None:
    used, outdated = codes.issue(), codes.issue()
    for code in (used, outdated):
        assert code.encode() not in scrub(f'{{"url":"http://127.0.0.1/ui#code={code}"}}'.encode())
        assert code not in repr(codes)
    codes.redeem(used)
    clock.advance(LOGIN_CODE_SECONDS)
    codes.issue()
    for code in (used, outdated):
        assert scrub(code.encode()) == code.encode(), "a line is not searched for what is of no use any more"
