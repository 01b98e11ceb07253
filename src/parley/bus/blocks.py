"""Binary texts of the bus: parts of fixed length, and blocks with a big-endian u32 length before them.

A ``BlockReader`` walks over bytes that a stranger sent and copies none of them. Whatever does not fit is ``Malformed``,
which each format turns into an error of its own.
"""

import struct
from typing import Final

LENGTH_BYTES: Final = 4
Buffer = bytes | bytearray | memoryview


class Malformed(Exception):
    """The bytes are not in the format that is being read."""


def block(data: bytes) -> bytes:
    """The data with its length before it."""
    return struct.pack(">I", len(data)) + data


class BlockReader:
    """Reads parts of bytes from their beginning."""

    def __init__(self, data: Buffer) -> None:
        self._data = memoryview(data)
        self._at = 0

    @property
    def left(self) -> int:
        """Bytes that were not read yet."""
        return len(self._data) - self._at

    def take(self, count: int) -> memoryview:
        """The next so many bytes."""
        if self.left < count:
            raise Malformed(f"{count} bytes are missing where {self.left} are left")
        self._at += count
        return self._data[self._at - count : self._at]

    def block(self, bytes_max: int) -> memoryview:
        """The next block."""
        length = int.from_bytes(self.take(LENGTH_BYTES))
        if length > bytes_max:
            raise Malformed(f"a block of {length} bytes is longer than {bytes_max}")
        return self.take(length)

    def end(self) -> None:
        """Nothing may follow."""
        if self.left:
            raise Malformed(f"{self.left} bytes too many")
