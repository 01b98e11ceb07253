"""What a table is made of: a statement in Spark's SQL over other tables, and what the runner has to know about it.

A statement names what it reads in braces. It sees of all of it only the hubs whose rows it is to give; what the
settings decide stands in it as ``:name``. One statement serves the first build of a hub and every later one. Where a
table goes on from what it has, it sees what is new since then, which in a first build is everything, and the rows of
its own that are to go, which then are none:

``{gold_answers}``       a table, by its name in SQL
``{posts}``              a part: a statement that several share
``{events}``             the hub's events that the table has not seen
``{edge}``               the last event that it has seen, if it has seen any
``{news}``               those of them that are not in quarantine
``{new_silver_moves}``   rows of a table that came of events which this one has not seen
``{before}``             its own rows that go; the statement gives those that come in their place
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from parley.pipeline.lake.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAMED: Final = re.compile(r"\{(\w+)\}")
EVENTS_SEEN: Final = "bronze_events"
BEFORE: Final = "before"
FRESH: Final = "new_"
EDGE: Final = "edge"
_NEWS: Final = {
    "events": (EVENTS_SEEN,),
    EDGE: (EVENTS_SEEN,),
    "news": (EVENTS_SEEN, "silver_quarantine"),
    BEFORE: (),
}
"""What is no table and no part, and the tables behind it."""
Inputs = Mapping[str, "DataFrame"]
"""Frames by the names in braces; what a function recalls is there under its own name."""


@dataclass(frozen=True, slots=True)
class Part:
    """What several statements read alike, and nobody keeps."""

    name: str
    sql: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The tables and parts that it names."""
        return named_in(self.sql)


@dataclass(frozen=True, slots=True)
class Spec:
    """One table."""

    table: Table
    sql: "str | Callable[[Inputs, Collection[str]], DataFrame]"
    """A statement; where SQL would be obscure a function of what it reads, and of the hubs that are not built whole."""
    key: tuple[str, ...]
    """The columns that name a row."""
    reads: tuple[str, ...] = ()
    """What a function reads; a statement says it itself."""
    unit: str | None = None
    """The column whose values name the rows that go and come together; None where a hub's rows do."""
    touched: str | None = None
    """A statement that gives ``db_id`` and ``unit`` of what the news touch; None where the rows of all units stay."""
    standing: str = "TRUE"
    """Which rows of touched units go; the others stay as they are."""
    sees: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of these tables only some ``{rows}`` are seen, by statements that have the ``{touched}`` units."""
    appends: bool = False
    """Whether news only add rows."""
    recalls: tuple[str, ...] = ()
    """Tables that a function sees as they were before the news."""
    rules: int = 1
    """Raised when the rows mean something else than before, so that all are made again."""
    origin: str | None = None
    """The column with the event that made a row, if it decides on the row's bucket."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tables and parts that it names."""
        return named_in(self.sql) if isinstance(self.sql, str) else self.reads

    @property
    def is_divided(self) -> bool:
        """Whether news leave rows of the hub as they are."""
        return self.appends or self.unit is not None


def named_in(sql: str) -> tuple[str, ...]:
    """What a statement names in braces, each once."""
    return tuple(dict.fromkeys(_NAMED.findall(sql)))


class Plan:
    """Specs in an order in which each comes after what it reads."""

    def __init__(self, specs: Sequence[Spec], parts: Iterable[Part] = ()) -> None:
        self.specs = {spec.table.view: spec for spec in specs}
        self.parts = {part.name: part for part in parts}
        self.waves = list(self._waves())

    def tables_read(self, names: Iterable[str]) -> set[str]:
        """The tables behind these names, whatever parts stand between."""
        found = set[str]()
        for name in names:
            if name in self.parts:
                found |= self.tables_read(self.parts[name].reads)
            else:
                found |= set(_NEWS.get(name, (name.removeprefix(FRESH),)))
        return found

    def number_of(self, spec: Spec, settings: Mapping[str, Any], restores: Mapping[str, int]) -> int:
        """Stands for all that decides on the rows beside events: rules and settings, of what it reads too.

        ``restores`` counts how often each table was set back; what was built from one before is doubtful.
        """
        told = json.dumps([sorted(self._rules(spec, restores)), dict(settings)], sort_keys=True)
        return int.from_bytes(hashlib.sha256(told.encode()).digest()[:8]) >> 1  # a cursor can keep no more

    def _rules(self, spec: Spec, restores: Mapping[str, int]) -> set[tuple[str, int, int]]:
        rules = {(spec.table.view, spec.rules, 0)}
        for name in self.tables_read(spec.inputs):
            rules |= {(name, 0, restores.get(name, 0))}
            if name in self.specs:
                rules |= self._rules(self.specs[name], restores)
        return rules

    def _waves(self) -> Iterable[list[Spec]]:
        """Specs that need nothing of each other, wave by wave."""
        left = dict(self.specs)
        while left:
            ready = [spec for spec in left.values() if self.tables_read(spec.inputs).isdisjoint(left)]
            if not ready:
                raise ValueError(f"{', '.join(left)} read each other")
            yield ready
            left = {name: spec for name, spec in left.items() if spec not in ready}
