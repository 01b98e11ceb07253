"""Putting a child into a JSON text and taking it out again, with every other byte left where it is.

A child is added after the last one, right behind its value, so taking it out again restores the text exactly. The new
lines follow the file: its line ends, its indentation, and one line where the container is written on one line.
"""

import json
import re
from typing import Any, Final

from parley.programs.jsonc import Child, Node, comments

_INDENT: Final = re.compile(r'^([ \t]+)["{\[]', re.MULTILINE)
_LEADING: Final = re.compile(r"[ \t]*")
_SAME_LINE_COMMENT: Final = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/(?=[ \t]*[\r\n]))")
_COMMENT_END: Final = re.compile(r"(//[^\r\n]*|/\*.*?\*/)(?=(?:[ \t\r\n])*\Z)", re.DOTALL)


class Style:
    """How the file is written: its line end, and by how much a level is indented."""

    def __init__(self, text: str) -> None:
        self.newline = "\r\n" if "\r\n" in text else "\n"
        found = _INDENT.search(text)
        self.unit = found[1] if found else "  "

    def render(self, value: Any, indent: str) -> str:
        """The value over several lines, the first one without indentation."""
        lines = json.dumps(value, indent=self.unit, ensure_ascii=False).split("\n")
        return (self.newline + indent).join(lines)


def add(text: str, container: Node, key: str | None, value: Any) -> str:
    """The text with a new last child; ``key`` is None in an array."""
    style = Style(text)
    if not container.children:
        return _add_first(text, container, key, value, style)
    last = container.children[-1]
    if "\n" not in text[container.start : container.end]:
        piece = " " + _member(key, json.dumps(value, ensure_ascii=False))
    else:
        indent = _indent_of(text, last.start)
        piece = style.newline + indent + _member(key, style.render(value, indent))
    end = last.end if last.comma is None else last.comma + 1
    remark = _SAME_LINE_COMMENT.match(text, end)  # it speaks of the child that was last so far
    place = remark.end() if remark else end
    if last.comma is not None:  # the file ends its lists with a comma
        return f"{text[:place]}{piece},{text[place:]}"
    return f"{text[:end]},{text[end:place]}{piece}{text[place:]}"


def replace(text: str, node: Node, value: Any) -> str:
    """The text with another value in the place of this one."""
    if "\n" not in text[node.start : node.end]:
        rendered = json.dumps(value, ensure_ascii=False)
    else:
        rendered = Style(text).render(value, _indent_of(text, node.start))
    return text[: node.start] + rendered + text[node.end :]


def take(text: str, container: Node, child: Child) -> str:
    """The text without this child. Comments around it stay: they may speak of its neighbours."""
    index = container.children.index(child)
    previous = container.children[index - 1] if index else None
    if previous is None and index == len(container.children) - 1:
        return _take_only(text, container, child)
    after_previous = container.start + 1 if previous is None else _after_comma(previous)
    start = _after_comments(text, after_previous, child.start)
    if child.comma is not None:
        end = child.comma + 1
        if start > after_previous and not text.startswith(("\n", "\r"), end):
            start = child.start  # what follows would become part of a comment
        return text[:start] + text[end:]
    assert previous is not None
    assert previous.comma is not None
    return text[: previous.comma] + text[previous.comma + 1 : start] + text[child.end :]


def is_blank_like(before: str, now: str) -> bool:
    """Whether two containers without children hold the same comments, so that one can stand for the other."""
    return comments(before[1:-1]) == comments(now[1:-1])


def _add_first(text: str, container: Node, key: str | None, value: Any, style: Style) -> str:
    outer = _indent_of(text, container.start)
    indent = outer + style.unit
    inner = text[container.start + 1 : container.end - 1].rstrip()  # blanks and comments
    body = f"{style.newline}{indent}{_member(key, style.render(value, indent))}{style.newline}{outer}"
    return text[: container.start + 1] + inner + body + text[container.end - 1 :]


def _take_only(text: str, container: Node, child: Child) -> str:
    end = child.end if child.comma is None else child.comma + 1
    before = text[container.start + 1 : child.start].rstrip()
    after = text[end : container.end - 1]
    return (
        text[: container.start + 1] + before + (after if before or comments(after) else "") + text[container.end - 1 :]
    )


def _after_comma(child: Child) -> int:
    assert child.comma is not None
    return child.comma + 1


def _after_comments(text: str, start: int, end: int) -> int:
    found = _COMMENT_END.search(text, start, end)
    return found.end() if found else start


def _member(key: str | None, rendered: str) -> str:
    return rendered if key is None else f"{json.dumps(key, ensure_ascii=False)}: {rendered}"


def _indent_of(text: str, position: int) -> str:
    """The blanks at the beginning of the line in which this position stands."""
    found = _LEADING.match(text, text.rfind("\n", 0, position) + 1)
    assert found is not None
    return found[0]
