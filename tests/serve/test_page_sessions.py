"""Session cookies: what they look like, what is recognised, and what ends them."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.core.clock import ManualClock
from parley.core.errors import InvalidAuth, MissingAuth
from parley.core.ids import new_token
from parley.core.limits import PAGE_SESSION_SECONDS
from parley.serve import PageSessions, TokenStore

IDENTITY = "be32682a-c8f1-4197-911b-26cabce526cf"
NAME = f"parley_{IDENTITY}"
GRACE_SECONDS = 300.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "token"


@pytest.fixture
def tokens(path: Path, clock: ManualClock) -> TokenStore:
    return stored(path, clock)


@pytest.fixture
def sessions(tokens: TokenStore, clock: ManualClock) -> PageSessions:
    return PageSessions(tokens, clock, IDENTITY)


def stored(path: Path, clock: ManualClock) -> TokenStore:
    made = TokenStore(path, clock, GRACE_SECONDS)
    made.load()
    return made


def started(sessions: PageSessions) -> bytes:
    """The cookie as a browser sends it back."""
    return sessions.start(secure=False).partition(";")[0].encode()


def value_of(cookie: bytes) -> bytes:
    return cookie.partition(b"=")[2]


def test_a_session_is_a_cookie_that_no_script_reads_and_no_other_site_sends(
    tokens: TokenStore, clock: ManualClock
) -> None:
    sessions = PageSessions(tokens, clock, IDENTITY, lambda: "an-id-of-24-characters-x")
    cookie, *attributes = sessions.start(secure=False).split("; ")
    assert attributes == ["Max-Age=2592000", "HttpOnly", "SameSite=Strict", "Path=/"]
    assert sessions.start(secure=True).split("; ")[1:] == [*attributes, "Secure"]
    name, _, value = cookie.partition("=")
    assert name == sessions.cookie_name == NAME
    session_id, expiry, signature = value.split(".")
    assert session_id == "an-id-of-24-characters-x"
    assert int(expiry) == clock.now_ms() // 1000 + PAGE_SESSION_SECONDS
    assert len(bytes.fromhex(signature)) == 32
    assert tokens.current not in cookie


def test_two_sessions_differ(sessions: PageSessions) -> None:
    assert started(sessions) != started(sessions)


def test_the_end_of_a_session_clears_the_same_cookie(sessions: PageSessions) -> None:
    cleared = f"{NAME}=; Max-Age=0; HttpOnly; SameSite=Strict; Path=/"
    assert sessions.end(secure=False) == cleared
    assert sessions.end(secure=True) == f"{cleared}; Secure"


def test_a_session_is_found_among_other_cookies(sessions: PageSessions) -> None:
    cookie = started(sessions)
    for cookies in (cookie, b"a=1; " + cookie, cookie + b"; theme=dark", b"a=1;" + cookie + b";b", b"  " + cookie):
        assert sessions.find(cookies) == value_of(cookie)


@pytest.mark.parametrize(
    "cookies", [None, b"", b"a=1; b=2", f"{NAME}x=1".encode(), f"x{NAME}=1".encode(), f"{NAME}=".encode()]
)
def test_without_a_cookie_of_ours_authentication_is_missing(sessions: PageSessions, cookies: bytes | None) -> None:
    with pytest.raises(MissingAuth):
        sessions.find(cookies)


def forgeries(value: bytes) -> Iterator[bytes]:
    session_id, expiry, signature = value.split(b".")
    yield b".".join([session_id, b"%d" % (int(expiry) + 1), signature])
    yield b".".join([session_id, b"0" + expiry, signature])
    yield b".".join([session_id[:-1] + (b"A" if session_id[-1:] != b"A" else b"B"), expiry, signature])
    yield b".".join([session_id, expiry, signature[::-1]])
    yield b".".join([session_id, expiry, signature.upper()])
    yield b".".join([session_id, expiry, b"0" * 64])
    yield b".".join([session_id, expiry])
    yield b".".join([session_id, expiry, signature, b"x"])
    yield b".".join([session_id, "٣".encode() * 10, signature])
    yield b'"' + value + b'"'
    yield value + b"0"
    yield b"\xff" * 100


TELLING_BYTES = 8
"""A letter of a session also stands in the refusal's own words."""


def test_a_forged_session_is_refused(sessions: PageSessions) -> None:
    value = value_of(started(sessions))
    forged = [*forgeries(value), *(value[:length] for length in range(1, len(value)))]
    for each in forged:
        assert not sessions.is_valid(each), each
        with pytest.raises(InvalidAuth) as refused:
            sessions.find(NAME.encode() + b"=" + each)
        if len(each) >= TELLING_BYTES:
            assert each.decode("latin-1") not in str(refused.value)
    assert sessions.is_valid(value)


@given(st.binary(max_size=200))
def test_no_text_that_we_did_not_sign_is_a_session(tmp_path_factory: pytest.TempPathFactory, value: bytes) -> None:
    clock = ManualClock()
    sessions = PageSessions(stored(tmp_path_factory.mktemp("t") / "token", clock), clock, IDENTITY)
    assert not sessions.is_valid(value)


def test_a_session_ends_after_30_days(sessions: PageSessions, clock: ManualClock) -> None:
    cookie = started(sessions)
    clock.advance(30 * 24 * 3600 - 1)
    assert sessions.find(cookie)
    clock.advance(1)
    with pytest.raises(InvalidAuth):
        sessions.find(cookie)


def test_a_session_outlives_a_restart(sessions: PageSessions, path: Path, clock: ManualClock) -> None:
    cookie = started(sessions)
    again = PageSessions(stored(path, clock), clock, IDENTITY)
    assert again.find(cookie) == value_of(cookie)


def test_a_session_of_another_server_is_refused_even_with_the_same_token(
    sessions: PageSessions, tokens: TokenStore, tmp_path: Path, clock: ManualClock
) -> None:
    value = value_of(started(sessions))
    copied = PageSessions(tokens, clock, "another-identity")
    assert copied.cookie_name != sessions.cookie_name
    assert not copied.is_valid(value)
    foreign = PageSessions(stored(tmp_path / "other", clock), clock, IDENTITY)
    assert not foreign.is_valid(value)


def test_a_rotation_ends_the_sessions_of_the_old_token_after_its_grace_period(
    sessions: PageSessions, tokens: TokenStore, clock: ManualClock
) -> None:
    before = value_of(started(sessions))
    tokens.rotate()
    after = value_of(started(sessions))
    clock.advance(GRACE_SECONDS - 1)
    assert sessions.is_valid(before)
    clock.advance(1)
    assert not sessions.is_valid(before)
    assert sessions.is_valid(after)


def test_a_rotation_while_the_server_is_stopped_ends_its_sessions_at_once(
    sessions: PageSessions, path: Path, clock: ManualClock
) -> None:
    value = value_of(started(sessions))
    path.write_text(new_token())
    assert not PageSessions(stored(path, clock), clock, IDENTITY).is_valid(value)


def test_a_cookie_that_another_server_of_the_host_planted_does_not_shadow_ours(sessions: PageSessions) -> None:
    cookie = started(sessions)
    planted = f"{NAME}=planted".encode()
    assert sessions.find(planted + b"; " + cookie) == value_of(cookie)
    assert sessions.find(b"; ".join([*[planted] * 7, cookie])) == value_of(cookie)
    with pytest.raises(InvalidAuth):  # a header full of them costs us no more than a few signatures
        sessions.find(b"; ".join([*[planted] * 8, cookie]))


@pytest.mark.parametrize("identity", ["", "two words", "a\r\nSet-Cookie: x=1", "a;b", "ü", "a" * 65])
def test_an_identity_that_is_no_plain_name_cannot_reach_a_header(
    tokens: TokenStore, clock: ManualClock, identity: str
) -> None:
    numbers = count()
    sessions = PageSessions(tokens, clock, identity, lambda: f"an-id-that-is-long-{next(numbers)}")
    assert sessions.cookie_name.removeprefix("parley_").isalnum()
    assert sessions.find(started(sessions))
    assert not PageSessions(tokens, clock, identity + "x").is_valid(value_of(started(sessions)))
