"""Frames on a stream of bytes: each is its length in four bytes, then so many bytes.

A length is a claim. Nothing is set aside for a frame before it is there, so one that is announced and never sent costs
nothing, and one that is announced as too large is refused by its length alone.
"""

from typing import Final

from parley.core import limits
from parley.core.bus_errors import FrameTooLarge

_LENGTH_BYTES: Final = 4


class FrameReader:
    """Takes bytes as they come, and gives back whole frames."""

    def __init__(self) -> None:
        self._held = bytearray()

    @property
    def is_within_frame(self) -> bool:
        """Whether a frame has begun that is not there as a whole, once ``take`` has answered None."""
        return bool(self._held)

    def feed(self, data: bytes) -> None:
        """Adds what came."""
        self._held += data

    def take(self) -> bytes | None:
        """The next frame, or None while it is not there as a whole. Raises ``FrameTooLarge``."""
        if len(self._held) < _LENGTH_BYTES:
            return None
        end = _LENGTH_BYTES + _checked(int.from_bytes(self._held[:_LENGTH_BYTES]))
        if len(self._held) < end:
            return None
        frame = bytes(memoryview(self._held)[_LENGTH_BYTES:end])
        del self._held[:end]
        return frame


def framed(frame: bytes) -> bytes:
    """The frame as it travels. Raises ``FrameTooLarge``."""
    return _checked(len(frame)).to_bytes(_LENGTH_BYTES) + frame


def _checked(length: int) -> int:
    if length > limits.BUS_FRAME_BYTES_MAX:
        raise FrameTooLarge(
            f"a frame of {length} bytes is larger than {limits.BUS_FRAME_BYTES_MAX}",
            bytes=length,
            bytes_max=limits.BUS_FRAME_BYTES_MAX,
        )
    return length
