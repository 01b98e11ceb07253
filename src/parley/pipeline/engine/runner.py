"""The runner: which hubs have news, views over only the files that can hold them, statements in waves, and commits.

A run pins one version of bronze and of every table at its beginning. A table is built for the hubs that it lacks
something of, from tables that follow from the same events, and its rows, files and cursors change in one commit. So a
run may be killed anywhere and repeated, and of two at once one is refused and begins again: what a table holds of a hub
is always what follows from some prefix of the hub's log.

Without news nothing is asked of Spark, which is then not even started.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from parley.core.pipeline_errors import LakeConflict
from parley.pipeline.engine.division import find_divisible
from parley.pipeline.engine.spec import Plan, Spec
from parley.pipeline.engine.standing import RULES, Goal, Standing, goals_of, stand_of_bronze
from parley.pipeline.engine.views import Share, Views, meets
from parley.pipeline.lake.commit import WHOLE, discard, exchange, live_files, open_table
from parley.pipeline.lake.epochs import FORMAT_WITH_EPOCHS, RESTORES
from parley.pipeline.lake.files import DataFile, stage
from parley.pipeline.lake.place import Lake

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

CONFLICTS_MAX: Final = 20
"""Tries in a row that other runs may win; each of them built some of the tables."""
TABLES_AT_ONCE: Final = 3
"""While one table's job is planned or its files are committed, the cores work on another's."""
ABOUT: Final = {"parley": "build"}

Open = Callable[[int], "SparkSession"]
"""Opens a session, or gives the one that is open, for so many events."""
Progress = Callable[[str, int, int], None]
"""Is told the table that was written last, and how many are done of how many."""


@dataclass(slots=True)
class BuildReport:
    """What a run has done."""

    hubs: int = 0
    """Hubs of which some table lacked something."""
    divided: int = 0
    """Those of which only what news touch was built."""
    tables: dict[str, int] = field(default_factory=dict[str, int])
    """Rows that were written to each table, with those of other hubs that were in the same files."""
    conflicts: int = 0


def build(
    lake: Lake,
    plan: Plan,
    open_spark: Open,
    settings: Mapping[str, Any],
    *,
    progress: Progress = lambda table, done, total: None,
) -> BuildReport:
    """Brings the tables of the plan up to what bronze holds now. ``settings`` are what statements name as ``:name``."""
    report = BuildReport()
    while True:
        try:
            _Run(lake, plan, open_spark, settings, report, progress).build()
        except LakeConflict:
            report.conflicts += 1
            if report.conflicts > CONFLICTS_MAX:
                raise
        else:
            return report


class _Run:
    """One try."""

    def __init__(
        self, lake: Lake, plan: Plan, open_spark: Open, settings: Mapping[str, Any], report: BuildReport, told: Progress
    ) -> None:
        self._lake, self._plan, self._open = lake, plan, open_spark
        self._settings, self._report, self._progress = settings, report, told
        bronze = stand_of_bronze(lake)
        self._goals = goals_of(bronze)
        self._stands = {name: Standing.of(lake, spec.table) for name, spec in plan.specs.items()}
        restores = {name: stand.cursors.get(RESTORES, 0) for name, stand in self._stands.items()}
        self._rules = {name: plan.number_of(spec, settings, restores) for name, spec in plan.specs.items()}
        self._versions = {name: stand.version for name, stand in self._stands.items()}
        self._versions[bronze.table.view] = bronze.version
        self._divisible = frozenset[str]()
        self._news = {
            name: hubs
            for name, stand in self._stands.items()
            if (hubs := stand.behind(self._goals, self._rules[name])) or stand.cursors.get(RULES) != self._rules[name]
        }

    def build(self) -> None:
        """Builds what is missing, wave by wave."""
        if not self._news:
            return
        self._lake.raise_format(FORMAT_WITH_EPOCHS)
        hubs = set[str]().union(*self._news.values())
        self._report.hubs = max(self._report.hubs, len(hubs))
        spark = self._open(sum(self._missing(db_id) for db_id in hubs))
        views = Views(spark, self._lake, self._plan, self._versions, self._settings)
        self._divisible = find_divisible(views, self._goals, self._seen_by_all(hubs))
        shares = {name: self._share(self._plan.specs[name]) for name in self._news}
        self._report.divided = len(set[str]().union(*(share.marks for share in shares.values())))
        for wave in self._plan.waves:
            specs = {spec.table.view: spec for spec in wave if spec.table.view in self._news}
            for spec, rows in self._write(views, [(spec, shares[name]) for name, spec in specs.items()]):
                self._report.tables[spec.table.view] = rows
                self._progress(spec.table.view, len(self._report.tables), len(self._news))

    def _missing(self, db_id: str) -> int:
        """How many events some table lacks of a hub, as far as ids tell."""
        return self._goals.get(db_id, Goal(0, 0)).mark - self._seen_by_all([db_id]).get(db_id, 0)

    def _seen_by_all(self, hubs: Collection[str]) -> dict[str, int]:
        """Up to which event every table has each of these hubs, of those of which all have any."""
        seen: dict[str, int] = {}
        for db_id in hubs:
            goal = self._goals.get(db_id, Goal(0, 0))
            reached = [stand.reached(db_id) for stand in self._stands.values()]
            seen[db_id] = min(each.mark if each is not None and each.epoch == goal.epoch else 0 for each in reached)
        return {db_id: mark for db_id, mark in seen.items() if mark}

    def _share(self, spec: Spec) -> Share:
        """Of which hubs all rows of a table are made, and of which those that news touch."""
        name = spec.table.view
        hubs, stand = self._news[name], self._stands[name]
        marks: dict[str, int] = {}
        if spec.is_divided and stand.cursors.get(RULES) == self._rules[name]:
            for db_id in hubs & self._divisible:
                reached, goal = stand.reached(db_id), self._goals[db_id]
                recalled = (self._stands[each].reached(db_id) for each in spec.recalls)
                if reached is not None and reached.epoch == goal.epoch and 0 < reached.mark < goal.mark:
                    marks |= {db_id: reached.mark} if all(each == reached for each in recalled) else {}
        whole = frozenset(hubs - marks.keys())
        return Share(whole, marks, is_all=whole == self._goals.keys())

    def _write(self, views: Views, work: Sequence[tuple[Spec, Share]]) -> Iterator[tuple[Spec, int]]:
        """Each table with the rows that were written to it, as they come. After an error no further one is begun."""
        pool = ThreadPoolExecutor(TABLES_AT_ONCE)
        try:
            begun = {pool.submit(self._replace, views, spec, share): spec for spec, share in work}
            for done in as_completed(begun):
                yield begun[done], done.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _replace(self, views: Views, spec: Spec, share: Share) -> int:
        """Puts the rows that follow now in the place of those that news touch, or of all of a hub."""
        touched = views.touched(spec, share) if share.marks and spec.touched else None
        if touched is not None and not touched.num_rows and not share.whole:
            return self._commit(spec, share, [], {})
        gone = self._files_that_go(views, spec, share, touched)
        rows = views.rows_of(spec, share, touched)
        if gone:
            rows = rows.unionByName(views.others(spec, gone, share, touched))
        return self._commit(spec, share, stage(_arranged(spec, rows), self._lake, spec.table), gone)

    def _commit(self, spec: Spec, share: Share, files: list[DataFile], gone: Mapping[str, dict[str, Any]]) -> int:
        """Puts files in the place of others, and moves the cursors of the hubs. Returns how many rows were written."""
        name = spec.table.view
        steps = self._stands[name].steps(self._goals, share.hubs, self._rules[name])
        try:
            self._versions[name] = exchange(self._lake, spec.table, files, gone, cursors=steps, about=ABOUT)
        except BaseException:
            discard(self._lake, spec.table, files)
            raise
        return sum(file.rows for file in files)

    def _files_that_go(
        self, views: Views, spec: Spec, share: Share, touched: "pa.Table | None"
    ) -> dict[str, dict[str, Any]]:
        """The files with rows of whole hubs, or of touched units of the others."""
        old = live_files(open_table(self._lake, spec.table, self._versions[spec.table.view]), WHOLE)
        going = {path for path, entry in old.items() if meets(entry, share.whole)}
        if touched is not None and touched.num_rows and any(meets(entry, share.marks) for entry in old.values()):
            named = views.files_with(spec, share.marks, touched)
            going |= {path for path in old if path.rpartition("/")[2] in named}
        return {path: old[path] for path in going}


def _arranged(spec: Spec, rows: "DataFrame") -> "DataFrame":
    """Rows of one bucket in one file, in the order of their key."""
    if not spec.table.partition_by:
        return rows
    return rows.repartition(*spec.table.partition_by).sortWithinPartitions(*spec.table.partition_by, *spec.key)
