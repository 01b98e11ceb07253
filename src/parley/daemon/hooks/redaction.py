"""Leaving members out of what a hook is told, by paths such as ``$.body``, ``$.meta.tokens[*].value`` or ``$..secret``.

A path is that part of JSONPath which names places and computes nothing: members by their name, elements by their
number, all of either by ``*``, and members at any depth by ``..``.
"""

import re
from typing import Any, Final, NamedTuple, cast

REDACTED: Final = "[redacted]"
PATHS_MAX: Final = 32
_STEP: Final = re.compile(
    r"(?P<deep>\.\.)(?P<deep_name>\w+)|\.(?P<name>\w+|\*)|\[(?P<number>\d{1,9}|\*)\]|\[(?P<quote>['\"])(?P<quoted>[^'\"]+)(?P=quote)\]"
)


class Step(NamedTuple):
    """One step of a path: a name, a number, or None for all. ``deep`` looks at every depth."""

    key: str | int | None
    deep: bool = False


Path = tuple[Step, ...]


def parse_path(text: str) -> Path:
    """The steps. Raises ``ValueError`` for what is not such a path."""
    steps: list[Step] = []
    at = 1
    while text.startswith("$") and at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            break
        steps.append(_step(found))
        at = found.end()
    if not steps or at < len(text):
        raise ValueError(f"{text} is not a path such as $.meta.token")
    return tuple(steps)


def redact(document: Any, path: Path) -> Any:
    """The document with something else in the places that the path names. It is not changed itself."""
    if not path:
        return REDACTED
    step, rest = path[0], path[1:]
    if isinstance(document, dict):
        members = cast("dict[str, Any]", document)
        return {
            name: redact(inner, rest) if step.key in (name, None) else inner
            for name, inner in ((name, redact(value, path) if step.deep else value) for name, value in members.items())
        }
    if isinstance(document, list):
        elements = cast("list[Any]", document)
        if step.deep:
            return [redact(value, path) for value in elements]
        return [redact(value, rest) if step.key in (number, None) else value for number, value in enumerate(elements)]
    return document


def _step(found: re.Match[str]) -> Step:
    if found["deep"]:
        return Step(found["deep_name"], deep=True)
    if found["number"]:
        return Step(None if found["number"] == "*" else int(found["number"]))
    name = found["name"] or found["quoted"]
    return Step(None if found["name"] == "*" else name)
