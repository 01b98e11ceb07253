"""``links``: marks what people and agents point at in their messages.

- ``file_path``: ``src/app.py``, ``./run.sh``, ``~/notes.md``, ``/etc/hosts``.
- ``code_ref``: a file with a line or a range: ``src/app.py:120``, ``src/app.py:120-140``, ``src/app.py#L10-L20``.
- ``message``: ``msg_mi1k2x3y00000001``.

A word counts as a path when it has a folder and ends in a file's name, or begins like nothing else but a path; with a
line after it, a file's name alone is enough. Nothing inside a URL is marked. Words are found in one pass and then
looked at one by one, so hostile text costs no more than other text of its length.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from parley.core.limits import ENRICHMENTS_PER_MESSAGE_MAX
from parley.plugin.contract import Enrichment, Message
from parley.plugin.helpers import find
from parley.wire.entities import Span

WORD_CHARS_MAX: Final = 512
"""Longer than any path that somebody would type."""
LINE_MAX: Final = 10_000_000
_WORD: Final = re.compile(r"[\w./~#:@+-]+")
_TRAILING: Final = ".:#-/+@~"
_MESSAGE: Final = re.compile(r"msg_[A-Za-z0-9_-]{1,60}")
_LINES: Final = re.compile(r"(?::(\d{1,8})(?:-(\d{1,8})|:\d{1,8})?|#L(\d{1,8})(?:-L?(\d{1,8}))?)", re.ASCII)
_PART: Final = re.compile(r"[\w.@+~-]+")
_FILE: Final = re.compile(r"(?:[\w.@+~-]*\w)?\.([A-Za-z]\w{0,9})")
_FILES_WITHOUT_DOT: Final = frozenset(
    {"Makefile", "Dockerfile", "LICENSE", "README", "CHANGELOG", "Justfile", "Procfile"}
)
_DOMAINS: Final = frozenset({"com", "org", "net", "io", "dev", "local", "edu", "gov", "example"})
"""What follows ``example.com:`` is a port."""


def enrich(message: Message, config: Mapping[str, Any]) -> list[Enrichment]:
    """Paths, places in code and ids of messages, in the order in which they stand there; the first ones, if many."""
    return list(islice(_found(message, config), ENRICHMENTS_PER_MESSAGE_MAX))


def _found(message: Message, config: Mapping[str, Any]) -> Iterator[Enrichment]:
    for match in find(_WORD, message):
        word = match[0].rstrip(_TRAILING)
        found = _look(word) if 3 <= len(word) <= WORD_CHARS_MAX else None
        if found is not None and config.get(_SWITCHES[found[0]], True):
            yield Enrichment(found[0], Span(match.start(), match.start() + len(word)), found[1])


_SWITCHES: Final[Mapping[str, str]] = {"file_path": "paths", "code_ref": "code", "message": "messages"}


def _look(word: str) -> tuple[str, dict[str, Any]] | None:
    """The kind and the data of a word that points at something."""
    if word.startswith("msg_"):
        return ("message", {"message_id": word}) if _MESSAGE.fullmatch(word) else None
    path, lines = _split_lines(word)
    if lines is None:
        return ("file_path", {"path": path}) if _is_path(path) else None
    if not _is_path(path):
        file = _FILE.fullmatch(path)
        if file is None or file[1] in _DOMAINS:
            return None
    return "code_ref", {"path": path, **lines}


def _split_lines(word: str) -> tuple[str, dict[str, int] | None]:
    """The path, and the lines after it if there are any."""
    at = min((place for mark in (":", "#L") if (place := word.find(mark)) > 0), default=len(word))
    if at == len(word):
        return word, None
    match = _LINES.fullmatch(word, at)
    if match is None:
        return "", None
    first, last = (match[1], match[2]) if match[1] is not None else (match[3], match[4])
    line, end = int(first), None if last is None else int(last)
    if not 1 <= line <= LINE_MAX or (end is not None and not line <= end <= LINE_MAX):
        return "", None
    return word[:at], {"line": line} if end is None else {"line": line, "end_line": end}


def _is_path(text: str) -> bool:
    """Whether it has a folder, and ends in a file's name or begins like a path."""
    parts = text.split("/")
    rooted = parts[0] in ("", ".", "..", "~")
    names = parts[1:] if rooted else parts
    if len(parts) < 2 or not names or not all(_PART.fullmatch(part) for part in names):
        return False
    name = names[-1]
    return _FILE.fullmatch(name) is not None or name in _FILES_WITHOUT_DOT or (rooted and len(names) > 1)
