"""What an envelope carries, as bytes."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.bus.message import BusMessage, Publish, Reply, Request, decode_message, encode_message
from parley.core.bus_errors import EnvelopeInvalid

ID = bytes(range(16))


@pytest.mark.parametrize(
    ("message", "data"),
    [
        (Request("build", b"body", 500), b"\1" + struct.pack(">IH", 500, 5) + b"build" + b"body"),
        (Reply(ID, "answered", b"body"), b"\2" + ID + b"\0" + b"body"),
        (Reply(ID, "no_handler"), b"\2" + ID + b"\1"),
        (Reply(ID, "failed"), b"\2" + ID + b"\2"),
        (Publish("größe", b""), b"\3\0\7" + "größe".encode()),
    ],
)
def test_a_message_has_the_bytes_that_are_documented(message: BusMessage, data: bytes) -> None:
    assert encode_message(message) == data
    assert decode_message(data) == message


@pytest.mark.parametrize(
    "data",
    [b"", b"\4", b"\1\0\0", b"\2" + ID, b"\2" + ID + b"\3", b"\3\0\0", b"\3\0\2a", b"\3\0\1\n", b"\3\0\1\xff"],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(EnvelopeInvalid):
        decode_message(data)


@given(st.binary(max_size=100))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    try:
        message = decode_message(data)
    except EnvelopeInvalid:
        return
    assert encode_message(message) == data
