"""The chain of a mesh's audit log: each entry's hash covers the one before it.

An entry that is altered, left out or put in breaks the chain from there on. The broker writes and verifies it; whoever
else holds the entries, such as an audit of a copy, verifies it by the same function.
"""

import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from parley.core.canonical import canonical_json
from parley.core.clock import iso

GENESIS: Final = "0" * 64
"""What the first entry follows."""


class Entry(NamedTuple):
    """One entry, in the order of its table's columns."""

    number: int
    at_ms: int
    event: str
    actor: str
    payload: str
    previous: str
    hash: str


def entry_hash(mesh_id: str, number: int, at_ms: int, event: str, actor: str, payload: str, previous: str) -> str:
    """The hash of an entry: over the one before it and all that it says."""
    return hashlib.sha256(canonical_json([previous, mesh_id, number, iso(at_ms), event, actor, payload])).hexdigest()


def first_misfit(mesh_id: str, entries: Iterable[Entry]) -> int | None:
    """The number at which the entries, in their order, first do not fit; None when all do."""
    previous, expected = GENESIS, 1
    for entry in entries:
        said = (entry.number, entry.at_ms, entry.event, entry.actor, entry.payload, entry.previous)
        fits = entry.number == expected and entry.previous == previous
        if not fits or entry_hash(mesh_id, *said) != entry.hash:
            return expected
        previous, expected = entry.hash, expected + 1
    return None
