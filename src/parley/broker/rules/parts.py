"""Batches whose members stand in nobody's way."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def parts_without_repetition(items: Sequence[T], key: Callable[[T], Hashable]) -> Iterator[list[T]]:
    """The items in order, cut before each whose key the part has already: it must see what became of the first."""
    part: dict[Hashable, T] = {}
    for item in items:
        name = key(item)
        if name in part:
            yield list(part.values())
            part = {}
        part[name] = item
    if part:
        yield list(part.values())
