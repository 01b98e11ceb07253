"""What statements see: tables at the versions that a run has pinned, narrowed to the hubs whose rows are made.

Files that cannot hold what is asked for are not opened. A part is put into the statement that names it, so that it is
planned together with it.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from parley.pipeline.engine.spec import BEFORE, EDGE, EVENTS_SEEN, FRESH, Plan, Spec, named_in
from parley.pipeline.fold import accepted
from parley.pipeline.fold.canonical import canonical_udf
from parley.pipeline.lake.catalogue.bronze import EVENTS
from parley.pipeline.lake.catalogue.silver import BUCKET_EVENTS, BUCKET_GROUPS, QUARANTINE, time_column
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.reading import FileTest, bounds_meet, read_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Share:
    """The hubs whose rows are made: some wholly, some from what came after a mark."""

    whole: frozenset[str]
    marks: Mapping[str, int]
    """Up to which event the table has each of the others."""
    is_all: bool = False
    """Whether the whole ones are all that there are."""

    @property
    def hubs(self) -> set[str]:
        return {*self.whole, *self.marks}


class Views:
    """The tables of a lake as the statements of one run see them."""

    def __init__(
        self, spark: "SparkSession", lake: Lake, plan: Plan, versions: Mapping[str, int], settings: Mapping[str, Any]
    ) -> None:
        """``versions`` moves on as tables are built; what they were at first is what is recalled."""
        self.spark = spark
        self._lake, self._plan, self._versions, self._settings = lake, plan, versions, dict(settings)
        self._first_versions = dict(versions)
        self._tables = {EVENTS.view: EVENTS} | {name: spec.table for name, spec in plan.specs.items()}
        self._parsing = threading.Lock()
        spark.udf.register("canonical", canonical_udf())

    def rows_of(self, spec: Spec, share: Share, touched: pa.Table | None) -> "DataFrame":
        """The rows that come: all of the whole hubs, and of the others those of touched units."""
        see = _Sight(self, spec, share, touched)
        if isinstance(spec.sql, str):
            rows = self.ask(spec.sql, see.frame)
        else:
            rows = spec.sql({name: see.frame(name) for name in spec.reads} | see.recalled(), share.marks.keys())
        if touched is not None and spec.sees:  # what it saw beside its units was seen for their sake
            goes_in = F.col("db_id").isin(sorted(share.whole)) if share.whole else F.lit(False)
            units = self._units(touched, spec.unit or "").withColumn("touched", F.lit(True))
            rows = rows.join(F.broadcast(units), ["db_id", spec.unit or ""], "left").where(goes_in | F.col("touched"))
        return self._finished(spec, rows)

    def touched(self, spec: Spec, share: Share) -> pa.Table:
        """The units of a table that the news of the divided hubs touch."""
        divided = Share(frozenset(), share.marks)
        rows = self.ask(spec.touched or "", _Sight(self, spec, divided, None).frame)
        return rows.select("db_id", F.col(str(spec.unit)).alias("unit")).distinct().toArrow()

    def files_with(self, spec: Spec, hubs: Collection[str], touched: pa.Table) -> set[str]:
        """The names of the files that have rows of touched units."""
        rows = self.table(spec.table.view, may_hold=lambda entry: meets(entry, hubs), whole_files=True)
        hit = self._in(rows, touched, spec.unit or "").where(spec.standing)
        return {row["file_name"] for row in hit.select("_metadata.file_name").distinct().collect()}

    def others(self, spec: Spec, gone: Collection[str], share: Share, touched: pa.Table | None) -> "DataFrame":
        """The rows that stay, of files that go."""
        rows = self.table(spec.table.view, may_hold=lambda entry: entry["path"] in gone)
        if share.whole:
            rows = rows.where(~F.col("db_id").isin(sorted(share.whole)))
        if touched is not None and touched.num_rows:
            going = self._units(touched, spec.unit or "").withColumn("goes", F.lit(True))
            rows = rows.join(F.broadcast(going), ["db_id", spec.unit or ""], "left")
            rows = rows.where(~(F.coalesce("goes", F.lit(False)) & F.coalesce(F.expr(spec.standing), F.lit(False))))
        return rows.select(*spec.table.schema.names)

    def standing(self, spec: Spec, share: Share, touched: pa.Table | None) -> "DataFrame":
        """The rows of touched units that go."""
        if touched is None or not touched.num_rows:
            return self.table(spec.table.view, may_hold=lambda entry: False)
        rows = self.table(spec.table.view, may_hold=lambda entry: meets(entry, share.marks))
        return self._in(rows, touched, spec.unit or "").where(spec.standing)

    def ask(self, sql: str, frame: "Callable[[str], DataFrame]") -> "DataFrame":
        """What a statement gives. Parts are put into it."""
        frames = {
            name: self.ask(self._plan.parts[name].sql, frame) if name in self._plan.parts else frame(name)
            for name in named_in(sql)
        }
        with self._parsing:  # frames stand under names of the session while a statement is read
            return self.spark.sql(sql, self._settings, **frames)

    def table(
        self, name: str, *, may_hold: FileTest | None = None, first: bool = False, whole_files: bool = False
    ) -> "DataFrame":
        """A table at the version that is pinned, or was at first."""
        version = (self._first_versions if first else self._versions)[name]
        table = self._tables[name]
        return read_table(self.spark, self._lake, table, version=version, may_hold=may_hold, with_files=whole_files)

    def origin(self, name: str) -> str:
        """The column with the event that a row of the table came of."""
        spec = self._plan.specs.get(name)
        return "event_id" if spec is None else spec.origin or "event_id"

    def narrow(self, rows: "DataFrame", touched: pa.Table, statement: str) -> "DataFrame":
        """The rows that a statement gives which has the touched units."""
        frames = {"rows": rows, "touched": F.broadcast(self._units(touched, "unit"))}
        return self.ask(statement, frames.__getitem__).select(*rows.columns)

    def marked(self, rows: "DataFrame", marks: Mapping[str, int], origin: str) -> "DataFrame":
        """The rows that came of events after the marks."""
        known = self.marks(marks)
        return rows.join(known, "db_id").where(F.col(origin) > F.col("mark")).drop("mark")

    def marks(self, marks: Mapping[str, int]) -> "DataFrame":
        """Each hub with its mark."""
        rows = pa.table({"db_id": pa.array(marks.keys(), pa.string()), "mark": pa.array(marks.values(), pa.int64())})
        return F.broadcast(self.spark.createDataFrame(rows))

    def _in(self, rows: "DataFrame", touched: pa.Table, unit: str) -> "DataFrame":
        return rows.join(F.broadcast(self._units(touched, unit)), ["db_id", unit], "left_semi")

    def _units(self, touched: pa.Table, unit: str) -> "DataFrame":
        return self.spark.createDataFrame(touched).withColumnRenamed("unit", unit)

    def _finished(self, spec: Spec, rows: "DataFrame") -> "DataFrame":
        """The rows with the columns that follow from others, each of the table's type."""
        added: dict[str, Column] = {
            name: F.try_to_timestamp(column)
            for column in rows.columns
            if (name := time_column(column)) in spec.table.schema.names and name not in rows.columns
        }
        if "bucket" in spec.table.schema.names:
            added["bucket"] = _bucket(spec.origin or "event_id")
        typed = [F.col(field.name).cast(_TYPES[field.type]).alias(field.name) for field in spec.table.schema]
        return rows.withColumns(added).select(*typed)


class _Sight:
    """What the statement of one table sees."""

    def __init__(self, views: Views, spec: Spec, share: Share, touched: pa.Table | None) -> None:
        self._views, self._spec, self._share, self._touched = views, spec, share, touched

    def frame(self, name: str) -> "DataFrame":
        if name == BEFORE:
            return self._views.standing(self._spec, self._share, self._touched)
        if name == "events":
            return self._fresh(EVENTS_SEEN)
        if name == EDGE:
            return self._edge()
        if name == "news":
            events, refused = self._fresh(EVENTS_SEEN), self._fresh(QUARANTINE.view)
            return accepted(events, refused)
        if name.startswith(FRESH):
            return self._fresh(name.removeprefix(FRESH))
        return self._whole(name)

    def recalled(self) -> dict[str, "DataFrame"]:
        """Of the divided hubs, what a function needs of the state before the news."""
        marks = self._share.marks
        found: dict[str, DataFrame] = {}
        for name in self._spec.recalls if marks else ():
            rows = self._views.table(name, may_hold=lambda entry: meets(entry, marks), first=True)
            found[name] = rows.where(F.col("db_id").isin(sorted(marks)))
        return found

    def _fresh(self, name: str) -> "DataFrame":
        """All rows of whole hubs, and of the others those that came of new events."""
        origin = self._views.origin(name)
        if self._share.is_all and not self._share.marks:
            return self._views.table(name)
        marks = dict.fromkeys(self._share.whole, -1) | dict(self._share.marks)
        rows = self._views.table(name, may_hold=lambda entry: meets_after(entry, marks, origin))
        return self._views.marked(rows, marks, origin)

    def _edge(self) -> "DataFrame":
        """The events at the marks."""
        marks = self._share.marks
        before = {db_id: mark - 1 for db_id, mark in marks.items()}
        rows = self._views.table(EVENTS_SEEN, may_hold=lambda entry: meets_after(entry, before, "event_id"))
        return rows.join(self._views.marks(marks), "db_id").where(F.col("event_id") == F.col("mark")).drop("mark")

    def _whole(self, name: str) -> "DataFrame":
        """All rows of the hubs; of the divided ones only those of touched units, where the table sees no more."""
        statement = self._spec.sees.get(name)
        if self._share.is_all and not self._share.marks:
            return self._views.table(name)
        if statement is None or self._touched is None:
            return self._of(name, self._share.hubs)
        rows = self._views.narrow(self._of(name, self._share.marks), self._touched, statement)
        return rows.unionByName(self._of(name, self._share.whole)) if self._share.whole else rows

    def _of(self, name: str, hubs: Collection[str]) -> "DataFrame":
        rows = self._views.table(name, may_hold=lambda entry: meets(entry, hubs))
        return rows.where(F.col("db_id").isin(sorted(hubs)))


_TYPES: Final = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


def meets(entry: Mapping[str, Any], hubs: Collection[str]) -> bool:
    """Whether a file may have rows of one of these hubs."""
    low, high = _hubs_of(entry)
    if low is not None and low == high:
        return low in hubs
    return any(bounds_meet(entry, "db_id", at_least=db_id, at_most=db_id) for db_id in hubs)


def meets_after(entry: Mapping[str, Any], marks: Mapping[str, int], origin: str) -> bool:
    """Whether a file may have rows that came of events after the marks."""
    low, high = _hubs_of(entry)
    near = [low] if low is not None and low == high else marks
    return any(
        bounds_meet(entry, "db_id", at_least=db_id, at_most=db_id)
        and bounds_meet(entry, origin, at_least=marks[db_id] + 1)
        for db_id in near
        if db_id in marks
    )


def _hubs_of(entry: Mapping[str, Any]) -> tuple[str | None, str | None]:
    lows: dict[str, Any] = entry["min"] or {}
    highs: dict[str, Any] = entry["max"] or {}
    return lows.get("db_id"), highs.get("db_id")


def _bucket(origin: str) -> "Column":
    group = F.pmod(F.crc32(F.col("db_id").cast("binary")), F.lit(BUCKET_GROUPS))
    block = F.floor(F.col(origin) / BUCKET_EVENTS)
    return F.concat_ws("-", group.cast("string"), F.lpad(block.cast("string"), 6, "0"))
