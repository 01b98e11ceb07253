"""Building the gold tables of a lake: only hubs that have news are counted, by the driver where they are not too large.

A table remembers what it was counted from. If that is what the lake still holds, there is nothing to do, so a run
without news costs no Spark job here. If a hub is too large for the driver's memory, or something is in doubt, Spark
counts the tables whole.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from parley.core.pipeline_errors import LakeConflict
from parley.core.settings import PipelineSettings
from parley.pipeline.gold.counting import Counted, Sources
from parley.pipeline.gold.inline.counting import count_tables
from parley.pipeline.gold.inline.reading import Reader, UnclearError
from parley.pipeline.gold.provenance import Count, Memory
from parley.pipeline.gold.sources import newest_versions, source_table
from parley.pipeline.gold.writing import replace_hubs, replace_table
from parley.pipeline.lake import Lake, read_table
from parley.pipeline.lake.catalogue.gold import TABLES
from parley.pipeline.session import release_own_memory

if TYPE_CHECKING:
    from parley.pipeline.ingest import Spark

CONFLICTS_MAX: Final = 20
"""Tries in a row that other builds may win; each of them counted some of the tables."""
INLINE_EVENTS: Final = 6_000_000
"""Hubs with news that have no more events than this are counted by the driver: about 1.5 GiB of its memory."""
BY_SPARK: Final = -1
"""In its place: the driver counts nothing."""

Progress = Callable[[str, int, int], None]
"""Is told the table that was written last, and how many are done of how many."""


@dataclass(slots=True)
class GoldReport:
    """What a build has done."""

    tables: dict[str, int] = field(default_factory=dict[str, int])
    """Rows of each table that were counted."""
    unchanged: int = 0
    """Tables that were counted from just this before."""
    conflicts: int = 0
    """Tries in which another build was quicker."""


def build_gold(
    spark: "Spark",
    lake: Lake,
    settings: PipelineSettings,
    *,
    progress: Progress = lambda table, done, total: None,
    inline_events: int = INLINE_EVENTS,
) -> GoldReport:
    """Counts what is not up to date. The silver tables must have been built. Two at once are harmless.

    Hubs with news that have so many events at most are counted without Spark.
    """
    report = GoldReport()
    while True:
        try:
            _Build(spark, lake, settings, report, progress).count(inline_events)
            break
        except LakeConflict:
            report.conflicts += 1
            if report.conflicts > CONFLICTS_MAX:
                raise
    release_own_memory()  # the arrays of millions of events
    return report


class _Build:
    """One try. A table that another build has counted meanwhile is no longer stale at the next."""

    def __init__(
        self, spark: "Spark", lake: Lake, settings: PipelineSettings, report: GoldReport, progress: Progress
    ) -> None:
        self._spark, self._lake, self._settings = spark, lake, settings
        self._report, self._progress = report, progress
        self._from = Count.of(newest_versions(lake), settings)
        memories = [Memory(lake, table) for table in TABLES]
        self._stale = {memory.table.name: memory for memory in memories if not memory.is_of(self._from)}
        self._report.unchanged, self._total = len(TABLES) - len(self._stale), len(self._stale)

    def count(self, inline_events: int) -> None:
        if self._stale:
            hubs = self._hubs()
            reader = Reader(self._lake, self._from.origin, hubs)
            events = reader.rows("events")
            if events is not None and events <= inline_events:
                self._count_inline(reader, hubs)
            if self._stale:
                self._count_by_spark()

    def _hubs(self) -> set[str] | None:
        """The hubs that some table needs counted; None if one needs all."""
        hubs: set[str] = set()
        for memory in self._stale.values():
            more = memory.hubs_to_count(self._from)
            if more is None:
                return None
            hubs |= more
        return hubs

    def _count_inline(self, reader: Reader, hubs: Collection[str] | None) -> None:
        """Counts until something is unclear: the tables that remain are left to Spark."""
        try:
            for name, rows in count_tables(reader, self._settings):
                memory = self._stale.get(name)
                if memory is not None:
                    steps = memory.steps(self._from)
                    self._done(memory, replace_hubs(self._lake, memory.table, rows, hubs, steps))
        except UnclearError:
            return

    def _count_by_spark(self) -> None:
        counted = Counted(self._sources(), self._settings)
        try:
            for name, memory in list(self._stale.items()):
                rows = counted.tables[name]
                self._done(memory, replace_table(self._lake, memory.table, rows, *memory.steps(self._from)))
        finally:
            counted.release()

    def _done(self, memory: Memory, rows: int) -> None:
        name = memory.table.name
        self._report.tables[name] = rows
        del self._stale[name]
        self._progress(name, self._total - len(self._stale), self._total)

    def _sources(self) -> Sources:
        """The sources at the versions that the tables will say they were counted from."""
        spark = self._spark() if callable(self._spark) else self._spark
        return Sources(
            **{
                name: read_table(spark, self._lake, source_table(name), version=version)
                for name, version in self._from.origin.items()
            }
        )
