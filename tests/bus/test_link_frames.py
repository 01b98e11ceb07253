"""The frames of a link as bytes: each as it is documented, and nothing else."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.bus.blocks import block
from parley.bus.envelope import Envelope
from parley.bus.link_frames import (
    Alive,
    Answer,
    Hello,
    Refusal,
    Statements,
    Topics,
    decode_frame,
    encode_frame,
)
from parley.core import limits
from parley.core.bus_errors import BusError, FrameTooLarge, LinkInvalid
from tests.bus.agents import envelope_of

HELLO = Hello(b"i" * 16, 7, b"chain", ("alerts", "größe"), (b"one", b"two"))
EVERY_FRAME = [
    HELLO,
    Answer(5, "accepted"),
    Answer(5, "duplicate"),
    Answer(2**64 - 1, "bad_sequence", expected=2**64 - 1),
    Answer(5, "refused", refusal=Refusal("BUS_PEER_BUSY", True)),
    Topics(("alerts",)),
    Topics(()),
    Statements((b"one",)),
    Alive(),
    Refusal("BUS_REVOKED", False),
]


@pytest.mark.parametrize("frame", EVERY_FRAME, ids=lambda frame: type(frame).__name__)
def test_a_frame_is_read_as_it_was_written(frame: Hello) -> None:
    assert decode_frame(encode_frame(frame)) == frame


def test_the_bytes_are_those_that_are_documented() -> None:
    topics = struct.pack(">H", 2) + block(b"alerts") + block("größe".encode())
    statements = b"\2" + block(b"one") + block(b"two")
    assert encode_frame(HELLO) == b"\1\1" + b"i" * 16 + struct.pack(">I", 7) + block(b"chain") + topics + statements
    refused = Answer(5, "refused", refusal=Refusal("BUS_X", True))
    assert encode_frame(refused) == b"\2" + struct.pack(">Q", 5) + b"\3" + b"\1" + block(b"BUS_X")
    assert encode_frame(Answer(5, "bad_sequence", expected=9)) == b"\2" + struct.pack(">QBQ", 5, 2, 9)
    assert encode_frame(Alive()) == b"\5"


def test_an_envelope_is_a_frame_of_its_own() -> None:
    assert isinstance(decode_frame(envelope_of()), Envelope)


@pytest.mark.parametrize("frame", EVERY_FRAME, ids=lambda frame: type(frame).__name__)
def test_a_frame_that_is_cut_off_or_goes_on_is_refused(frame: Hello) -> None:
    whole = encode_frame(frame)
    for length in range(len(whole)):
        with pytest.raises(LinkInvalid):
            decode_frame(whole[:length])
    with pytest.raises(LinkInvalid):
        decode_frame(whole + b"\0")


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"\1\2" + encode_frame(HELLO)[2:], id="a version that is not known"),
        pytest.param(b"\2" + bytes(8) + b"\4", id="an outcome that is not known"),
        pytest.param(b"\7", id="a kind that is not known"),
        pytest.param(b"\3\xff\xff", id="too many topics"),
        pytest.param(b"\3" + struct.pack(">HI", 1, 2**32 - 1), id="a topic that promises four gigabytes"),
        pytest.param(b"\3\0\1" + block(b""), id="a topic without a name"),
        pytest.param(b"\3\0\1" + block(b"a\nb"), id="a topic of two lines"),
        pytest.param(b"\3\0\1" + block(b"\xff"), id="a topic that is no text"),
        pytest.param(b"\3\0\1" + block(b"x" * 201), id="a topic that is too long"),
        pytest.param(b"\4\xff", id="too many statements"),
        pytest.param(b"\6\2" + block(b"BUS_X"), id="a refusal that is neither transient nor not"),
        pytest.param(b"\6\1" + block(b"no code"), id="a refusal without a code"),
        pytest.param(b"\6\1" + block(b"B" * 65), id="a refusal with a long code"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_what_no_peer_may_say_is_refused(frame: bytes) -> None:
    with pytest.raises(LinkInvalid):
        decode_frame(frame)


def test_a_frame_beyond_the_limit_is_refused() -> None:
    with pytest.raises(FrameTooLarge):
        decode_frame(envelope_of() + bytes(limits.BUS_FRAME_BYTES_MAX))


@settings(max_examples=500)
@given(
    st.binary(max_size=200) | st.tuples(st.integers(0, 7), st.binary(max_size=80)).map(lambda p: bytes(p[:1]) + p[1])
)
def test_no_bytes_raise_anything_but_our_errors(data: bytes) -> None:
    try:
        frame = decode_frame(data)
    except BusError:
        return
    assert not isinstance(frame, Envelope)
    assert encode_frame(frame) == data
