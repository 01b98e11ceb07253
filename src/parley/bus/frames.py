"""Frames on a stream of bytes: each is its length in four bytes, then so many bytes.

A length is a claim. Nothing is set aside for a frame before it is there, so one that is announced and never sent costs
nothing, and one that is announced as too large is refused by its length alone.
"""

from collections.abc import Iterable
from typing import Final

from parley.bus.blocks import Buffer
from parley.bus.transport import Frame
from parley.core import limits
from parley.core.bus_errors import FrameTooLarge

_LENGTH_BYTES: Final = 4
_COPIED_BYTES_MAX: Final = 16 * 1024
"""What is longer is neither joined with other parts nor copied out: that would cost more than it spares."""


class FrameReader:
    """Takes bytes as they come, and gives back whole frames."""

    def __init__(self) -> None:
        self._held = bytearray()

    @property
    def is_within_frame(self) -> bool:
        """Whether a frame has begun that is not there as a whole, once ``take`` has answered None."""
        return bool(self._held)

    def feed(self, data: Buffer) -> None:
        """Adds what came."""
        self._held += data

    def take(self) -> Buffer | None:
        """The next frame, or None while it is not there as a whole. Raises ``FrameTooLarge``."""
        if len(self._held) < _LENGTH_BYTES:
            return None
        end = _LENGTH_BYTES + _checked(int.from_bytes(self._held[:_LENGTH_BYTES]))
        if len(self._held) < end:
            return None
        if end <= _COPIED_BYTES_MAX:
            frame = bytes(memoryview(self._held)[_LENGTH_BYTES:end])
            del self._held[:end]
            return frame
        whole, self._held = self._held, self._held[end:]
        return memoryview(whole)[_LENGTH_BYTES:end]


def framed(frame: Frame) -> bytes:
    """One frame as it travels. Raises ``FrameTooLarge``."""
    return b"".join(pieces_of((frame,)))


def pieces_of(frames: Iterable[Frame]) -> list[Buffer]:
    """The frames as they travel, in as few pieces as may be without copying long parts. Raises ``FrameTooLarge``."""
    pieces: list[Buffer] = []
    short = bytearray()
    for frame in frames:
        parts = frame if isinstance(frame, tuple) else (frame,)
        short += _checked(sum(map(len, parts))).to_bytes(_LENGTH_BYTES)
        for part in parts:
            if len(part) <= _COPIED_BYTES_MAX:
                short += part
            else:
                pieces += (bytes(short), part)
                short.clear()
    if short:
        pieces.append(bytes(short))
    return pieces


def _checked(length: int) -> int:
    if length > limits.BUS_FRAME_BYTES_MAX:
        raise FrameTooLarge(
            f"a frame of {length} bytes is larger than {limits.BUS_FRAME_BYTES_MAX}",
            bytes=length,
            bytes_max=limits.BUS_FRAME_BYTES_MAX,
        )
    return length
