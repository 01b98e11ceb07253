"""JSON with comments, read together with where everything stands in the text.

The files of agent programs are written by people, with comments, trailing commas and an order of their own. To change
one value without touching the rest, its place in the text must be known. What no reader of such files would accept is
refused here with the line where it stands.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

_BLANK: Final = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_COMMENT: Final = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_DEPTH_MAX: Final = 200
"""Far deeper than any config, far shallower than Python's own stack."""


class NotJson(ValueError):
    """The text is not JSON, also not with comments and trailing commas. The message names the line."""


@dataclass(slots=True)
class Node:
    """A value and its place: ``text[start:end]``. An object's children have keys."""

    start: int
    end: int
    value: Any
    children: "list[Child]" = field(default_factory=list["Child"])

    @property
    def is_object(self) -> bool:
        return isinstance(self.value, dict)

    @property
    def is_array(self) -> bool:
        return isinstance(self.value, list)


@dataclass(slots=True)
class Child:
    """A member of an object or an item of an array. ``start`` is where its key begins, or the item."""

    start: int
    key: str
    node: Node
    comma: int | None = None
    """Where the comma after it stands; None without one."""

    @property
    def end(self) -> int:
        return self.node.end


def parse(text: str) -> Node:
    """The one value of the text, with its places. Raises ``NotJson``."""
    reader = _Reader(text)
    node = reader.value(reader.blank(0), 0)
    after = reader.blank(node.end)
    if after != len(text):
        raise reader.error("something follows the end", after)
    return node


def comments(text: str) -> list[str]:
    """The comments of a text that holds nothing but them and blanks."""
    return _COMMENT.findall(text)


def find(node: Node, key: str) -> Child | None:
    """The member with this key. Raises ``NotJson`` when there are two, since readers differ in which one counts."""
    found = [child for child in node.children if child.key == key]
    if len(found) > 1:
        raise NotJson(f'the key "{key}" is there twice')
    return found[0] if found else None


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text

    def error(self, what: str, position: int) -> NotJson:
        return NotJson(f"line {self.text.count(chr(10), 0, position) + 1}: {what}")

    def blank(self, position: int) -> int:
        found = _BLANK.match(self.text, position)
        assert found is not None
        return found.end()

    def value(self, position: int, depth: int) -> Node:
        opening = self.text[position : position + 1]
        if depth > _DEPTH_MAX:
            raise self.error("too many levels", position)
        if opening == "{":
            return self._container(position, depth, "}")
        if opening == "[":
            return self._container(position, depth, "]")
        if opening == '"':
            word, end = self._string(position)
            return Node(position, end, word)
        found = _SCALAR.match(self.text, position)
        if found is None:
            raise self.error("a value is missing", position)
        return Node(position, found.end(), json.loads(found[0]))

    def _string(self, position: int) -> tuple[str, int]:
        found = _STRING.match(self.text, position)
        if found is None:
            raise self.error("a text has no end", position)
        try:
            return json.loads(found[0]), found.end()
        except json.JSONDecodeError as error:
            raise self.error(error.msg, position) from None

    def _container(self, start: int, depth: int, closing: str) -> Node:
        children: list[Child] = []
        position = self.blank(start + 1)
        while self.text[position : position + 1] != closing:
            if children and children[-1].comma is None:
                raise self.error("a comma is missing", position)
            child = self._member(position, depth) if closing == "}" else self._item(position, depth)
            children.append(child)
            position = self.blank(child.end)
            if self.text[position : position + 1] == ",":
                child.comma = position
                position = self.blank(position + 1)
        if closing == "}":
            return Node(start, position + 1, {child.key: child.node.value for child in children}, children)
        return Node(start, position + 1, [child.node.value for child in children], children)

    def _item(self, position: int, depth: int) -> Child:
        return Child(position, "", self.value(position, depth + 1))

    def _member(self, position: int, depth: int) -> Child:
        if self.text[position : position + 1] != '"':
            raise self.error("a key is missing", position)
        key, end = self._string(position)
        colon = self.blank(end)
        if self.text[colon : colon + 1] != ":":
            raise self.error("a colon is missing", colon)
        return Child(position, key, self.value(self.blank(colon + 1), depth + 1))
