"""Lines that people paste: whatever happened to one on its way, the refusal says what."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.bus.blocks import block
from parley.bus.lines import read_line, split_lines, write_line
from parley.core import limits
from parley.core.base64url import to_base64url
from parley.core.bus_errors import LineInvalid

LINE = write_line("request", b"who is there")


def reason(text: str) -> object:
    with pytest.raises(LineInvalid) as refusal:
        read_line(text, "request")
    return refusal.value.details["reason"]


def test_a_line_carries_its_payload() -> None:
    assert read_line(LINE, "grant", "request") == ("request", b"who is there")
    assert LINE.startswith("parley-bus-request-1:")


def test_a_line_that_was_wrapped_is_still_one() -> None:
    wrapped = "\n  ".join(LINE[at : at + 20] for at in range(0, len(LINE), 20)) + "\r\n"
    assert read_line(wrapped, "request").payload == b"who is there"


def test_several_lines_are_told_apart_even_when_they_are_wrapped() -> None:
    assert split_lines(f"\n{LINE}\n\n{LINE[:30]}\n{LINE[30:]}\n") == [LINE, f"{LINE[:30]}\n{LINE[30:]}"]
    assert split_lines("") == [""]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "foreign"),
        ("parley-invite:abc", "foreign"),
        ("parley-bus-treaty-1:abc", "foreign"),
        ("parley-bus-request:abc", "foreign"),
        (LINE.replace("-1:", "-2:"), "version"),
        (write_line("grant", b"x"), "kind"),
        (LINE[:-1], "truncated"),
        (LINE[: len("parley-bus-request-1:") + 12], "truncated"),
        (LINE + "AAAA", "damaged"),
        (LINE.replace(":", ":!", 1), "damaged"),
        ("parley-bus-request-1:", "damaged"),
        ("parley-bus-request-1:" + to_base64url(block(b"x") + bytes(8)), "damaged"),
        (LINE.replace("request", "statement"), "kind"),
        (LINE + " " * limits.BUS_LINE_CHARS_MAX, "too_long"),
    ],
)
def test_a_line_that_is_not_what_was_asked_for_says_why(text: str, expected: str) -> None:
    assert reason(text) == expected


def test_a_line_does_not_become_another_kind_by_its_name() -> None:
    """The check covers the prefix."""
    with pytest.raises(LineInvalid) as refusal:
        read_line(LINE.replace("request", "statement"), "statement")
    assert refusal.value.details["reason"] == "damaged"


def test_no_cut_and_no_changed_character_passes() -> None:
    for length in range(len(LINE)):
        assert reason(LINE[:length]) in ("foreign", "truncated", "damaged")
    for at in range(len(LINE) - 1):  # of the last character some bits are of no byte
        other = "A" if LINE[at] != "A" else "B"
        assert reason(LINE[:at] + other + LINE[at + 1 :])


@settings(max_examples=200)
@given(st.text(max_size=80) | st.text(max_size=80).map(lambda text: "parley-bus-request-1:" + text))
def test_no_text_raises_anything_else(text: str) -> None:
    assert reason(text)


def test_the_largest_statement_fits_into_a_line() -> None:
    assert len(write_line("statement", bytes(80 * limits.BUS_REVOKED_MAX))) <= limits.BUS_LINE_CHARS_MAX
