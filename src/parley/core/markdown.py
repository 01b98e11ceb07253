"""The blocks of a message, as far as they decide what is text and what is code.

The page (``hub/page/js/markdown/blocks.js``) draws a small Markdown: paragraphs, headings, lists, quotes, tables and
fenced code, with a line break where one was written. This cuts a message at the same places, since a mark of formatting
in one block has no partner in another. Containers nest at most ``DEPTH_MAX`` deep and each level reads its lines once,
so the work is bounded by the length of the text times that depth.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

DEPTH_MAX: Final = 12
_COLUMNS_MAX: Final = 64
_ITEM_INDENT: Final = 2
_TAB: Final = 4

_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")
_RULE: Final = re.compile(r"[ \t]*([-*_])(?:[ \t]*\1){2,}[ \t]*")
_HEADING: Final = re.compile(r"[ \t]*#{1,6}(?:[ \t]+|$)")
_QUOTE: Final = re.compile(r"[ \t]*> ?")
_ITEM: Final = re.compile(r"([ \t]*)([-*+]|[0-9]{1,9}[.)])([ \t]+|$)")
_FENCE: Final = re.compile(r"[ \t]*(`{3,}|~{3,})")
_TASK: Final = re.compile(r"\[[ xX]\](?=[ \t]|$)[ \t]*")
_DIVIDER: Final = re.compile(r":?-+:?")
_PIPE: Final = re.compile(r"(?<!\\)\|")


def text_blocks(text: str) -> Iterator[str]:
    """The pieces of the text within which formatting is paired: paragraphs, headings, cells. Code is left out."""
    return _leaves(_LINE_BREAK.split(text), 0)


def _leaves(lines: list[str], depth: int) -> Iterator[str]:
    paragraph: list[str] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        block = _block(lines, index, depth, after_text=bool(paragraph)) if line.strip() else _Block([], [], index + 1)
        if block is None:
            paragraph.append(line)
            index += 1
            continue
        if paragraph:
            yield "\n".join(paragraph)
            paragraph = []
        yield from block.leaves
        for inner in block.containers:
            yield from _leaves(inner, depth + 1)
        index = block.next
    if paragraph:
        yield "\n".join(paragraph)


class _Block(NamedTuple):
    """What begins at a line: its texts, or the lines of what it contains, and the line behind it."""

    leaves: list[str]
    containers: list[list[str]]
    next: int


def _block(lines: list[str], index: int, depth: int, *, after_text: bool) -> _Block | None:
    line = lines[index]
    fence = _fence(lines, index)
    if fence is not None:
        return fence
    heading = _HEADING.match(line)
    if heading is not None:
        return _Block([_heading_text(line, heading.end())], [], index + 1)
    if _RULE.fullmatch(line):
        return _Block([], [], index + 1)
    if depth < DEPTH_MAX:
        container = _quote(lines, index) or _list(lines, index, after_text=after_text)
        if container is not None:
            return container
    return _table(lines, index)


def _fence(lines: list[str], index: int) -> _Block | None:
    found = _FENCE.match(lines[index])
    if found is None or (found[1][0] == "`" and "`" in lines[index][found.end() :]):
        return None
    mark = found[1]
    for place in range(index + 1, len(lines)):
        line = lines[place].strip()
        if len(line) >= len(mark) and line == mark[0] * len(line):
            return _Block([], [], place + 1)
    return _Block([], [], len(lines))


def _heading_text(line: str, start: int) -> str:
    text = line[start:].rstrip()
    bare = text.rstrip("#")
    return bare.rstrip() if not bare or bare[-1] in " \t" else text


def _quote(lines: list[str], index: int) -> _Block | None:
    inner: list[str] = []
    while index < len(lines) and (found := _QUOTE.match(lines[index])) is not None:
        inner.append(lines[index][found.end() :])
        index += 1
    return _Block([], [inner], index) if inner else None


class _Marker(NamedTuple):
    ordered: bool
    number: int
    indent: int
    length: int
    content: int
    empty: bool


def _marker(line: str) -> _Marker | None:
    found = _ITEM.match(line)
    if found is None:
        return None
    ordered = found[2][0].isdigit()
    indent = _columns(found[1])
    return _Marker(
        ordered,
        int(found[2][:-1]) if ordered else 1,
        indent,
        found.end(),
        indent + len(found[2]) + min(max(len(found[3]), 1), _TAB),
        found.end() == len(line),
    )


def _list(lines: list[str], index: int, *, after_text: bool) -> _Block | None:
    first = marker = _marker(lines[index])
    # A number that happens to begin a line of prose ("1984. A year ...") does not break the prose into a list.
    if first is None or (after_text and (first.empty or (first.ordered and first.number != 1))):
        return None
    items: list[list[str]] = []
    while marker is not None and marker.ordered == first.ordered:
        item, index = _item(lines, index, marker)
        items.append(item)
        after = _skip_blank(lines, index)
        following = lines[after] if after < len(lines) else ""
        marker = None if _RULE.fullmatch(following) else _marker(following)
        if marker is not None and marker.ordered == first.ordered:
            index = after
    return _Block([], items, index)


def _item(lines: list[str], index: int, marker: _Marker) -> tuple[list[str], int]:
    text = lines[index][marker.length :]
    task = _TASK.match(text)
    item = [text[task.end() :] if task else text]
    index += 1
    while index < len(lines):
        after = _skip_blank(lines, index)
        if after == len(lines) or _columns(lines[after]) < marker.indent + _ITEM_INDENT:
            break
        item += [_without_indent(line, marker.content) for line in lines[index : after + 1]]
        index = after + 1
    return item, index


def _table(lines: list[str], index: int) -> _Block | None:
    if "|" not in lines[index] or index + 1 >= len(lines):
        return None
    divider = lines[index + 1]
    if "-" not in divider or "|" not in divider:
        return None
    marks = [mark.strip() for mark in divider.strip().removeprefix("|").removesuffix("|").split("|")]
    cells = _cells(lines[index])
    if not len(cells) == len(marks) <= _COLUMNS_MAX or not all(map(_DIVIDER.fullmatch, marks)):
        return None
    index += 2
    while index < len(lines) and "|" in lines[index]:
        cells += _cells(lines[index])
        index += 1
    return _Block(cells, [], index)


def _cells(line: str) -> list[str]:
    begin = len(line) - len(line.lstrip(" \t"))
    begin += line.startswith("|", begin)
    cells = _PIPE.split(line[begin:])
    if len(cells) > 1 and not cells[-1].strip():
        cells.pop()
    return [cell.strip(" \t") for cell in cells]


def _skip_blank(lines: list[str], index: int) -> int:
    while index < len(lines) and not lines[index].strip():
        index += 1
    return index


def _columns(text: str) -> int:
    return _indent(text, len(text) * _TAB)[1]


def _without_indent(line: str, columns: int) -> str:
    return line[_indent(line, columns)[0] :]


def _indent(line: str, columns: int) -> tuple[int, int]:
    """How many blanks make up so many columns, or all there are, and their width."""
    at = width = 0
    while at < len(line) and width < columns and line[at] in " \t":
        width += _TAB - width % _TAB if line[at] == "\t" else 1
        at += 1
    return at, width
