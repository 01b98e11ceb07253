"""The documents, as the tests look at them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from scripts.docs import ROOT, documents

FENCE = re.compile(
    r"(?:^<!-- (?P<note>[^>]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


class Block(NamedTuple):
    """A block of code, with the note in the comment right above it."""

    note: str
    language: str
    text: str


def document(name: str) -> str:
    """The text of a document by its path from the root of the project."""
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text: str) -> Iterator[Block]:
    """The blocks of code of a document."""
    for found in FENCE.finditer(text):
        yield Block(found["note"] or "", found["language"], found["text"])


def prose(text: str) -> str:
    """The document without its blocks of code."""
    return FENCE.sub("", text)


def anchors(text: str) -> set[str]:
    """What a link can point to within a document, by the rule that code hosts use."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in HEADING.findall(prose(text))}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


NAMES = [name_of(path) for path in documents()]
