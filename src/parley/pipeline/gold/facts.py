"""What the gold tables are counted from: each message that was ever posted, and each change of one.

Both come from the versions of messages, which keep what archives have taken. A message whose posting the lake does not
hold, since its hub was archived before anybody read it, has no sender and is left out.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from parley.pipeline.gold.measures import moment

CREATED, EDITED, DELETED, MOVED = "created", "edited", "deleted", "moved"
ASKS: Final = r"(?m)[?？؟]\s*$"
"""A line that ends with a question mark. Others, as in addresses and code, ask nothing."""


def find_posts(versions: DataFrame, topics: DataFrame) -> DataFrame:
    """One row per message: how it was posted, where and how it stands now, and what happened to it."""
    change, place = F.col("change"), F.col("valid_from_event")
    posted = F.struct(
        place.alias("event_id"),
        F.col("actor").alias("sender"),
        moment("ts").alias("at"),
        "reply_to",
        F.length("content_raw").cast("bigint").alias("characters"),
    )
    grouped = versions.groupBy("db_id", F.col("id").alias("message_id")).agg(
        F.max(F.when(change == CREATED, posted)).alias("posted"),
        F.max_by("topic_id", place).alias("topic_id"),
        F.max_by(F.col("content_raw").rlike(ASKS), place).alias("asks"),
        F.max(change == DELETED).alias("is_deleted"),
        F.count_if(change == EDITED).alias("edits"),
        F.count_if(change == MOVED).alias("moves"),
    )
    channels = topics.select("db_id", F.col("id").alias("topic_id"), "channel_id")
    return (
        grouped.where("posted IS NOT NULL")
        .join(channels, ["db_id", "topic_id"], "left")
        .select("db_id", "message_id", "posted.*", "channel_id", "topic_id", "asks", "is_deleted", "edits", "moves")
    )


def find_changes(versions: DataFrame, posts: DataFrame) -> DataFrame:
    """One row per version: who made it, and in which topic the message then was.

    The log does not say who edited or moved a message, so both count for its sender.
    """
    known = posts.select("db_id", F.col("message_id").alias("id"), "sender", "channel_id", "characters")
    return versions.join(known, ["db_id", "id"]).select(
        "db_id",
        moment("ts").alias("at"),
        F.col("change").alias("kind"),
        F.coalesce(_deleter(), "sender").alias("agent"),
        "channel_id",
        "topic_id",
        "characters",
    )


def _deleter() -> Column:
    return F.when(F.col("change") == DELETED, F.col("actor"))
