"""Entries that follow each other, with what each makes of the state: what whoever keeps a roster writes down."""

from collections.abc import Iterable
from typing import NamedTuple

from parley.core.roster.entries import Entry, read_entry
from parley.core.roster.rules import Refusal, apply
from parley.core.roster.state import State


class Step(NamedTuple):
    """An entry, and the state after it."""

    data: bytes
    entry: Entry
    state: State


def follow(state: State | None, entries: Iterable[bytes]) -> list[Step] | Refusal:
    """What each entry makes of the state; or why one of them may not stand there, and so none does."""
    steps: list[Step] = []
    for data in entries:
        after = apply(state, data)
        if isinstance(after, Refusal):
            return after
        steps.append(Step(data, read_entry(data), after))
        state = after
    return steps
