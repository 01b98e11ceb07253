"""Folding new events into one silver table: only the buckets of rows that change are written again.

New rows of other buckets are added beside what is there, so that a run costs what it changes. An archive changes rows
of all ages without naming them; the tables that forget with it are folded anew for its hub, from all that bronze has.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from parley.pipeline.fold import Facts
from parley.pipeline.lake.catalogue.silver import BUCKET_EVENTS, BUCKET_GROUPS, time_column
from parley.pipeline.lake.commit import WHOLE, commit, discard, live_files, open_table, table_version
from parley.pipeline.lake.files import stage
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.reading import read_table
from parley.pipeline.silver.reading import Marks, read_accepted, steps, stretch
from parley.pipeline.silver.specs import Spec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FILES_APPENDED_MAX = 4


@dataclass(frozen=True, slots=True)
class News:
    """The events that a table has not seen, and what is known about them beforehand."""

    events: "DataFrame"
    names: frozenset[str]
    facts: Facts
    stands: Marks
    until: Marks


@dataclass(frozen=True, slots=True)
class Merged:
    """What folding them in has written."""

    rows: int = 0
    buckets: int = 0


def merge(spark: "SparkSession", lake: Lake, spec: Spec, news: News) -> Merged:
    """Brings one table up to date. Raises ``LakeConflict`` if another run was quicker."""
    base = table_version(lake, spec.table)
    moved = steps(spec.table, news.stands, news.until)
    forgotten = _forgotten(spec, news)
    if news.names.isdisjoint(spec.names) and not forgotten:
        commit(lake, spec.table, [], cursors=moved)
        return Merged()
    events = _events(spark, lake, news, forgotten)
    old = _old_rows(spark, lake, spec, base, events, news, forgotten)
    rows = finished(spec, spec.rows(events, news.facts, old.standing if old else None))
    if old is not None:
        rows = rows.unionByName(old.others)
    files = stage(_arranged(spec, rows), lake, spec.table)
    replaced = [{"bucket": bucket} for bucket in old.buckets] if old else []
    try:
        commit(lake, spec.table, files, cursors=moved, replace=replaced, base=base, about={"parley": "build"})
    except BaseException:
        discard(lake, spec.table, files)
        raise
    return Merged(sum(file.rows for file in files), len(replaced))


def finished(spec: Spec, rows: "DataFrame") -> "DataFrame":
    """Folded rows with the columns that the table has beside those of the fold."""
    added: dict[str, Column] = {
        name: F.try_to_timestamp(column) for column in rows.columns if (name := time_column(column)) is not None
    }
    if spec.table.partition_by:
        added["bucket"] = _bucket(spec.origin)
    return rows.withColumns(added).select(*spec.table.schema.names)


def _bucket(origin: str) -> "Column":
    group = F.pmod(F.crc32(F.col("db_id").cast("binary")), F.lit(BUCKET_GROUPS))
    block = F.floor(F.col(origin) / BUCKET_EVENTS)
    return F.concat_ws("-", group.cast("string"), F.lpad(block.cast("string"), 6, "0"))


def _arranged(spec: Spec, rows: "DataFrame") -> "DataFrame":
    if not spec.table.partition_by:
        return rows.coalesce(FILES_APPENDED_MAX)
    return rows.repartition("bucket").sortWithinPartitions("bucket", "db_id", spec.origin)


def _forgotten(spec: Spec, news: News) -> list[str]:
    """The hubs whose rows an archive among the news has changed beyond what events name."""
    archived = {archive.db_id for archive in news.facts.archives}
    return sorted(db_id for db_id in archived if spec.forgets and news.stands.get(db_id, 0) > 0)


def _events(spark: "SparkSession", lake: Lake, news: News, forgotten: list[str]) -> "DataFrame":
    if not forgotten:
        return news.events
    whole = read_accepted(spark, lake, stretch({}, {db_id: news.until[db_id] for db_id in forgotten}))
    return news.events.where(~F.col("db_id").isin(forgotten)).unionByName(whole)


@dataclass(frozen=True, slots=True)
class _Old:
    """The buckets with rows that change: those rows that the fold goes on from, and those that stay as they are."""

    buckets: list[str]
    standing: "DataFrame"
    others: "DataFrame"


def _old_rows(
    spark: "SparkSession", lake: Lake, spec: Spec, base: int, events: "DataFrame", news: News, forgotten: list[str]
) -> _Old | None:
    """None if nothing that is in the table changes."""
    met = [db_id for db_id in news.until if news.stands.get(db_id, 0) > 0]
    if not met or not live_files(open_table(lake, spec.table, base), WHOLE) or not (spec.touched or forgotten):
        return None
    gone = F.col("db_id").isin(forgotten) if forgotten else F.lit(False)
    is_hit = F.lit(False)
    touched: DataFrame | None = None
    if spec.touched is not None:
        touched = spec.touched(events).distinct().withColumn("hit", F.lit(True))
        is_hit = F.coalesce("hit", F.lit(False)) & F.expr(spec.standing) & ~gone

    def looked_up(rows: "DataFrame") -> "DataFrame":
        if touched is None:
            return rows
        keys = touched.withColumnRenamed("key", spec.key)
        return rows.join(keys, ["db_id", spec.key], "left")

    found: Any = looked_up(read_table(spark, lake, spec.table, version=base)).where(is_hit | gone)
    buckets = sorted(row["bucket"] for row in found.select("bucket").distinct().collect())
    if not buckets:
        return None
    places = [{"bucket": bucket} for bucket in buckets]
    old = looked_up(read_table(spark, lake, spec.table, version=base, partitions=places))
    columns = spec.table.schema.names
    return _Old(buckets, old.where(is_hit).select(*columns), old.where(~is_hit & ~gone).select(*columns))
