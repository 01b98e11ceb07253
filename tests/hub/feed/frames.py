"""Reading what a hub writes to a feed's socket."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
CONTINUATION = 0x0


class Received(NamedTuple):
    """One frame. The hub sends every frame whole and unmasked."""

    opcode: int
    payload: bytes

    @property
    def close_code(self) -> int:
        return struct.unpack("!H", self.payload[:2])[0]

    @property
    def close_reason(self) -> str:
        return self.payload[2:].decode()


def split_frames(data: bytes) -> Iterator[Received]:
    """The frames in these bytes, which must end with one."""
    position = 0
    while position < len(data):
        first, length = data[position], data[position + 1]
        position += 2
        assert first & 0xF0 == 0x80, "a frame of the hub is whole and uses no extension"
        assert length < 128, "a frame of the hub is not masked"
        if length == 126:
            (length,) = struct.unpack_from("!H", data, position)
            assert length > 125, "a length is written in the shortest way"
            position += 2
        elif length == 127:
            (length,) = struct.unpack_from("!Q", data, position)
            assert length > 65_535, "a length is written in the shortest way"
            position += 8
        assert position + length <= len(data)
        yield Received(first & 0x0F, data[position : position + length])
        position += length
