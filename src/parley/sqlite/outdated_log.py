"""A log that was cut short and would take its database back in time.

SQLite reads a log from its beginning to the first frame that does not fit, and believes what it finds more than the
database. After a cut, what is left of the log may all have been moved into the database before, and more that followed
it. Read again, such a log hides newer pages behind older ones, and the next checkpoint destroys them. Emptied, it hides
nothing: the database is as it was when the last checkpoint had moved its last frame.
"""

import os
import struct
from pathlib import Path
from typing import BinaryIO, Final, Literal

_HEAD: Final = struct.Struct(">IIIIIIII")
"""Magic, version, page size, number of the checkpoint, two salts, two sums."""
_FRAME_HEAD: Final = struct.Struct(">IIIIII")
"""Page, pages of the database if the frame ends a commit, two salts, two sums."""
_ORDERS: Final[dict[int, Literal["<", ">"]]] = {0x377F0682: "<", 0x377F0683: ">"}
_SUMMED: Final = 8
"""Of a frame's head, the bytes that its sums cover; its page follows."""
_MASK: Final = 0xFFFF_FFFF


def empty_if_outdated(log: Path, moved_frames: int) -> bool:
    """Empties the log if what SQLite would read of it ends before what was ``moved`` into the database."""
    try:
        with log.open("r+b") as file:
            if not 0 < _readable(file, moved_frames) < moved_frames:
                return False
            file.truncate(0)
            os.fsync(file.fileno())
    except OSError:
        return False
    return True


def _readable(file: BinaryIO, enough: int) -> int:
    """The number of the frame that ends the last commit that is whole; 0 for none. Stops where it is ``enough``."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return 0
    magic, _, page_bytes, _, *salts_and_sums = _HEAD.unpack(head)
    salts, sums, order = salts_and_sums[:2], salts_and_sums[2:], _ORDERS.get(magic)
    frames = commit = 0
    while order is not None and commit < enough and len(head := file.read(_FRAME_HEAD.size)) == _FRAME_HEAD.size:
        _, pages, *salts_and_sums = _FRAME_HEAD.unpack(head)
        sums = _sums(head[:_SUMMED] + file.read(page_bytes), sums, order)
        if salts_and_sums != [*salts, *sums]:
            break
        frames += 1
        commit = frames if pages else commit
    return commit


def _sums(data: bytes, sums: list[int], order: Literal["<", ">"]) -> list[int]:
    one, two = sums
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data[: len(data) // 4 * 4]))
    for first, second in zip(words, words, strict=False):
        one = (one + first + two) & _MASK
        two = (two + second + one) & _MASK
    return [one, two]
