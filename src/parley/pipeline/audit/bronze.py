"""Whether bronze is the log: each event once, to the byte, as far as the lake has come."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from parley.pipeline.audit.copies import HubCopy
from parley.pipeline.audit.findings import frame_of
from parley.pipeline.ingest import cursor_name
from parley.pipeline.lake import Lake, cursor, read_table
from parley.pipeline.lake.catalogue.bronze import EVENTS
from parley.pipeline.source.schema import LOG_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CURSOR_DDL: Final = "db_id string, begins bigint, floor bigint, until bigint"


def bronze_findings(spark: "SparkSession", lake: Lake, events: DataFrame, copies: Sequence[HubCopy]) -> DataFrame:
    """A search for events that bronze lacks, has twice, has otherwise, or has alone.

    What was ingested after the copy was made is left out, and so is what lies in an archive that cannot be read.
    Payloads stay where they are: their hashes travel.
    """
    reached = [(copy.db_id, copy.begins_after, copy.floor, _reached(lake, copy)) for copy in copies]
    spans = F.broadcast(spark.createDataFrame(reached, _CURSOR_DDL))
    within = "event_id > begins AND event_id <= until"
    content = F.xxhash64(*(name for name in LOG_COLUMNS if name != "event_id")).alias("content")
    logged = events.select("db_id", "event_id", content).join(spans, "db_id").where(within)
    held = read_table(spark, lake, EVENTS).select("db_id", "event_id", content)
    held = held.join(spans, "db_id").where(within)
    times = held.groupBy("db_id", "event_id").agg(
        F.count("*").alias("times"), F.min("content").alias("low"), F.max("content").alias("high")
    )
    both = logged.select("db_id", "event_id", "content", "floor").join(times, ["db_id", "event_id"], "full")
    problem = (
        F.when(F.col("content").isNull(), "bronze.unknown")
        .when(F.col("times").isNull() & (F.col("event_id") <= F.col("floor")), "bronze.archived")
        .when(F.col("times").isNull(), "bronze.missing")
        .when((F.col("low") != F.col("content")) | (F.col("high") != F.col("content")), "bronze.differs")
        .when(F.col("times") > 1, "bronze.twice")
    )
    wrong = both.withColumn("problem", problem).where("problem IS NOT NULL")
    return frame_of(
        wrong,
        F.col("problem"),
        EVENTS.view,
        id=F.col("event_id").cast("string"),
        event_id=F.col("event_id"),
        expected=_once(F.col("content").isNotNull()),
        found=F.concat(F.coalesce("times", F.lit(0)), F.lit(" times")),
    )


def _reached(lake: Lake, copy: HubCopy) -> int:
    return min(cursor(lake, EVENTS, cursor_name(copy.db_id)) or 0, copy.bounds.hi)


def _once(logged: Column) -> Column:
    return F.when(logged, F.lit("once, as it was logged")).otherwise(F.lit("nothing"))
