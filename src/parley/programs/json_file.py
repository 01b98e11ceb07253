"""A JSON file of an agent program with entries of ours among the user's own.

Three kinds of things are ours: an *entry* is a member of an object under a name of ours (a server in ``mcpServers``),
an *item* is an element of a list that runs a command of ours (a hook), and a *base* is a member that the file needs to
be valid at all. Whoever adds to an entry or an item keeps what was added; only what we ask for is held to.

``Facts`` remember what stood in a place before: None for nothing, else the very text. With them a removal gives back
what was there, an empty list or a missing file included. Without them, on another machine, whatever is empty goes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from parley.programs import json_text
from parley.programs.jsonc import Child, Node, NotJson, comments, find, parse

Facts = dict[str, str | None]
"""What was there before, by place: ``""`` is the file, ``/`` its outermost object, ``/a/b`` a member."""
BOM: Final = "\ufeff"
_EMPTY_FILE: Final = "{}\n"


@dataclass(frozen=True, slots=True)
class Entry:
    """A member that is ours, under the last name of the path."""

    path: tuple[str, ...]
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Item:
    """An element that is ours, in the list at the path."""

    path: tuple[str, ...]
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JsonFile:
    """What of a JSON file is ours, and how to put it there and take it back."""

    is_ours: Callable[[str], bool]
    """Whether a command, as it stands in the file, is one of ours."""
    entries: tuple[Entry, ...] = ()
    items: tuple[Item, ...] = ()
    base: tuple[tuple[str, Any], ...] = ()

    def install(self, text: str | None, facts: Facts) -> str:
        """The text with everything of ours as it should be. Raises ``NotJson``."""
        mark, body = _split_mark(text)
        if text is None or not body.strip():
            facts[""] = text
            body = _EMPTY_FILE
        editor = _Editor(body, facts, recorded=True)
        for key, value in self.base:
            editor.ensure_base(key, value)
        for entry in self.entries:
            editor.ensure_entry(entry)
        for item in self.items:
            editor.ensure_item(item, self.is_ours)
        return mark + editor.text

    def remove(self, text: str, facts: Facts, *, recorded: bool) -> str | None:
        """The text without anything of ours; None when the file goes with it. Raises ``NotJson``."""
        mark, body = _split_mark(text)
        if not body.strip():
            return text
        editor = _Editor(body, facts, recorded=recorded)
        for item in self.items:
            editor.drop_items(item.path, self.is_ours)
        for entry in self.entries:
            editor.drop_entry(entry.path)
        if editor.text == body:
            return text
        return editor.finish(mark, frozenset(key for key, _ in self.base))


def holds(value: Any, wanted: Any) -> bool:
    """Whether a value is as we want it; members that somebody added are none of our business."""
    if isinstance(wanted, dict):
        expected = cast("dict[str, Any]", wanted)
        return isinstance(value, dict) and all(key in value and holds(value[key], expected[key]) for key in expected)
    if isinstance(wanted, list):
        items = cast("list[Any]", wanted)
        if not isinstance(value, list) or len(cast("list[Any]", value)) != len(items):
            return False
        return all(map(holds, cast("list[Any]", value), items))
    return type(value) is type(wanted) and value == wanted


class _Editor:
    """The text of one file while it is changed; read anew after each change, so no place is ever out of date."""

    def __init__(self, text: str, facts: Facts, *, recorded: bool) -> None:
        self.text = text
        self.facts = facts
        self.recorded = recorded
        self._parsed: tuple[str, Node] | None = None
        self._root()

    def ensure_base(self, key: str, value: Any) -> None:
        root = self._root()
        if find(root, key) is None:
            self._note_empty(root, ())
            self.facts[_place((key,))] = None
            self.text = json_text.add(self.text, root, key, value)

    def ensure_entry(self, entry: Entry) -> None:
        parent = self._walk(entry.path[:-1], entry.path, dict(entry.value))
        if parent is None:
            return
        there = find(parent, entry.path[-1])
        place = _place(entry.path)
        if there is None:
            self._note_empty(parent, entry.path[:-1])
            self.facts[place] = None
            self.text = json_text.add(self.text, parent, entry.path[-1], dict(entry.value))
        elif not holds(there.node.value, dict(entry.value)):
            self.facts.setdefault(place, self.text[there.node.start : there.node.end])
            kept = cast("dict[str, Any]", there.node.value) if there.node.is_object else {}
            self.text = json_text.replace(self.text, there.node, {**kept, **entry.value})

    def ensure_item(self, item: Item, is_ours: Callable[[str], bool]) -> None:
        array = self._walk(item.path, item.path, [dict(item.value)])
        if array is None:
            return
        ours = [child for child in array.children if runs_ours(child.node.value, is_ours)]
        if len(ours) == 1 and holds(ours[0].node.value, dict(item.value)):
            return
        whole = [child for child in ours if _all_ours(child.node.value, is_ours)]
        if not whole:  # none, or only beside somebody else's command in one element
            self._drop(item.path, is_ours, keep=None)
            array = self._container(item.path)
            assert array is not None
            self._note_empty(array, item.path)
            self.text = json_text.add(self.text, array, None, dict(item.value))
            return
        self.text = json_text.replace(self.text, whole[0].node, dict(item.value))
        self._drop(item.path, is_ours, keep=array.children.index(whole[0]))

    def drop_entry(self, path: tuple[str, ...]) -> None:
        parent = self._container(path[:-1])
        there = None if parent is None or not parent.is_object else find(parent, path[-1])
        if parent is None or there is None:
            return
        before = self.facts.get(_place(path))
        if before is not None:
            self.text = self.text[: there.node.start] + before + self.text[there.end :]
            return
        self.text = json_text.take(self.text, parent, there)
        self._close_up(path[:-1])

    def drop_items(self, path: tuple[str, ...], is_ours: Callable[[str], bool]) -> None:
        array = self._container(path)
        if array is None or not array.is_array or not any(runs_ours(item, is_ours) for item in array.value):
            return
        self._drop(path, is_ours, keep=None)
        self._close_up(path)

    def finish(self, mark: str, base: frozenset[str]) -> str | None:
        """The text when all of ours is gone: what the file was before, if nobody else put anything into it."""
        root = self._root()
        added = [child.key for child in root.children if child.key in base and self._was_nothing((child.key,))]
        only_base = all(child.key in base for child in root.children)
        file_was_ours = self._was_nothing(())
        if added and (only_base or not file_was_ours):
            for key in added:
                root = self._root()
                child = find(root, key)
                assert child is not None
                self.text = json_text.take(self.text, root, child)
            root = self._root()
        if root.children:
            return mark + self.text
        if not comments(self.text) and ("" in self.facts or not self.recorded):
            return self.facts.get("")
        before = self.facts.get("/")
        if before is not None and json_text.is_blank_like(before, self.text[root.start : root.end]):
            self.text = self.text[: root.start] + before + self.text[root.end :]
        return mark + self.text

    def _drop(self, path: tuple[str, ...], is_ours: Callable[[str], bool], *, keep: int | None) -> None:
        """Takes out what runs a command of ours, last first; an element with a foreign command loses only ours."""
        array = self._container(path)
        assert array is not None
        for index in reversed(range(len(array.children))):
            array = self._container(path)
            assert array is not None
            child = array.children[index]
            if index == keep or not runs_ours(child.node.value, is_ours):
                continue
            if _all_ours(child.node.value, is_ours):
                self.text = json_text.take(self.text, array, child)
            else:
                self._drop_inner(child, is_ours)

    def _drop_inner(self, group: Child, is_ours: Callable[[str], bool]) -> None:
        start = group.node.start
        while True:
            handlers = find(_node_at(self._root(), start), "hooks")
            assert handlers is not None
            ours = [child for child in handlers.node.children if _all_ours(child.node.value, is_ours)]
            if not ours:
                return
            self.text = json_text.take(self.text, handlers.node, ours[-1])

    def _walk(self, to: tuple[str, ...], path: tuple[str, ...], value: Any) -> Node | None:
        """The container at ``to``; None when it was not there and is now made, with the value in it."""
        node = self._root()
        for depth, key in enumerate(to):
            child = find(node, key)
            if child is None:
                self._note_empty(node, to[:depth])
                for name in reversed(path[depth + 1 :]):
                    value = {name: value}
                for made in range(depth + 1, len(path) + 1):
                    self.facts[_place(path[:made])] = None
                self.text = json_text.add(self.text, node, key, value)
                return None
            node = child.node
            wants_array = to == path and depth == len(to) - 1
            if not (node.is_array if wants_array else node.is_object):
                raise NotJson(f'"{".".join(to[: depth + 1])}" is not {"a list" if wants_array else "an object"}')
        return node

    def _container(self, path: tuple[str, ...]) -> Node | None:
        node = self._root()
        for key in path:
            child = find(node, key) if node.is_object else None
            if child is None:
                return None
            node = child.node
        return node

    def _close_up(self, path: tuple[str, ...]) -> None:
        """Gives back what an emptied container was before, and so on outwards."""
        while path:
            node, parent = self._container(path), self._container(path[:-1])
            if node is None or parent is None or node.children:
                return
            if self._was_nothing(path) and not comments(self.text[node.start : node.end]):
                child = find(parent, path[-1])
                assert child is not None
                self.text = json_text.take(self.text, parent, child)
                path = path[:-1]
                continue
            before = self.facts.get(_place(path))
            if before is not None and json_text.is_blank_like(before, self.text[node.start : node.end]):
                self.text = self.text[: node.start] + before + self.text[node.end :]
            return

    def _note_empty(self, container: Node, path: tuple[str, ...]) -> None:
        if not container.children and not (path == () and "" in self.facts):
            self.facts[_place(path)] = self.text[container.start : container.end]

    def _was_nothing(self, path: tuple[str, ...]) -> bool:
        place = _place(path) if path else ""
        return self.facts.get(place) is None if place in self.facts else not self.recorded

    def _root(self) -> Node:
        if self._parsed is None or self._parsed[0] is not self.text:
            self._parsed = (self.text, parse(self.text))
        root = self._parsed[1]
        if not root.is_object:
            raise NotJson("the outermost value is not an object")
        return root


def runs_ours(value: Any, is_ours: Callable[[str], bool]) -> bool:
    """Whether an element of a list of hooks runs a command of ours, by itself or in its own list."""
    return any(is_ours(command) for command in _commands(value))


def _all_ours(value: Any, is_ours: Callable[[str], bool]) -> bool:
    commands = _commands(value)
    return bool(commands) and all(map(is_ours, commands))


def _commands(value: Any) -> list[str]:
    """The commands of an element; an inner handler without one counts as somebody's."""
    if not isinstance(value, dict):
        return []
    element = cast("dict[str, Any]", value)
    inner = element.get("hooks")
    if isinstance(inner, list):
        return [command for handler in cast("list[Any]", inner) for command in (_commands(handler) or [""])]
    command = element.get("command")
    return [command] if isinstance(command, str) else []


def _node_at(node: Node, start: int) -> Node:
    """The container that begins at this place."""
    while node.start != start:
        node = next(child.node for child in node.children if child.node.start <= start < child.end)
    return node


def _place(path: tuple[str, ...]) -> str:
    return "/" + "/".join(key.replace("~", "~0").replace("/", "~1") for key in path)


def _split_mark(text: str | None) -> tuple[str, str]:
    """The byte order mark, if the file begins with one, and the rest."""
    if text is None:
        return "", ""
    return (BOM, text[1:]) if text.startswith(BOM) else ("", text)
