"""The links of a message, as a reader of the page can click them.

The page (``hub/page/js/markdown/inline.js``) decides it in the same way, and a shared table of examples holds both to
the same answers. Text in code is no link, except a span of code that holds an address and nothing else, since agents
like to put addresses in backticks. Inside a link there is no other. Every place is looked at once, and for an address a
bounded length, so hostile text costs no more than other text of its length.
"""

import re
import string
from collections.abc import Iterator
from typing import Final

from parley.core.addresses import address_at, host_of
from parley.core.limits import URL_CHARS_MAX
from parley.core.markdown import text_blocks

_SPECIAL: Final = re.compile(r"!\[|[\\`\[\]<]|https?://", re.IGNORECASE)
_TICKS: Final = re.compile(r"`+")
_ESCAPABLE: Final = frozenset(string.punctuation)
_ANGLE: Final = re.compile(rf"<(https?://[^\s\ufeff<>]{{1,{URL_CHARS_MAX}}})>", re.IGNORECASE)
_OPENING: Final = re.compile(r"\([ \t]{0,64}(<?)(?=https?://)", re.IGNORECASE)
_CLOSING: Final = re.compile(r"(?:[ \t]{1,64}\"[^\"\n]{0,500}\")?[ \t]{0,64}\)")
_RAW: Final = re.compile(r"[()\x00- <]")
_PARENTHESES_MAX: Final = 32
_BASIC_PLANE_END: Final = "\uffff"
"""The page sees half a character where a letter beyond it precedes an address."""


def clickable_addresses(text: str) -> Iterator[str]:
    """Where each link leads, in order, as it was written."""
    for block in text_blocks(text):
        if "://" in block:
            yield from _Scanner(block).links()


class _Scanner:
    """One pass over the text of a block."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._tokens: list[str | None] = []
        """For each link where it leads, then None at its end. An opening bracket holds its place with an empty text."""
        self._brackets: list[tuple[int, bool]] = []
        """The places of the brackets that are open, and which of them are pictures."""
        self._ticks: dict[int, list[int]] = {}
        for run in _TICKS.finditer(text):
            self._ticks.setdefault(len(run[0]), []).append(run.start())
        for places in self._ticks.values():
            places.reverse()

    def links(self) -> Iterator[str]:
        """Where the links lead that are not inside another one."""
        self._scan()
        inside = 0
        for token in self._tokens:
            if token is None:
                inside -= 1
            elif token:
                if inside == 0:
                    yield token
                inside += 1

    def _scan(self) -> None:
        text = self._text
        while (found := _SPECIAL.search(text, self._at)) is not None:
            self._at = found.start()
            mark = found[0]
            if mark == "\\":
                self._at += 2 if text[self._at + 1 : self._at + 2] in _ESCAPABLE else 1
            elif mark == "`":
                self._code()
            elif mark in ("[", "!["):
                self._brackets.append((len(self._tokens), len(mark) > 1))
                self._tokens.append("")
                self._at += len(mark)
            elif mark == "]":
                self._close_bracket()
            elif mark == "<":
                self._angle()
            else:
                self._bare()

    def _link(self, address: str) -> None:
        self._tokens += (address, None)

    def _code(self) -> None:
        text = self._text
        end = self._at
        while text.startswith("`", end):
            end += 1
        length = end - self._at
        runs = self._ticks.get(length, [])
        while runs and runs[-1] < end:
            runs.pop()
        if not runs:
            self._at = end
            return
        inside = text[end : runs[-1]]
        if inside.strip() and inside[0] in " \n" and inside[-1] in " \n":
            inside = inside[1:-1]
        if address_at(inside, 0) == inside:
            self._link(inside)
        self._at = runs[-1] + length

    def _close_bracket(self) -> None:
        self._at += 1
        if not self._brackets:
            return
        place, is_picture = self._brackets.pop()
        target = _destination(self._text, self._at)
        if target is None:
            return
        self._tokens[place], self._at = target
        self._tokens.append(None)
        if not is_picture:  # no link is inside a link; but a picture, which becomes a link, may stand inside one
            self._brackets.clear()

    def _angle(self) -> None:
        found = _ANGLE.match(self._text, self._at)
        if found is None or host_of(found[1]) is None:
            self._at += 1
            return
        self._link(found[1])
        self._at = found.end()

    def _bare(self) -> None:
        before = self._text[self._at - 1 : self._at]
        in_word = before.isalnum() and before <= _BASIC_PLANE_END
        address = None if in_word else address_at(self._text, self._at, in_brackets=bool(self._brackets))
        if address is None:
            self._at += len("http")
            return
        self._link(address)
        self._at += len(address)


def _destination(text: str, at: int) -> tuple[str, int] | None:
    """The address in ``(address)`` or ``(<address> "title")``, and the place behind the closing parenthesis."""
    opening = _OPENING.match(text, at)
    if opening is None:
        return None
    begin = opening.end()
    if opening[1]:
        end = text.find(">", begin, begin + URL_CHARS_MAX)
        closing = None if end < 0 or "\n" in text[begin:end] else _CLOSING.match(text, end + 1)
    else:
        end = _end_of_raw(text, begin)
        closing = None if end < 0 else _CLOSING.match(text, end)
    if closing is None or host_of(text[begin:end]) is None:
        return None
    return text[begin:end], closing.end()


def _end_of_raw(text: str, begin: int) -> int:
    """Where an address without angle brackets ends: at a blank, or at a parenthesis that it did not open."""
    depth = 0
    for found in _RAW.finditer(text, begin, begin + URL_CHARS_MAX):
        if found[0] == "(" and depth < _PARENTHESES_MAX:
            depth += 1
        elif found[0] == "(":
            return -1
        elif found[0] == ")" and depth:
            depth -= 1
        else:
            return found.start()
    return -1
