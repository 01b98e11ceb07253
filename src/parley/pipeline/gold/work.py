"""Tasks and leases: how long until somebody claims, how long until it is done, and how often a holder was lost.

The silver tables hold how each stands now; what happened to it on the way is in its events.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from parley.pipeline.gold.measures import latencies, latency_ms, moment

_TASK = ["db_id", "task_id"]
_LEASE = ["db_id", "lease_id"]


def describe_tasks(tasks: DataFrame, events: DataFrame) -> DataFrame:
    """One row per task: the table ``task_times``. Times run from the task's creation, by the log."""
    happened = events.where(F.col("name").startswith("task.")).withColumn("at", moment("ts"))
    history = happened.groupBy("db_id", F.col("entity_id").alias("task_id")).agg(
        _first("task.created", "created_at"),
        _first("task.claimed", "first_claimed_at"),
        _first("task.completed", "completed_at"),
        _first("task.cancelled", "cancelled_at"),
        _count("task.claimed", "claims"),
        _count("task.released", "releases"),
        _count("task.taken_over", "takeovers"),
        _count("task.expired", "expiries"),
    )
    now = tasks.select(
        "db_id", F.col("id").alias("task_id"), "channel_id", "topic_id", "title", "status", "created_by", "holder"
    )
    return now.join(history, _TASK).withColumns(
        {
            "claim_ms": latency_ms("created_at", "first_claimed_at"),
            "complete_ms": latency_ms("created_at", "completed_at"),
        }
    )


def _first(name: str, column: str) -> Column:
    return F.min_by(F.when(F.col("name") == name, F.col("at")), F.when(F.col("name") == name, F.col("event_id"))).alias(
        column
    )


def _count(name: str, column: str) -> Column:
    return F.count_if(F.col("name") == name).alias(column)


def count_open_tasks(tasks: DataFrame) -> DataFrame:
    """Per topic, the tasks that are neither completed nor cancelled."""
    waiting = tasks.where(F.col("status").isin("open", "claimed"))
    return waiting.groupBy("db_id", "topic_id").agg(F.count("*").alias("open_tasks"))


def describe_leases(leases: DataFrame, events: DataFrame) -> DataFrame:
    """One row per holder: how many leases, how they ended and how long they were held: the table ``lease_times``."""
    happened = events.where(F.col("name").startswith("lease.")).withColumn("at", moment("ts"))
    ended = F.col("name").isin("lease.released", "lease.expired")
    history = happened.groupBy("db_id", F.col("entity_id").alias("lease_id")).agg(
        _first("lease.acquired", "acquired_at"),
        F.min_by(F.when(ended, F.col("at")), F.when(ended, F.col("event_id"))).alias("ended_at"),
    )
    now = leases.select("db_id", F.col("id").alias("lease_id"), "holder", "mode", "status")
    held = now.join(history, _LEASE).withColumn("latency_ms", latency_ms("acquired_at", "ended_at"))
    return held.groupBy("db_id", "holder").agg(
        F.count("*").alias("leases"),
        F.count_if(F.col("mode") == "exclusive").alias("exclusive"),
        F.count_if(F.col("status") == "active").alias("active"),
        F.count_if(F.col("status") == "expired").alias("expired"),
        *latencies(),
    )
