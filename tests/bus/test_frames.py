"""Frames come out as they went in, however the stream is cut, and a length alone costs nothing."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.bus.frames import FrameReader, framed, pieces_of
from parley.core import limits
from parley.core.bus_errors import FrameTooLarge


@given(st.lists(st.binary(max_size=300), max_size=20), st.integers(1, 50))
def test_frames_come_out_whole_and_in_order(frames: list[bytes], step: int) -> None:
    stream = b"".join(map(framed, frames))
    reader, found = FrameReader(), []
    for start in range(0, len(stream), step):
        reader.feed(stream[start : start + step])
        while (frame := reader.take()) is not None:
            found.append(frame)
    assert found == frames
    assert not reader.is_within_frame


def test_a_frame_that_is_cut_off_does_not_come_out() -> None:
    reader = FrameReader()
    reader.feed(framed(b"whole") + framed(b"cut off")[:-1])
    assert reader.take() == b"whole"
    assert reader.take() is None
    assert reader.is_within_frame


def test_the_largest_frame_is_taken_and_one_byte_more_is_refused() -> None:
    largest = bytes(limits.BUS_FRAME_BYTES_MAX)
    reader = FrameReader()
    reader.feed(framed(largest))
    assert reader.take() == largest
    with pytest.raises(FrameTooLarge):
        framed(largest + b"!")


def test_a_frame_that_is_too_large_is_refused_by_its_length_alone() -> None:
    reader = FrameReader()
    reader.feed((limits.BUS_FRAME_BYTES_MAX + 1).to_bytes(4))
    with pytest.raises(FrameTooLarge):
        reader.take()


def test_a_frame_that_is_announced_and_not_sent_takes_no_memory() -> None:
    reader = FrameReader()
    tracemalloc.start()
    try:
        reader.feed(limits.BUS_FRAME_BYTES_MAX.to_bytes(4) + b"a beginning")
        assert reader.take() is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024


def test_short_parts_are_joined_and_long_ones_are_passed_on_as_they_are() -> None:
    long = bytes(100_000)
    pieces = pieces_of([b"one", (b"head", long), b"two"])
    assert [len(each) for each in pieces] == [4 + 3 + 4 + 4, 100_000, 4 + 3]
    assert pieces[1] is long
    reader = FrameReader()
    reader.feed(b"".join(pieces))
    assert [reader.take() for _ in range(4)] == [b"one", b"head" + long, b"two", None]
