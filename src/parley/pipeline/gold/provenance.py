"""What a gold table remembers of its count, in cursors that move with its rows.

One number stands for all that it was counted from, the rules and the settings included: if that is what the lake still
holds, there is nothing to do. Beside it stand the versions of the sources, so that the next count can tell which hubs
have news since then.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from parley.core.settings import PipelineSettings
from parley.pipeline.gold.counting import SOURCES
from parley.pipeline.gold.news import hubs_with_news
from parley.pipeline.lake import Lake, Step, Table
from parley.pipeline.lake.commit import ensure_table
from parley.pipeline.lake.cursors import read_cursors

CURSOR: Final = "parley.gold.counted_from"
_RULES: Final = "parley.gold.rules"
_SOURCE: Final = "parley.gold.source."
RULES: Final = 1
"""Raised when the tables are counted by other rules, so that they are counted again."""


@dataclass(frozen=True, slots=True)
class Count:
    """What tables are counted from now."""

    origin: Mapping[str, int]
    """The versions of the sources."""
    rules: int
    """Stands for the rules and the settings."""

    @classmethod
    def of(cls, origin: Mapping[str, int], settings: PipelineSettings) -> Self:
        return cls(origin, _number([RULES, settings.answer_window_minutes, settings.stuck_after_hours]))

    @property
    def mark(self) -> int:
        """Stands for all of it."""
        return _number([self.rules, dict(self.origin)])


def _number(told: object) -> int:
    """A cursor can keep no more than that."""
    return int.from_bytes(hashlib.sha256(json.dumps(told, sort_keys=True).encode()).digest()[:8]) >> 1


class Memory:
    """What one table remembers."""

    def __init__(self, lake: Lake, table: Table) -> None:
        self.table = table
        self._lake = lake
        ensure_table(lake, table)
        self._cursors = read_cursors(lake, table)

    def is_of(self, count: Count) -> bool:
        """Whether the table was counted from just this."""
        return self._cursors.get(CURSOR) == count.mark

    def hubs_to_count(self, count: Count) -> set[str] | None:
        """The hubs whose rows are to be counted again; None if all are."""
        then = {name: stands for name in SOURCES if (stands := self._cursors.get(_SOURCE + name)) is not None}
        if self._cursors.get(_RULES) != count.rules or then.keys() != count.origin.keys():
            return None
        return hubs_with_news(self._lake, then, count.origin)

    def steps(self, count: Count) -> list[Step]:
        """The cursors that move with the rows."""
        reached = {CURSOR: count.mark, _RULES: count.rules}
        reached |= {_SOURCE + name: version for name, version in count.origin.items()}
        return [Step(name, self._cursors.get(name), to) for name, to in reached.items()]
