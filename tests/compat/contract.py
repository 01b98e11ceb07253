"""What crosses a wire as a snapshot holds it, found by talking to real processes, and what an earlier snapshot lost.

Nothing here knows the code behind a wire, so that code can be written anew and held to what its users rely on.

An *answer* is kept as its places and the kinds of values seen there: ``items[].seen_at`` is ``null | string``. Keys of
an object that is a map are ``*``, and what users put into ``meta`` and its like is not looked at. ``absent`` stands
among the kinds of a member that some answers do not have.

A *request* is kept as its members: whether each is required, and which kinds of values it takes. Both are found by
asking: an example that is taken is sent again with one member left out, or with one value of each other kind in its
place. A member that takes every kind is one that nobody reads.
"""

import copy
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

ABSENT: Final = "absent"
OPAQUE: Final = frozenset({"meta", "payload", "value_json"})
SAMPLES: Final[dict[str, Any]] = {
    "array": [],
    "boolean": True,
    "integer": 7,
    "null": None,
    "number": 7.5,
    "object": {},
    "string": "x",
}
Place = tuple[str | int, ...]


def kind_of(value: Any) -> str:
    """JSON's word for a value."""
    if value is None:
        return "null"
    for kind, types in (("boolean", bool), ("integer", int), ("number", float), ("string", str), ("array", list)):
        if isinstance(value, types):
            return kind
    return "object"


class Shape:
    """The places of some values and what was seen there. ``maps`` names the members whose keys are data."""

    def __init__(self, maps: Iterable[str] = ()) -> None:
        self._maps = frozenset(maps)
        self._kinds: defaultdict[str, set[str]] = defaultdict(set)
        self._times: Counter[str] = Counter()
        self._objects: Counter[str] = Counter()
        self._parents: dict[str, str] = {}

    def add(self, value: Any) -> "Shape":
        """Takes one more value in."""
        self._add(value, "", "")
        return self

    def _add(self, value: Any, place: str, name: str) -> None:
        self._kinds[place].add(kind_of(value))
        self._times[place] += 1
        if name in OPAQUE:
            return
        if isinstance(value, list):
            for each in value:
                self._add(each, f"{place}[]", "")
        elif isinstance(value, dict) and name in self._maps:
            for each in value.values():
                self._add(each, f"{place}.*", "")
        elif isinstance(value, dict):
            self._objects[place] += 1
            for key, each in value.items():
                child = f"{place}.{key}" if place else key
                self._parents[child] = place
                self._add(each, child, key)

    def seen(self) -> dict[str, str]:
        """The kinds by place, in one order."""
        found: dict[str, str] = {}
        for place in sorted(self._kinds):
            kinds = set(self._kinds[place])
            if place in self._parents and self._times[place] < self._objects[self._parents[place]]:
                kinds.add(ABSENT)
            if place or kinds != {"object"}:
                found[place] = " | ".join(sorted(kinds))
        return found


def members_of(example: dict[str, Any], taken: Callable[[Any], bool], **choices: tuple[Any, ...]) -> dict[str, Any]:
    """What a request may hold, found by variations of one that is taken; ``choices`` are the values of a member."""
    assert taken(example), example
    found: dict[str, Any] = {}
    for place in _places(example):
        own = _at(example, place)
        takes = {kind for kind, each in SAMPLES.items() if kind != kind_of(own) and taken(_with(example, place, each))}
        name = _name(place)
        found[name] = {"takes": " | ".join(sorted(takes | {kind_of(own)}))}
        if place[-1] != 0:
            found[name]["required"] = not taken(_without(example, place))
        if name in choices:
            found[name]["values"] = [each for each in choices[name] if taken(_with(example, place, each))]
    return found


def losses(frozen: Any, now: Any, place: str = "") -> list[str]:
    """What somebody who relies on the snapshot would miss. Additions are no loss."""
    if isinstance(frozen, dict) and isinstance(now, dict):
        found = [f"{place}/{name} is gone" for name in frozen if name not in now]
        found += [
            f"{place}/{name} is new and required" for name in now if name not in frozen and _is_required(now[name])
        ]
        for name in frozen:
            if name in now and name == "takes":
                found += _request_losses(frozen[name], now[name], place)
            elif name in now and name == "required":
                found += [f"{place} is required now"] if now[name] and not frozen[name] else []
            elif name in now:
                found += losses(frozen[name], now[name], f"{place}/{name}")
        return found
    if isinstance(frozen, list) and isinstance(now, list):
        return [f"{place} no longer has {each!r}" for each in frozen if each not in now]
    if isinstance(frozen, str) and isinstance(now, str):
        return _answer_losses(frozen, now, place)
    return [] if frozen == now else [f"{place} was {frozen!r} and is {now!r}"]


def _is_required(member: Any) -> bool:
    return isinstance(member, dict) and member.get("required") is True


def _request_losses(frozen: str, now: str, place: str) -> list[str]:
    before, after = _kinds(frozen), _kinds(now)
    if after == set(SAMPLES) != before:
        return [f"{place} is no longer read"]
    return [f"{place} no longer takes {kind}" for kind in sorted(before - after)]


def _answer_losses(frozen: str, now: str, place: str) -> list[str]:
    """A kind that nobody has met before breaks its readers; null and absence are kinds that they need not meet.

    A place where nothing but null was seen promises nothing yet.
    """
    before, after = _kinds(frozen), _kinds(now)
    if before <= {"null", ABSENT}:
        return []
    new = sorted(kind for kind in after - before if not (kind == "integer" and "number" in before))
    gone = sorted(before - after - {"null", ABSENT} - ({"number"} if "integer" in after else set()))
    return [f"{place} can be {kind} now" for kind in new] + [f"{place} is no longer {kind}" for kind in gone]


def _kinds(text: str) -> set[str]:
    return set(text.split(" | "))


def _places(value: Any, place: Place = ()) -> Iterator[Place]:
    if place:
        yield place
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _places(each, (*place, name))
    elif isinstance(value, list) and value:
        yield from _places(value[0], (*place, 0))


def _name(place: Place) -> str:
    return "".join("[]" if step == 0 else f".{step}" for step in place).lstrip(".")


def _at(value: Any, place: Place) -> Any:
    for step in place:
        value = value[step]
    return value


def _with(example: Any, place: Place, value: Any) -> Any:
    changed = copy.deepcopy(example)
    _at(changed, place[:-1])[place[-1]] = value
    return changed


def _without(example: Any, place: Place) -> Any:
    changed = copy.deepcopy(example)
    del _at(changed, place[:-1])[place[-1]]
    return changed
