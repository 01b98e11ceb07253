"""Cursors of lists: what one end renders the other end parses, and nothing else is taken for one."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.core.errors import InvalidInput
from parley.wire.entities import Message
from parley.wire.paging import Position, message_cursor, offset_cursor, parse_cursor

MESSAGES = [Message(f"msg_{number}", "topic_1", "ch_1", "alice", "x", 1, "") for number in (3, 2, 1)]


def test_without_a_cursor_there_is_no_position() -> None:
    assert parse_cursor(None, "rows") == Position(None, None, None)


def test_a_page_with_more_behind_it_says_where_to_go_on() -> None:
    assert parse_cursor(message_cursor(MESSAGES, True, forwards=False), "messages") == Position(before_id="msg_1")
    assert parse_cursor(message_cursor(MESSAGES, True, forwards=True), "messages") == Position(after_id="msg_3")
    assert parse_cursor(offset_cursor(100, 50, True), "rows") == Position(offset=150)


def test_the_last_page_has_no_cursor() -> None:
    assert message_cursor([], False, forwards=True) is None
    assert offset_cursor(100, 50, False) is None


@pytest.mark.parametrize("of", ["rows", "messages"])
@pytest.mark.parametrize(
    "text", ["", ".", "o", "o.", "o.x", "o.-1", "o.٣", "o." + "9" * 16, "b.", "b.a b", "c.msg_1", "b"]
)
def test_what_nobody_gave_out_is_refused(text: str, of: Literal["rows", "messages"]) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_cursor(text, of)
    assert refused.value.details == {"field": "cursor"}


@pytest.mark.parametrize(("text", "of"), [("b.msg_1", "rows"), ("a.msg_1", "rows"), ("o.50", "messages")])
def test_a_cursor_of_another_list_is_refused_instead_of_starting_over(
    text: str, of: Literal["rows", "messages"]
) -> None:
    with pytest.raises(InvalidInput):
        parse_cursor(text, of)


@given(st.text(), st.sampled_from(["rows", "messages"]))
def test_any_text_is_a_position_or_refused(text: str, of: Literal["rows", "messages"]) -> None:
    try:
        position = parse_cursor(text, of)
    except InvalidInput:
        return
    assert sum(part is not None for part in position) == 1
