"""A TOML file of an agent program with one table of ours.

The table is put at the end of the file. A line-wise reader that knows no more than where a statement ends finds it
again; whether the result says what was meant is not believed but read back with the standard library's parser, and a
file in which it does not is refused.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from parley.programs import tail
from parley.programs.json_file import BOM, Facts, holds

_TABLE: Final = "table"
"""The fact that holds the table as it was, when there was one before ours."""


class NotToml(ValueError):
    """The text is not TOML, or not in a form that a table can be added to."""


class Statement(NamedTuple):
    """A header or a key with its value: its place, and the names in it."""

    start: int
    end: int
    is_header: bool
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TomlFile:
    """What of a TOML file is ours: one table and the keys that it must have."""

    path: tuple[str, ...]
    values: Mapping[str, Any]

    def install(self, text: str | None, facts: Facts) -> str:
        """The text with our table as it should be. Raises ``NotToml``."""
        if text is None or not text.removeprefix(BOM).strip():
            facts[""] = text
            return (BOM if text and text.startswith(BOM) else "") + self._block()
        document = _parse(text)
        there = self._in(document)
        if there is not None and holds(there, dict(self.values)):
            return text
        changed = tail.append(text, self._block(), facts) if there is None else self._repair(text, facts)
        self._verify(document, changed)
        return changed

    def remove(self, text: str, facts: Facts, *, recorded: bool) -> str | None:
        """The text without our table; None when the file goes with it. Raises ``NotToml``."""
        if not text.removeprefix(BOM).strip() or self._in(_parse(text)) is None:
            return text
        if facts.get(_TABLE) is not None:
            start, end = self._extent(text)
            return text[:start] + str(facts[_TABLE]) + text[end:]
        changed = text
        while (place := self._last_table(changed)) is not None:
            changed = tail.cut(changed, *place, facts, recorded=recorded)
        if self._in(_parse(changed)) is not None:
            raise NotToml(f"{'.'.join(self.path)} is not written as a table of its own")
        if not changed.removeprefix(BOM).strip() and ("" in facts or not recorded):
            return facts.get("")
        return changed

    def _block(self) -> str:
        lines = [f"[{'.'.join(self.path)}]", *(f"{key} = {_render(value)}" for key, value in self.values.items())]
        return "\n".join(lines) + "\n"

    def _repair(self, text: str, facts: Facts) -> str:
        """The keys that we hold to, written again where the table stands."""
        start, end = self._extent(text)
        facts.setdefault(_TABLE, None if tail.TAIL in facts or "" in facts else text[start:end])
        newline = tail.newline_of(text)
        header, *keys = [each for each in statements(text) if start <= each.start < end]
        missing = {key: f"{key} = {_render(value)}" for key, value in self.values.items()}
        pieces: list[str] = []
        position = header.end
        for key in keys:
            pieces.append(text[position : key.start])  # comments and blank lines
            line_end = newline if text[: key.end].endswith("\n") else ""
            if key.path[0] not in self.values:
                pieces.append(text[key.start : key.end])
            elif key.path[0] in missing:
                pieces.append(missing.pop(key.path[0]) + line_end)
            position = key.end
        head = text[header.start : header.end]
        head += "" if head.endswith("\n") else newline
        return text[:start] + head + "".join(line + newline for line in missing.values()) + "".join(pieces) + text[end:]

    def _extent(self, text: str) -> tuple[int, int]:
        """From the table's header to the end of its last key."""
        found: tuple[int, int] | None = None
        for statement in statements(text):
            if statement.is_header:
                if found is not None:
                    break
                if statement.path == self.path:
                    found = statement.start, statement.end
            elif found is not None:
                found = found[0], statement.end
        if found is None:
            raise NotToml(f"{'.'.join(self.path)} is not written as a table of its own")
        return found

    def _last_table(self, text: str) -> tuple[int, int] | None:
        """The last table that is ours, or below ours."""
        found: tuple[int, int] | None = None
        inside = False
        for statement in statements(text):
            if statement.is_header:
                inside = statement.path[: len(self.path)] == self.path
                if inside:
                    found = statement.start, statement.end
            elif inside and found is not None:
                found = found[0], statement.end
        return found

    def _verify(self, before: dict[str, Any], text: str) -> None:
        """Nothing but our table may have changed, as a program that reads the file sees it."""
        after = _parse(text)
        ours = self._in(after)
        if ours is None or not holds(ours, dict(self.values)) or self._without(after) != self._without(before):
            raise NotToml(f"{'.'.join(self.path)} cannot be added to how the file is written")

    def _in(self, document: dict[str, Any]) -> dict[str, Any] | None:
        value: Any = document
        for name in self.path:
            if not isinstance(value, dict):
                raise NotToml(f"{'.'.join(self.path[:-1])} is not a table")
            value = cast("dict[str, Any]", value).get(name)
            if value is None:
                return None
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}

    def _without(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document with our table left out, and its parents too where nothing else is in them."""
        return _left_out(document, self.path)


def statements(text: str) -> Iterator[Statement]:
    """The headers and keys of a TOML text, in order. Raises ``NotToml``."""
    position = 1 if text.startswith(BOM) else 0
    while position < len(text):
        end = _line_end(text, position)
        line = text[position:end]
        if line.strip() and not line.lstrip().startswith("#"):
            while (parsed := _try(text[position:end])) is None:  # a text or a list over several lines
                if end == len(text):
                    raise NotToml(f"line {text.count(chr(10), 0, position) + 1} has no end")
                end = _line_end(text, end)
            yield Statement(position, end, line.lstrip().startswith("["), _only_path(parsed))
        position = end


def _only_path(parsed: dict[str, Any]) -> tuple[str, ...]:
    """The names in a header or before an equals sign."""
    path: list[str] = []
    value: Any = parsed
    while isinstance(value, dict) and len(cast("dict[str, Any]", value)) == 1:
        [(key, value)] = cast("dict[str, Any]", value).items()
        path.append(key)
        if isinstance(value, list):  # [[a list of tables]]
            value = None
    return tuple(path)


def _left_out(document: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    name, *rest = path
    if name not in document:
        return document
    inner = _left_out(document[name], tuple(rest)) if rest and isinstance(document[name], dict) else {}
    others = {key: value for key, value in document.items() if key != name}
    return {**others, name: inner} if inner else others


def _line_end(text: str, position: int) -> int:
    found = text.find("\n", position)
    return len(text) if found < 0 else found + 1


def _try(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix(BOM))
    except tomllib.TOMLDecodeError as error:
        raise NotToml(str(error)) from None


def _render(value: Any) -> str:
    """A text or a list of texts; JSON writes both as TOML does."""
    return json.dumps(value, ensure_ascii=False)
