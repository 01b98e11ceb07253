"""Reading a report's findings from the gold tables of a lake."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from parley.pipeline.gold.measures import latencies, with_rates
from parley.pipeline.lake import Lake, read_table
from parley.pipeline.lake.catalogue import find_table
from parley.pipeline.report.findings import BUCKETS, Findings, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_MAX: Final = 15
"""Rows of a table in the report: more is what `parley pipeline sql` is for."""
AGENTS_MAX: Final = 200
PAIRS_MAX: Final = 200
STARTS_MAX: Final = 120
"""Bars of a timeline."""
HOURS_SHOWN_MAX: Final = 72
"""A lake that spans no more hours than this is shown by the hour."""

Gold = Callable[[str], DataFrame]


def read_findings(spark: "SparkSession", lake: Lake) -> Findings:
    """Reads the gold tables of the lake. Raises ``LakeNotFound`` if they were never built."""

    def gold(name: str) -> DataFrame:
        return read_table(spark, lake, find_table(f"gold_{name}"))

    found = Findings()
    found.hubs = _rows(gold("hubs").orderBy("db_id"))
    first, last = _span(found.hubs)
    found.grain = "hour" if last - first <= HOURS_SHOWN_MAX * 3_600_000 else "day"
    found.timeline = _rows(_timeline(gold(f"activity_{found.grain}")))
    found.hours = _rows(_heat(gold("activity_hour")))
    found.agents = _rows(_agents(gold))
    found.pairs = _rows(_pairs(gold("answers")))
    found.latencies = _buckets(gold("answers"))
    _read_places(found, gold)
    _read_work(found, gold)
    found.health = _rows(_newest(gold("health_hour").groupBy("start").agg(F.sum("events").alias("events"))))
    odd = gold("irregularities").orderBy(F.desc("back_ms"), F.desc("missing"), "db_id", "event_id")
    found.irregularities = _rows(odd.limit(ROWS_MAX))
    reasons = gold("quarantine_reasons").orderBy(F.desc("events"), "db_id", "name", "reason")
    found.quarantine = _rows(reasons.limit(ROWS_MAX))
    found.totals = _totals(gold) | {"first_at": first, "last_at": last}
    return found


def _span(hubs: list[Row]) -> tuple[int, int]:
    known = [hub[side] for hub in hubs for side in ("first_at", "last_at") if hub[side] is not None]
    return (min(known), max(known)) if known else (0, 0)


def _rows(table: DataFrame) -> list[Row]:
    """The rows as dictionaries, moments as milliseconds, so that no time zone of this process plays a part."""
    columns = [
        F.unix_millis(F.col(name)).alias(name) if kind.startswith("timestamp") else F.col(name)
        for name, kind in table.dtypes
    ]
    collected: list[Any] = table.select(*columns).collect()
    return [row.asDict() for row in collected]


def _newest(by_start: DataFrame) -> DataFrame:
    return by_start.orderBy(F.desc("start")).limit(STARTS_MAX).orderBy("start")


def _timeline(activity: DataFrame) -> DataFrame:
    shown = _newest(activity.select("start").distinct())
    counted = activity.join(shown, "start").groupBy("start", "agent").agg(F.sum("messages").alias("messages"))
    return counted.orderBy("start", "agent")


def _heat(activity: DataFrame) -> DataFrame:
    return (
        activity.groupBy(F.weekday("start").alias("weekday"), F.hour("start").alias("hour"))
        .agg(F.sum("messages").alias("messages"))
        .orderBy("weekday", "hour")
    )


def _agents(gold: Gold) -> DataFrame:
    sums = ("messages", "edited", "moved", "deleted", "answers_given", "messages_answered")
    summed = (
        gold("agents")
        .groupBy("agent")
        .agg(*(F.sum(name).alias(name) for name in sums), F.max("last_at").alias("last_at"))
    )
    speed = gold("answers").groupBy(F.col("answerer").alias("agent")).agg(*latencies())
    joined = with_rates(summed).join(speed, "agent", "left")
    return joined.orderBy(F.desc("messages"), "agent").limit(AGENTS_MAX)


def _pairs(answers: DataFrame) -> DataFrame:
    counted = answers.groupBy("asker", "answerer").agg(F.count("*").alias("answers"), *latencies())
    return counted.orderBy(F.desc("answers"), "asker", "answerer").limit(PAIRS_MAX)


def _buckets(answers: DataFrame) -> list[Row]:
    number: Column = F.lit(len(BUCKETS) - 1)
    for index, (_, limit) in reversed(list(enumerate(BUCKETS))):
        if limit is not None:
            number = F.when(F.col("latency_ms") <= limit, index).otherwise(number)
    known = answers.where(F.col("latency_ms").isNotNull()).groupBy(number.alias("bucket"), "kind")
    counted = {(row["bucket"], row["kind"]): row["answers"] for row in _rows(known.agg(F.count("*").alias("answers")))}
    return [
        {"up_to": name, "reply": counted.get((index, "reply"), 0), "next": counted.get((index, "next"), 0)}
        for index, (name, _) in enumerate(BUCKETS)
    ]


def _read_places(found: Findings, gold: Gold) -> None:
    channels = gold("channels").select("db_id", "channel_id", F.col("name").alias("channel"))
    topics = gold("topics").join(channels, ["db_id", "channel_id"], "left")
    found.channels = _rows(gold("channels").orderBy(F.desc("messages"), "db_id", "channel_id").limit(ROWS_MAX))
    order = ("db_id", "topic_id")
    found.busiest = _rows(topics.where("messages > 0").orderBy(F.desc("messages"), *order).limit(ROWS_MAX))
    stuck = topics.where("stuck_reason IS NOT NULL")
    found.stuck = _rows(stuck.orderBy(F.desc("quiet_ms"), *order).limit(ROWS_MAX))
    waiting = gold("unanswered").join(channels, ["db_id", "channel_id"], "left")
    found.unanswered = _rows(waiting.orderBy(F.desc("waiting_ms"), *order).limit(ROWS_MAX))


def _read_work(found: Findings, gold: Gold) -> None:
    tasks = gold("task_times")
    summed = tasks.agg(
        F.count("*").alias("tasks"),
        *(F.count_if(F.col("status") == status).alias(status) for status in _STATUSES),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("claims", "releases", "takeovers", "expiries")),
        *(
            F.percentile(name, share).alias(f"{name.removesuffix('_ms')}_p{round(share * 100)}_ms")
            for name in ("claim_ms", "complete_ms")
            for share in (0.5, 0.9)
        ),
    )
    found.tasks = _rows(summed)[0]
    open_ones = tasks.where(F.col("status").isin("open", "claimed"))
    found.open_tasks = _rows(open_ones.orderBy("created_at", "db_id", "task_id").limit(ROWS_MAX))
    found.leases = _rows(gold("lease_times").orderBy(F.desc("leases"), "db_id", "holder").limit(ROWS_MAX))


_STATUSES: Final = ("open", "claimed", "completed", "cancelled")


def _totals(gold: Gold) -> Row:
    """The headline's numbers, over everything and not only over what is shown."""
    messages = _rows(
        gold("agents").agg(
            *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("messages", "edited", "moved", "deleted")),
            F.count_distinct("agent").alias("agents"),
        )
    )[0]
    topics = _rows(
        gold("topics").agg(
            F.count("*").alias("topics"), F.count_if(F.col("stuck_reason").isNotNull()).alias("stuck_topics")
        )
    )[0]
    answers = _rows(gold("answers").agg(F.count("*").alias("answers"), *latencies()))[0]
    waiting = _rows(gold("unanswered").agg(F.count("*").alias("unanswered")))[0]
    channels = _rows(gold("channels").agg(F.count("*").alias("channels")))[0]
    return messages | topics | answers | waiting | channels
