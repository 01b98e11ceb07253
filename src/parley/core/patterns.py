"""Patterns of paths: which paths one covers, and whether two have any path in common.

A pattern is relative to the workspace and made of segments between slashes. ``?`` stands for one character of a
segment, ``*`` for any number of them, ``[abc]``, ``[a-z]`` and ``[!a]`` for one of a set, and ``**`` as a whole segment
for any number of segments. A pattern whose last segment is a plain name also covers what lies under it, because only
the caller knows whether ``src/hub`` is a file or a folder; with a trailing slash it is a folder, too.

Whether two patterns overlap is asked of both in the same way, so the answer does not depend on who came first. It is
decided exactly: a path that both cover exists if and only if the answer is yes. Case counts.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, Literal

from parley.core.errors import InvalidInput
from parley.core.limits import PATTERN_CHARS_MAX

Many = Literal["many"]
Range = tuple[int, int]
One = tuple[Range, ...]
"""One character of some ranges of code points, in order and apart from each other."""
Segment = tuple[One | Many, ...]
Compiled = tuple[Segment | Many, ...]

_MANY: Final[Many] = "many"
_LAST: Final = 0x10FFFF
_SLASH: Final = ord("/")
_ANY: Final[One] = ((0, _SLASH - 1), (_SLASH + 1, _LAST))


def normal_path(text: str) -> str:
    """The path as it is compared: relative, with plain slashes. Raises ``InvalidInput`` if it leads out of the root."""
    return "/".join(_segments(text, "path"))


def normal_pattern(text: str) -> str:
    """The pattern as it is stored. Raises ``InvalidInput`` for one that leaves the workspace or is not closed."""
    segments = _segments(text, "patterns")
    if text.endswith("/") and segments[-1] != "**":
        segments.append("**")
    kept = [each for index, each in enumerate(segments) if each != "**" or index == 0 or segments[index - 1] != "**"]
    pattern = "/".join(kept)
    compiled(pattern)
    return pattern


def covers(pattern: str, path: str) -> bool:
    """Whether a path, both normal, is one that the pattern stands for."""
    fixed = fixed_part(pattern)
    return tuple(path.split("/")[: len(fixed)]) == fixed and _meet(compiled(pattern), _literal(path))


def overlap(left: str, right: str) -> bool:
    """Whether any path is covered by both patterns, both normal."""
    if left == right:
        return True
    one, other = fixed_part(left), fixed_part(right)
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter] and _meet(compiled(left), compiled(right))


@lru_cache(maxsize=16_384)
def fixed_part(pattern: str) -> tuple[str, ...]:
    """The names before the first wildcard. Most pairs of patterns differ in them, and need no closer look."""
    segments = pattern.split("/")
    wild = next((place for place, each in enumerate(segments) if any(mark in each for mark in "*?[")), len(segments))
    return tuple(segments[:wild])


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> Compiled:
    """The pattern ready to be compared. Raises ``InvalidInput`` if a set is not closed or has nothing in it."""
    segments: list[Segment | Many] = [_MANY if each == "**" else _segment(each) for each in pattern.split("/")]
    last = segments[-1]
    if last != _MANY and all(token != _MANY and len(token) == 1 and token[0][0] == token[0][1] for token in last):
        segments.append(_MANY)
    return tuple(segments)


@lru_cache(maxsize=4096)
def _literal(path: str) -> Compiled:
    return tuple(tuple(((ord(character), ord(character)),) for character in each) for each in path.split("/"))


def _segments(text: str, field: str) -> list[str]:
    if len(text) > PATTERN_CHARS_MAX:
        raise InvalidInput(f"{field}: at most {PATTERN_CHARS_MAX} characters", field=field)
    if text.startswith("/") or "\\" in text or any(character < " " or character == "\x7f" for character in text):
        raise InvalidInput(f"{field}: {text!r} is not relative to the workspace, with / between its parts", field=field)
    segments = [each for each in text.split("/") if each not in ("", ".")]
    if not segments or ".." in segments:
        raise InvalidInput(f"{field}: {text!r} names nothing inside the workspace", field=field)
    return segments


def _segment(text: str) -> Segment:
    tokens: list[One | Many] = []
    place = 0
    while place < len(text):
        character = text[place]
        place += 1
        if character == "*":
            if not tokens or tokens[-1] != _MANY:
                tokens.append(_MANY)
        elif character == "?":
            tokens.append(_ANY)
        elif character == "[":
            token, place = _set(text, place)
            tokens.append(token)
        else:
            tokens.append(((ord(character), ord(character)),))
    return tuple(tokens)


def _set(text: str, start: int) -> tuple[One, int]:
    """The characters of a set that begins after its bracket, and where the pattern goes on after it."""
    place = start
    negated = text[place : place + 1] in ("!", "^")
    place += negated
    end = text.find("]", place + 1)  # a bracket in the first place is one of the characters
    if end < 0:
        raise InvalidInput(f"patterns: a set is not closed in {text!r}", field="patterns")
    ranges: list[Range] = []
    while place < end:
        low = high = ord(text[place])
        if text[place + 1 : place + 2] == "-" and place + 2 < end:
            high = ord(text[place + 2])
            place += 2
        ranges.append((low, high))
        place += 1
    found = _without(ranges, (0, _LAST)) if negated else _merged(ranges)
    found = _common(found, _ANY)
    if not found:
        raise InvalidInput(f"patterns: a set has no character in it in {text!r}", field="patterns")
    return found, end + 1


def _merged(ranges: Sequence[Range]) -> One:
    merged: list[Range] = []
    for low, high in sorted(each for each in ranges if each[0] <= each[1]):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def _without(ranges: Sequence[Range], whole: Range) -> One:
    left: list[Range] = []
    begin, end = whole
    for low, high in _merged(ranges):
        if begin < low:
            left.append((begin, low - 1))
        begin = high + 1
    if begin <= end:
        left.append((begin, end))
    return tuple(left)


def _common(left: One, right: One) -> One:
    both = [(max(a, c), min(b, d)) for a, b in left for c, d in right]
    return _merged(both)


def _meet(left: Compiled, right: Compiled) -> bool:
    return _share(left, right, _same_segment)


def _same_segment(left: Segment, right: Segment) -> bool:
    return left == right or _share_characters(left, right)


@lru_cache(maxsize=65_536)
def _share_characters(left: Segment, right: Segment) -> bool:
    return _share(left, right, lambda a, b: bool(_common(a, b)))


def _share(left: Sequence[Any], right: Sequence[Any], same: Callable[[Any, Any], bool]) -> bool:
    """Whether two sequences, in which ``many`` stands for any number of anything, have a common reading.

    Row by row over the places in both: a place is reached if what comes before it in both can be read as the same.
    """
    reached = [True] + [False] * len(right)
    for place, token in enumerate(right):
        reached[place + 1] = reached[place] and token == _MANY
    for token in left:
        above = reached
        reached = [above[0] and token == _MANY] + [False] * len(right)
        for place, other in enumerate(right):
            if token == _MANY or other == _MANY:
                # The one that stands for many takes in the other, or is read as nothing.
                reached[place + 1] = reached[place] or above[place + 1]
            else:
                reached[place + 1] = above[place] and same(token, other)
        if not any(reached):
            return False
    return reached[-1]
