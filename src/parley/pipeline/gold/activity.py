"""What happened when: messages posted, edited, deleted and moved, per agent and topic, by the hour and by the day.

A deletion counts for whoever deleted; an edit and a move count for the sender of the message. Each change counts in
the topic in which the message was after it, so a move counts where it led.
"""

from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from parley.pipeline.gold.facts import CREATED, DELETED, EDITED, MOVED

Grain = Literal["hour", "day"]


def count_activity(changes: DataFrame, grain: Grain) -> DataFrame:
    """One row per hour or day, agent and topic in which anything happened: ``activity_hour``, ``activity_day``."""
    timed = changes.where(F.col("at").isNotNull()).withColumn("start", F.date_trunc(grain, "at"))
    kind = F.col("kind")
    return timed.groupBy("db_id", "start", "agent", "channel_id", "topic_id").agg(
        F.count_if(kind == CREATED).alias("messages"),
        F.count_if(kind == EDITED).alias("edits"),
        F.count_if(kind == DELETED).alias("deletions"),
        F.count_if(kind == MOVED).alias("moves"),
        F.coalesce(F.sum(F.when(kind == CREATED, F.col("characters"))), F.lit(0)).alias("characters"),
    )
