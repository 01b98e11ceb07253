"""What silver is built from: stretches of the hubs' logs in bronze, and where each table stands in them.

Every silver table has a cursor per hub, in the same commit as its rows. The quarantine's cursor says how far events
have been judged; no table is ever ahead of it, and before it moves all tables are brought up to it. So whatever is
killed, the state that the next events are judged in is there.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from parley.pipeline.fold import accepted
from parley.pipeline.lake.catalogue.bronze import CURSOR_PREFIX, EVENTS
from parley.pipeline.lake.catalogue.silver import QUARANTINE
from parley.pipeline.lake.commit import WHOLE, Step, exists, live_files, open_table
from parley.pipeline.lake.cursors import read_cursors
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.reading import bounds_meet, read_table
from parley.pipeline.lake.tables import Table
from parley.pipeline.source.schema import EVENT_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Marks = Mapping[str, int]
"""Hub to the last event that was taken of it."""
Stretch = Mapping[str, tuple[int, int]]
"""Hub to the stretch of its log: after the first event, up to the second."""


def bronze_marks(lake: Lake) -> dict[str, int]:
    """How far bronze has each hub's log."""
    return _marks(lake, EVENTS, CURSOR_PREFIX)


def silver_marks(lake: Lake, table: Table) -> dict[str, int]:
    """How far a silver table has been built."""
    return _marks(lake, table, cursor_prefix(table))


def cursor_prefix(table: Table) -> str:
    """The names of a silver table's cursors begin like this; the hub's id follows."""
    return f"parley.silver.{table.name}."


def steps(table: Table, stands: Marks, until: Marks) -> list[Step]:
    """The cursors of a table that move."""
    prefix = cursor_prefix(table)
    return [
        Step(prefix + db_id, stands.get(db_id), reached)
        for db_id, reached in until.items()
        if stands.get(db_id, 0) < reached
    ]


def stretch(stands: Marks, until: Marks) -> dict[str, tuple[int, int]]:
    """What lies between two marks."""
    return {
        db_id: (stands.get(db_id, 0), reached) for db_id, reached in until.items() if stands.get(db_id, 0) < reached
    }


def read_events(spark: "SparkSession", lake: Lake, wanted: Stretch) -> "DataFrame":
    """The events of these stretches as bronze has them. Files that cannot hold any are not opened."""
    rows = read_table(spark, lake, EVENTS, may_hold=lambda entry: may_hold(entry, wanted))
    bounds: Any = spark.createDataFrame(
        [(db_id, lo, hi) for db_id, (lo, hi) in wanted.items()], "db_id string, lo bigint, hi bigint"
    )
    lowest, highest = min(lo for lo, _ in wanted.values()), max(hi for _, hi in wanted.values())
    return (
        rows.where((F.col("event_id") > lowest) & (F.col("event_id") <= highest))
        .join(F.broadcast(bounds), "db_id")
        .where("event_id > lo AND event_id <= hi")
        .select(*EVENT_SCHEMA.names)
    )


def read_accepted(spark: "SparkSession", lake: Lake, wanted: Stretch) -> "DataFrame":
    """The events of these stretches without those in quarantine."""
    events = read_events(spark, lake, wanted)
    entries = live_files(open_table(lake, QUARANTINE), WHOLE).values() if exists(lake, QUARANTINE) else ()
    if not any(may_hold(entry, wanted) for entry in entries):
        return events
    return accepted(events, read_table(spark, lake, QUARANTINE, may_hold=lambda entry: may_hold(entry, wanted)))


def truncated_hubs(spark: "SparkSession", lake: Lake, hubs: Collection[str]) -> frozenset[str]:
    """Those of the hubs whose log in bronze does not begin with its first event."""
    entries = live_files(open_table(lake, EVENTS), WHOLE).values()
    firsts = _firsts(entries)
    if firsts is None:
        rows: Any = read_table(spark, lake, EVENTS).groupBy("db_id").agg(F.min("event_id").alias("first")).collect()
        firsts = {row["db_id"]: row["first"] for row in rows}
    return frozenset(db_id for db_id, first in firsts.items() if first > 1 and db_id in hubs)


def _firsts(entries: Iterable[Mapping[str, Any]]) -> dict[str, int] | None:
    """The first event of each hub by the files' statistics; None if they do not tell."""
    firsts: dict[str, int] = {}
    for entry in entries:
        low: dict[str, Any] = entry["min"] or {}
        high: dict[str, Any] = entry["max"] or {}
        if not {"db_id", "event_id"} <= low.keys() or low["db_id"] != high.get("db_id"):
            return None
        firsts[low["db_id"]] = min(int(low["event_id"]), firsts.get(low["db_id"], int(low["event_id"])))
    return firsts


def may_hold(entry: Mapping[str, Any], wanted: Stretch) -> bool:
    """Whether a file can hold an event of these stretches, by what the log says of it."""
    return any(
        bounds_meet(entry, "db_id", at_least=db_id, at_most=db_id)
        and bounds_meet(entry, "event_id", at_least=lo + 1, at_most=hi)
        for db_id, (lo, hi) in wanted.items()
    )


def _marks(lake: Lake, table: Table, prefix: str) -> dict[str, int]:
    if not exists(lake, table):
        return {}
    cursors = read_cursors(lake, table)
    return {name.removeprefix(prefix): stands for name, stands in cursors.items() if name.startswith(prefix)}
