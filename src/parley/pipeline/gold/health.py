"""How the hubs themselves are: how many events an hour, ids that are missing, times that run backwards.

A hub gives its events ascending ids without gaps, so a hole in what the lake holds is worth a look, and so is a time
below that of the event before. Neighbours are compared inside blocks of ids and then across their borders, so that the
history of one large hub is spread over all tasks.
"""

from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from parley.pipeline.gold.measures import moment

BLOCK = 100_000
"""Event ids that are compared by one task: a few megabytes."""


def count_hours(events: DataFrame) -> DataFrame:
    """Events and new messages of each hub by the hour: the table ``health_hour``."""
    timed = events.withColumn("start", F.date_trunc("hour", moment("ts"))).where(F.col("start").isNotNull())
    return timed.groupBy("db_id", "start").agg(
        F.count("*").alias("events"), F.count_if(F.col("name") == "message.created").alias("messages")
    )


def compare_neighbours(events: DataFrame) -> DataFrame:
    """Each event after which ids are missing, or the time runs backwards: the table ``irregularities``.

    ``missing`` is how many ids lie between the event and the one before it; ``back_ms`` is how far its time lies
    before that one's. At least one of them is above 0.
    """
    rows = events.select("db_id", "event_id", "ts", F.floor(F.col("event_id") / BLOCK).alias("block"))
    inside = _with_previous(rows, Window.partitionBy("db_id", "block").orderBy("event_id"))
    borders = rows.groupBy("db_id", "block").agg(
        F.min_by(F.struct("event_id", "ts"), "event_id").alias("first"),
        F.max_by(F.struct("event_id", "ts"), "event_id").alias("last"),
    )
    across = borders.withColumn("before", F.lag("last").over(Window.partitionBy("db_id").orderBy("block"))).select(
        "db_id", F.col("first.event_id").alias("event_id"), F.col("first.ts").alias("ts"), "before"
    )
    between = inside.unionByName(across).where(F.col("before").isNotNull())
    return (
        between.select(
            "db_id",
            "event_id",
            F.col("before.event_id").alias("previous_event_id"),
            "ts",
            F.col("before.ts").alias("previous_ts"),
            (F.col("event_id") - F.col("before.event_id") - 1).alias("missing"),
        )
        .withColumn("back_ms", F.unix_millis(moment("previous_ts")) - F.unix_millis(moment("ts")))
        .withColumn("back_ms", F.greatest(F.coalesce("back_ms", F.lit(0)), F.lit(0)))
        .where((F.col("missing") > 0) | (F.col("back_ms") > 0))
    )


def _with_previous(rows: DataFrame, order: WindowSpec) -> DataFrame:
    previous = F.lag(F.struct("event_id", "ts")).over(order)
    return rows.withColumn("before", previous).select("db_id", "event_id", "ts", "before")


def describe_hubs(events: DataFrame, hours: DataFrame, irregular: DataFrame, quarantine: DataFrame) -> DataFrame:
    """One row per hub: the table ``hubs``. ``hours`` is what ``count_hours`` gives of the events."""
    known = events.groupBy("db_id").agg(
        F.max_by("source", "event_id").alias("source"),
        F.count("*").alias("events"),
        F.min("event_id").alias("first_event_id"),
        F.max("event_id").alias("last_event_id"),
        F.min(moment("ts")).alias("first_at"),
        F.max(moment("ts")).alias("last_at"),
        F.count_if(moment("ts").isNull()).alias("untimed"),
    )
    peaks = hours.groupBy("db_id").agg(F.count("*").alias("busy_hours"), F.max("events").alias("peak"))
    odd = irregular.groupBy("db_id").agg(
        F.count_if(F.col("missing") > 0).alias("gaps"),
        F.sum("missing").alias("missing"),
        F.count_if(F.col("back_ms") > 0).alias("clock_jumps"),
        F.max("back_ms").alias("back_ms_max"),
    )
    set_aside = quarantine.groupBy("db_id").agg(F.count("*").alias("quarantined"))
    joined = known.join(peaks, "db_id", "left").join(odd, "db_id", "left").join(set_aside, "db_id", "left")
    return joined.fillna(
        0, ["busy_hours", "peak", "gaps", "missing", "clock_jumps", "back_ms_max", "quarantined"]
    ).withColumnRenamed("peak", "events_in_peak_hour")


def count_quarantine(quarantine: DataFrame) -> DataFrame:
    """How many events of each kind were set aside, and why: the table ``quarantine_reasons``."""
    return quarantine.groupBy("db_id", "name", "reason").agg(
        F.count("*").alias("events"), F.min("event_id").alias("first_event_id")
    )
