"""Where a list goes on: the opaque ``cursor`` of a page, the same whether the hub or a reader of the file made it.

A letter, a dot and a position: ``o.50`` skips 50 rows, ``b.msg_1`` goes on before that message, ``a.msg_1`` after it.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from parley.core.errors import InvalidInput
from parley.core.ids import is_id
from parley.wire.entities import Message

_OFFSET_DIGITS_MAX: Final = 15
"""More rows than a JSON number counts exactly are in no list."""


class Position(NamedTuple):
    """What a cursor stands for; at most one is set, and none without a cursor."""

    offset: int | None = None
    before_id: str | None = None
    after_id: str | None = None


def parse_cursor(text: str | None, of: Literal["rows", "messages"]) -> Position:
    """The position in a cursor. Raises ``InvalidInput`` for one that no list of this kind gave out."""
    if text is None:
        return Position()
    letter, dot, position = text.partition(".")
    if dot and is_id(position) and (letter == "o") == (of == "rows"):
        if letter == "b":
            return Position(before_id=position)
        if letter == "a":
            return Position(after_id=position)
        if letter == "o" and position.isdecimal() and len(position) <= _OFFSET_DIGITS_MAX:
            return Position(offset=int(position))
    raise InvalidInput("cursor is not one that this list gave", field="cursor")


def offset_cursor(offset: int, limit: int, has_more: bool) -> str | None:
    """The cursor of a page that was found by skipping rows."""
    return f"o.{offset + limit}" if has_more else None


def message_cursor(messages: Sequence[Message], has_more: bool, *, forwards: bool) -> str | None:
    """The cursor of a page of messages, newest first, that grows towards the newer or the older ones."""
    if not has_more:
        return None
    return f"a.{messages[0].id}" if forwards else f"b.{messages[-1].id}"
