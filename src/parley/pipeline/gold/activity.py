"""What happened when: messages posted, edited, deleted and moved, per agent and topic, by the hour and by the day.

A deletion counts for whoever deleted; an edit and a move count for the sender of the message. Each change counts in
the topic in which the message was after it, so a move counts where it led.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from parley.pipeline.gold.facts import CREATED, DELETED, EDITED, MOVED

_KEYS = ("db_id", "start", "agent", "channel_id", "topic_id")
_COUNTS = ("messages", "edits", "deletions", "moves", "characters")


def count_activity(changes: DataFrame) -> DataFrame:
    """One row per hour, agent and topic in which anything happened: the table ``activity_hour``."""
    timed = changes.where(F.col("at").isNotNull()).withColumn("start", F.date_trunc("hour", "at"))
    kind = F.col("kind")
    return timed.groupBy(*_KEYS).agg(
        F.count_if(kind == CREATED).alias("messages"),
        F.count_if(kind == EDITED).alias("edits"),
        F.count_if(kind == DELETED).alias("deletions"),
        F.count_if(kind == MOVED).alias("moves"),
        F.coalesce(F.sum(F.when(kind == CREATED, F.col("characters"))), F.lit(0)).alias("characters"),
    )


def by_day(hours: DataFrame) -> DataFrame:
    """The same by the day, from what was counted by the hour: the table ``activity_day``."""
    days = hours.withColumn("start", F.date_trunc("day", "start"))
    return days.groupBy(*_KEYS).agg(*(F.sum(count).alias(count) for count in _COUNTS))
