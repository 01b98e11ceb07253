"""The token file: private, stable, rotated with grace, and never shown."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.core.clock import ManualClock
from parley.core.errors import WorkspaceUnsafe
from parley.core.exits import Exit
from parley.core.ids import new_token
from parley.serve import Reloaded, TokenStore
from parley.serve.token import unusable_because

GRACE_SECONDS = 300.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "token"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(path: Path, clock: ManualClock) -> TokenStore:
    made = TokenStore(path, clock, GRACE_SECONDS)
    assert made.load() == ()
    return made


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_first_load_makes_a_private_file_with_256_random_bits(store: TokenStore, path: Path) -> None:
    assert mode(path) == 0o600
    assert len(bytes.fromhex(store.current)) == 32
    assert path.read_text().strip() == store.current


def test_the_file_is_private_even_under_a_generous_umask(path: Path, clock: ManualClock) -> None:
    before = os.umask(0)
    try:
        TokenStore(path, clock, 0).load()
    finally:
        os.umask(before)
    assert mode(path) == 0o600


def test_the_token_survives_a_restart(store: TokenStore, path: Path, clock: ManualClock) -> None:
    again = TokenStore(path, clock, GRACE_SECONDS)
    again.load()
    assert again.current == store.current


def test_the_token_matches_as_bytes_and_as_text(store: TokenStore) -> None:
    assert store.matches(store.current)
    assert store.matches(store.current.encode())


@given(st.text() | st.binary())
def test_nothing_else_matches(tmp_path_factory: pytest.TempPathFactory, candidate: str | bytes) -> None:
    store = TokenStore(tmp_path_factory.getbasetemp() / "shared-token", ManualClock(), GRACE_SECONDS)
    store.load()
    assert not store.matches(candidate)


@pytest.mark.parametrize("wrong", ["", "\ud800", "ü" * 64])
def test_what_cannot_be_a_token_does_not_match(store: TokenStore, wrong: str) -> None:
    assert not store.matches(wrong)


def test_a_part_of_the_token_or_more_than_it_does_not_match(store: TokenStore) -> None:
    assert not store.matches(store.current[:-1])
    assert not store.matches(store.current + "0")
    assert not store.matches(store.current.upper() + " ")


def test_before_loading_not_even_the_empty_token_matches(path: Path, clock: ManualClock) -> None:
    assert not TokenStore(path, clock, GRACE_SECONDS).matches(b"")


def test_a_wrong_mode_is_fixed_with_a_warning_that_holds_no_token(
    store: TokenStore, path: Path, clock: ManualClock
) -> None:
    path.chmod(0o644)
    again = TokenStore(path, clock, GRACE_SECONDS)
    (warning,) = again.load()
    assert mode(path) == 0o600
    assert "0644" in warning
    assert "parley token rotate" in warning
    assert store.current not in warning
    assert again.current == store.current


def test_after_a_rotation_both_tokens_match_until_the_grace_period_ends(store: TokenStore, clock: ManualClock) -> None:
    before = store.current
    store.rotate()
    assert store.current != before
    assert store.matches(store.current)
    assert store.matches(before)
    clock.advance(GRACE_SECONDS - 0.001)
    assert store.matches(before)
    clock.advance(0.001)
    assert not store.matches(before)
    assert store.matches(store.current)


def test_the_grace_period_does_not_follow_a_jump_of_the_wall_clock(store: TokenStore, clock: ManualClock) -> None:
    before = store.current
    store.rotate()
    clock.jump(10**9)
    assert store.matches(before)
    clock.jump(-(10**10))
    clock.advance(GRACE_SECONDS)
    assert not store.matches(before)


def test_two_rotations_give_each_token_its_own_grace_period(store: TokenStore, clock: ManualClock) -> None:
    first = store.current
    store.rotate()
    clock.advance(GRACE_SECONDS / 2)
    second = store.current
    store.rotate()
    assert store.matches(first)
    assert store.matches(second)
    clock.advance(GRACE_SECONDS / 2)
    assert not store.matches(first)
    assert store.matches(second)


def test_with_no_grace_the_old_token_ends_at_once(path: Path, clock: ManualClock) -> None:
    store = TokenStore(path, clock, 0.0)
    store.load()
    before = store.current
    store.rotate()
    assert not store.matches(before)


def test_a_rotation_by_another_process_is_noticed_and_gets_the_same_grace(
    store: TokenStore, path: Path, clock: ManualClock
) -> None:
    before = store.current
    other = TokenStore(path, clock, GRACE_SECONDS)
    other.load()
    other.rotate()
    assert not store.matches(other.current)
    assert store.reload() == Reloaded(True)
    assert store.matches(other.current)
    assert store.matches(before)
    clock.advance(GRACE_SECONDS)
    assert not store.matches(before)


def test_a_reload_of_an_unchanged_file_changes_nothing(store: TokenStore, path: Path) -> None:
    assert store.reload() == Reloaded(False)
    os.utime(path, ns=(1, 1))
    assert store.reload() == Reloaded(False)
    assert store.matches(store.current)


def test_a_token_that_comes_back_is_current_and_not_also_previous(
    store: TokenStore, path: Path, clock: ManualClock
) -> None:
    first = store.current
    store.rotate()
    path.write_text(first)
    assert store.reload() == Reloaded(True)
    assert store.current == first
    clock.advance(GRACE_SECONDS)
    assert store.matches(first)


def test_a_reload_without_a_usable_file_keeps_the_token_and_warns(store: TokenStore, path: Path) -> None:
    before = store.current
    path.write_text("short")
    changed, (warning,) = store.reload()
    assert not changed
    assert "no usable token" in warning
    path.unlink()
    changed, (warning,) = store.reload()
    assert not changed
    assert "was written again" in warning
    assert path.read_text().strip() == before
    path.write_text("")
    changed, (warning,) = store.reload()
    assert not changed
    assert "was written again" in warning
    assert path.read_text().strip() == before
    path.unlink()
    path.symlink_to(path.with_name("elsewhere"))
    assert "Cannot read" in store.reload().warnings[0]
    assert store.reload().warnings == (), "what stays wrong is told of once"
    assert store.matches(before)


def test_a_reload_also_fixes_the_mode(store: TokenStore, path: Path) -> None:
    path.unlink()
    path.write_text(new_token())
    path.chmod(0o666)
    changed, (warning,) = store.reload()
    assert changed
    assert "0666" in warning
    assert mode(path) == 0o600


@pytest.mark.parametrize("content", [b"", b"\n", b"short", b"x" * 31, b"with spaces " * 8, b"\xff" * 64, b"y" * 2000])
def test_a_file_without_a_usable_token_stops_the_start(path: Path, clock: ManualClock, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(WorkspaceUnsafe, match="remove it") as refused:
        TokenStore(path, clock, GRACE_SECONDS).load()
    assert refused.value.exit_code == Exit.WORKSPACE_UNSAFE == 25
    assert path.read_bytes() == content


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_something_else_in_place_of_the_file_stops_the_start_and_stays(
    path: Path, clock: ManualClock, make: Callable[[Path], None]
) -> None:
    make(path)
    before = mode(path)
    with pytest.raises(WorkspaceUnsafe, match="remove it"):
        TokenStore(path, clock, GRACE_SECONDS).load()
    assert mode(path) == before
    assert unusable_because(path) is not None


def test_a_token_that_a_person_chose_is_kept(path: Path, clock: ManualClock) -> None:
    path.write_text("  correct-horse-battery-staple-and-more\n")
    path.chmod(0o600)
    store = TokenStore(path, clock, GRACE_SECONDS)
    store.load()
    assert store.matches("correct-horse-battery-staple-and-more")


def test_a_link_in_place_of_the_token_file_stops_the_start(path: Path, tmp_path: Path, clock: ManualClock) -> None:
    (tmp_path / "elsewhere").write_text(new_token())
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorkspaceUnsafe, match="cannot be used"):
        TokenStore(path, clock, GRACE_SECONDS).load()


def test_the_token_is_not_in_repr(store: TokenStore) -> None:
    assert store.current not in repr(store)
    assert "token" in repr(store)


def test_a_signature_is_of_its_data_its_purpose_and_its_token(store: TokenStore, tmp_path: Path) -> None:
    signature = store.sign(b"purpose", b"data")
    assert store.verify(b"purpose", b"data", signature)
    assert not store.verify(b"purpose", b"dat", signature)
    assert not store.verify(b"purposed", b"ata", signature)
    assert not store.verify(b"", b"purposedata", signature)
    assert not store.verify(b"purpose", b"data", signature[:-1])
    other = TokenStore(tmp_path / "other", ManualClock(), GRACE_SECONDS)
    other.load()
    assert not other.verify(b"purpose", b"data", signature)
    assert store.current.encode() not in signature.hex().encode() + signature


def test_a_signature_lives_as_long_as_the_token_that_made_it(store: TokenStore, clock: ManualClock) -> None:
    signature = store.sign(b"purpose", b"data")
    store.rotate()
    assert store.sign(b"purpose", b"data") != signature
    assert store.verify(b"purpose", b"data", signature)
    clock.advance(GRACE_SECONDS)
    assert not store.verify(b"purpose", b"data", signature)


def test_a_store_without_a_token_verifies_nothing(path: Path, clock: ManualClock) -> None:
    empty = TokenStore(path, clock, GRACE_SECONDS)
    assert not empty.verify(b"purpose", b"data", empty.sign(b"purpose", b"data"))
