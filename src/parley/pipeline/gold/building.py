"""Building the gold tables of a lake: read what they are counted from, count, and replace each table whole.

A table remembers what it was counted from: the versions of the tables that were read, and the settings. If that is what
the lake still holds, there is nothing to do, so a run without news costs no Spark job here.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from parley.core.pipeline_errors import LakeConflict
from parley.core.settings import PipelineSettings
from parley.pipeline.gold.counting import SOURCES, Counted, Sources
from parley.pipeline.lake import WHOLE, Lake, Step, Table, commit, cursor, discard, read_table, stage, table_version
from parley.pipeline.lake.catalogue import find_table
from parley.pipeline.lake.catalogue.gold import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CURSOR: Final = "parley.gold.counted_from"
CONFLICTS_MAX: Final = 20
"""Tries in a row that other builds may win; each of them counted some of the tables."""
RULES: Final = 1
"""Raised when the tables are counted by other rules, so that they are counted again."""

Progress = Callable[[str, int, int], None]
"""Is told the table that was written last, and how many are done of how many."""


@dataclass(slots=True)
class GoldReport:
    """What a build has done."""

    tables: dict[str, int] = field(default_factory=dict[str, int])
    """Rows of each table that was written."""
    unchanged: int = 0
    """Tables that were counted from just this before."""
    conflicts: int = 0
    """Tries in which another build was quicker."""


def build_gold(
    spark: "SparkSession",
    lake: Lake,
    settings: PipelineSettings,
    *,
    progress: Progress = lambda table, done, total: None,
) -> GoldReport:
    """Counts the tables that are not up to date. The silver tables must have been built. Two at once are harmless."""
    report = GoldReport()
    while True:
        try:
            return _count(spark, lake, settings, report, progress)
        except LakeConflict:
            report.conflicts += 1
            if report.conflicts > CONFLICTS_MAX:
                raise


def _count(
    spark: "SparkSession", lake: Lake, settings: PipelineSettings, report: GoldReport, progress: Progress
) -> GoldReport:
    """One try. A table that another build has counted meanwhile is no longer stale at the next."""
    origin = {name: table_version(lake, _source(name)) for name in SOURCES}
    mark = _mark(origin, settings)
    seen = {table.name: cursor(lake, table, CURSOR) for table in TABLES}
    stale = [table for table in TABLES if seen[table.name] != mark]
    report.unchanged = len(TABLES) - len(stale)
    if not stale:
        return report
    counted = Counted(_read(spark, lake, origin), settings)
    try:
        for done, table in enumerate(stale, start=1):
            step = Step(CURSOR, seen[table.name], mark)
            report.tables[table.name] = replace_table(lake, table, counted.tables[table.name], step)
            progress(table.name, done, len(stale))
    finally:
        counted.release()
    return report


def _source(name: str) -> Table:
    return find_table("bronze_events" if name == "events" else f"silver_{name}")


def _read(spark: "SparkSession", lake: Lake, origin: dict[str, int]) -> Sources:
    """The sources at the versions that the tables will say they were counted from."""
    return Sources(**{name: read_table(spark, lake, _source(name), version=at) for name, at in origin.items()})


def _mark(origin: dict[str, int], settings: PipelineSettings) -> int:
    """A number that stands for what the tables are counted from; a cursor can keep no more than that."""
    told = json.dumps([RULES, origin, settings.answer_window_minutes, settings.stuck_after_hours], sort_keys=True)
    return int.from_bytes(hashlib.sha256(told.encode()).digest()[:8]) >> 1


def replace_table(lake: Lake, table: Table, rows: "DataFrame", step: Step) -> int:
    """Makes the rows all that the table holds. Returns how many they are."""
    files = stage(rows, lake, table)
    try:
        commit(lake, table, files, cursors=[step], replace=WHOLE, about={"parley": "build"})
    except BaseException:
        discard(lake, table, files)
        raise
    return sum(file.rows for file in files)
