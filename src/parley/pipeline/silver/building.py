"""Building silver: first judge what is new, then fold it into each table. Few and plain news need no Spark for that.

A run may be killed anywhere and repeated, and two may run at once: each commit moves a table's rows and its cursors
together, and one that comes second is refused and planned again.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from parley.core.pipeline_errors import LakeConflict
from parley.pipeline.fold import Facts, read_archives
from parley.pipeline.lake.catalogue.bronze import EVENTS
from parley.pipeline.lake.catalogue.silver import QUARANTINE
from parley.pipeline.lake.commit import ensure_table
from parley.pipeline.lake.place import Lake
from parley.pipeline.session import release_memory
from parley.pipeline.silver.epochs import forget_restored
from parley.pipeline.silver.inline import INLINE_EVENTS, build_inline
from parley.pipeline.silver.merging import Merged, News, merge
from parley.pipeline.silver.quarantine import judge
from parley.pipeline.silver.reading import (
    Marks,
    bronze_marks,
    read_accepted,
    read_events,
    silver_marks,
    stretch,
    truncated_hubs,
)
from parley.pipeline.silver.specs import SPECS, Spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONFLICTS_MAX: Final = 20
"""Builds in a row that others may win; each of them did some of the work."""
KEPT_EVENTS_MAX: Final = 200_000
"""So many events are kept in memory while the tables are folded; of more, each table reads the columns it needs."""

TABLES_AT_ONCE: Final = 2
"""While one table's jobs are planned or its files are committed, the cores work on another's."""

Progress = Callable[[str, int, int], None]
"""Is told the table that was written last, and how many are done of how many."""


@dataclass(slots=True)
class SilverReport:
    """What a build has done."""

    events: int = 0
    """Events that were judged."""
    quarantined: dict[str, int] = field(default_factory=dict[str, int])
    """Events that were set aside, by reason."""
    tables: dict[str, int] = field(default_factory=dict[str, int])
    """Rows that were written to each table."""
    buckets: int = 0
    """Buckets that were written again."""
    conflicts: int = 0


def build_silver(
    spark: "SparkSession",
    lake: Lake,
    *,
    progress: Progress = lambda table, done, total: None,
    inline_events: int = INLINE_EVENTS,
) -> SilverReport:
    """Brings all silver tables up to what bronze holds now. So many new events at most are folded without Spark."""
    report = SilverReport()
    ensure_table(lake, EVENTS)
    ends = bronze_marks(lake)
    while True:
        try:
            forget_restored(lake)
            if _inline(lake, ends, inline_events, report, progress):
                return report
            _fold(spark, lake, silver_marks(lake, QUARANTINE), report, progress)
            _judge(spark, lake, ends, report)
            _fold(spark, lake, ends, report, progress)
            release_memory(spark)  # what follows is often the driver's own work
        except LakeConflict:
            report.conflicts += 1
            if report.conflicts > CONFLICTS_MAX:
                raise
        else:
            return report


def _inline(lake: Lake, until: Marks, most: int, report: SilverReport, progress: Progress) -> bool:
    """Whether the driver could do it alone."""
    news = stretch(silver_marks(lake, QUARANTINE), until)
    built = build_inline(lake, until, most, progress)
    if built is None:
        return False
    report.events += sum(hi - lo for lo, hi in news.values())
    report.tables, report.buckets = built.tables, built.buckets
    return True


def _judge(spark: "SparkSession", lake: Lake, until: Marks, report: SilverReport) -> None:
    """Judges what is new. If tables are ahead, because the quarantine was restored, all is judged anew."""
    ensure_table(lake, QUARANTINE)
    stands = silver_marks(lake, QUARANTINE)
    anew = any(silver_marks(lake, spec.table).get(db_id, 0) > stands.get(db_id, 0) for spec in SPECS for db_id in until)
    news = stretch({} if anew else stands, until)
    if not news or not (anew or stretch(stands, until)):
        return
    events = _Kept(read_events(spark, lake, news), news)
    try:
        facts = Facts(read_archives(events.rows), truncated_hubs(spark, lake, news.keys()))
        for reason, count in judge(spark, lake, events.rows, facts, stands, until, anew=anew).items():
            report.quarantined[reason] = report.quarantined.get(reason, 0) + count
    finally:
        events.release()
    report.events += sum(hi - lo for lo, hi in news.values())


def _fold(spark: "SparkSession", lake: Lake, until: Marks, report: SilverReport, progress: Progress) -> None:
    """Folds into each table what it lacks. All tables stand at the same events unless a run was killed."""
    groups: dict[tuple[tuple[str, int], ...], list[Spec]] = {}
    for spec in SPECS:
        stands = silver_marks(lake, spec.table)
        if stretch(stands, until):
            groups.setdefault(tuple(sorted(stands.items())), []).append(spec)
    total, done = sum(map(len, groups.values())), 0
    for stood, specs in groups.items():
        stands = dict(stood)
        news = stretch(stands, until)
        events = _Kept(read_accepted(spark, lake, news), news)
        try:
            told = _tell_of(events.rows, truncated_hubs(spark, lake, news.keys()), stands, until)
            for spec, merged in _merge_all(spark, lake, specs, told):
                report.tables[spec.table.name] = report.tables.get(spec.table.name, 0) + merged.rows
                report.buckets += merged.buckets
                done += 1
                progress(spec.table.name, done, total)
        finally:
            events.release()


def _merge_all(spark: "SparkSession", lake: Lake, specs: list[Spec], news: News) -> Iterator[tuple[Spec, Merged]]:
    """Each table with what was written to it, as they come. After an error no further one is begun."""
    pool = ThreadPoolExecutor(TABLES_AT_ONCE)
    try:
        work = {pool.submit(merge, spark, lake, spec, news): spec for spec in specs}
        for done in as_completed(work):
            yield work[done], done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _tell_of(events: "DataFrame", truncated: frozenset[str], stands: Marks, until: Marks) -> News:
    names: Any = events.select("name").distinct().collect()
    found = frozenset(row["name"] for row in names)
    archives = read_archives(events) if "workspace.archived" in found else ()
    return News(events, found, Facts(archives, truncated), stands, until)


class _Kept:
    """Events that several tables are folded from, kept by Spark if they are few."""

    def __init__(self, rows: "DataFrame", news: dict[str, tuple[int, int]]) -> None:
        self._few = sum(hi - lo for lo, hi in news.values()) <= KEPT_EVENTS_MAX
        self.rows = rows.persist() if self._few else rows

    def release(self) -> None:
        if self._few:
            self.rows.unpersist()
