"""What a commit means to others: whom to wake, whom to send away, what to tell.

A broker does this to its own connections by its sessions' effects. Several brokers on one database do it to each
other's by signals, which a store sends in the transaction that they tell of: nobody is woken for what was not
committed.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from parley.broker.done import Done
from parley.broker.greeting import Greeted
from parley.broker.rules.accept import AcceptOutcome
from parley.wire.broker import Notice

NAMES_MAX: Final = 100
"""Names in one signal: with ids of 64 characters it stays below the 8,000 bytes that PostgreSQL lets a notice have."""


class Told(msgspec.Struct, frozen=True):
    """A notice for a mesh."""

    mesh_id: str
    notice: Notice


class Signal(msgspec.Struct, frozen=True, omit_defaults=True):
    """One broker to the others."""

    origin: str
    wake: tuple[str, ...] = ()
    expel: tuple[str, ...] = ()
    kick: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    """Connections, by their ids."""
    told: tuple[Told, ...] = ()
    restored: bool = False
    """A backup has taken the place of all that the database held."""


def signals(origin: str, values: Iterable[Any]) -> list[Signal]:
    """What the values of committed rules mean to other brokers, in few signals."""
    wake: dict[str, None] = {}
    expel: dict[str, None] = {}
    kick: dict[str, None] = {}
    replaced: list[str] = []
    told: list[Told] = []
    for value in values:
        if isinstance(value, AcceptOutcome):
            wake.update(dict.fromkeys(value.woken))
        elif isinstance(value, Greeted):
            replaced += value.replaced
        elif isinstance(value, Done):
            wake.update(dict.fromkeys(value.woken))
            expel.update(dict.fromkeys(value.ended))
            kick.update(dict.fromkeys(value.kicked))
            told += [Told(value.mesh_id, notice) for notice in value.notices]
    made = [Signal(origin, wake=part) for part in _parts(list(wake))]
    made += [Signal(origin, expel=part) for part in _parts(list(expel))]
    made += [Signal(origin, kick=part) for part in _parts(list(kick))]
    made += [Signal(origin, replaced=part) for part in _parts(replaced)]
    made += [Signal(origin, told=(each,)) for each in told]
    return made


def _parts(names: list[str]) -> Iterator[tuple[str, ...]]:
    for start in range(0, len(names), NAMES_MAX):
        yield tuple(names[start : start + NAMES_MAX])
