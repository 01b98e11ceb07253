"""The cursor file: the newest intact record counts, whatever a crash left."""

import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.client.cursor import Cursor, FileCursor
from parley.core.clock import ManualClock


def saved(path: Path, *numbers: int) -> None:
    store = FileCursor(path)
    store.load()
    for number in numbers:
        store.save(Cursor(number, "db"))
    store.close()


def test_a_cursor_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "feed.cursor"
    assert FileCursor(path).load() is None
    saved(path, 1, 2, 3)
    assert FileCursor(path).load() == Cursor(3, "db")
    saved(path, 4)
    assert FileCursor(path).load() == Cursor(4, "db")


def test_a_cursor_may_go_back_as_it_does_after_a_reset(tmp_path: Path) -> None:
    saved(tmp_path / "c", 500, 1)
    assert FileCursor(tmp_path / "c").load() == Cursor(1, "db")


def test_a_saved_cursor_is_there_for_the_next_process_without_a_close(tmp_path: Path) -> None:
    store = FileCursor(tmp_path / "c")
    store.save(Cursor(9, "db"))
    assert FileCursor(tmp_path / "c").load() == Cursor(9, "db")
    store.close()


def test_the_file_is_private(tmp_path: Path) -> None:
    saved(tmp_path / "c", 1)
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o600


def test_it_is_forced_to_disk_at_first_then_once_a_second_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    clock = ManualClock()
    store = FileCursor(tmp_path / "c", clock=clock)
    store.save(Cursor(0, "db"))
    synced.clear()  # the first save also syncs the folder
    for number in range(1, 26):
        store.save(Cursor(number, "db"))
        clock.advance(0.1)
    assert len(synced) == 2
    store.close()
    assert len(synced) == 3


def test_a_cursor_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    store = FileCursor(tmp_path / "c")
    with pytest.raises(ValueError, match="does not fit"):
        store.save(Cursor(1, "d" * 300))
    store.close()


@given(st.integers(1, 6), st.integers(0, 600), st.binary(max_size=600))
def test_a_write_that_was_cut_short_costs_one_step_at_most(
    tmp_path_factory: pytest.TempPathFactory, count: int, kept: int, garbage: bytes
) -> None:
    path = tmp_path_factory.mktemp("cursor") / "c"
    saved(path, *range(1, count + 1))
    before = path.read_bytes()
    store = FileCursor(path)
    store.load()
    store.save(Cursor(count + 1, "db"))
    store.close()
    after = path.read_bytes()
    # The record that the last save wrote, and only that, is torn: a prefix of it arrived, then something else.
    slot = (count + 1) % 2 * 256
    torn = (after[slot : slot + kept] + garbage)[:256]
    torn += before.ljust(512, b"\0")[slot + len(torn) : slot + 256]
    whole = bytearray(after)
    whole[slot : slot + 256] = torn
    path.write_bytes(whole)
    assert FileCursor(path).load() in (Cursor(count, "db"), Cursor(count + 1, "db"))


@pytest.mark.parametrize(
    "content", [b"", b"00000000 ", b"\0" * 512, b"\xff" * 256, b"%08x [1,2]" % zlib.crc32(b"[1,2]")]
)
def test_a_file_that_holds_no_cursor_is_none_and_is_used_again(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c"
    path.write_bytes(content)
    assert FileCursor(path).load() is None
    saved(path, 7)
    assert FileCursor(path).load() == Cursor(7, "db")
