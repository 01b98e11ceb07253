"""What was, and when: every version of a message, every title of a topic, every move.

A row is valid from the event that made it to the one that ended it; null means that it still is. What archives took
stays here, for they move history elsewhere and do not undo it.
"""

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from parley.core.limits import TOMBSTONE
from parley.pipeline.fold.payloads import KEYS, MESSAGE_EVENTS, named, of_entity, parsed


def message_versions(events: DataFrame, before: DataFrame | None = None) -> DataFrame:
    """One row per version of a message. ``before`` holds the version of each message that was the newest so far."""
    changes = of_entity(events, *MESSAGE_EVENTS).withColumn("payload", parsed("data_json", _CHANGE))
    name = F.col("name")
    created, deleted = name == "message.created", name == "message.deleted"
    steps = changes.select(
        *KEYS,
        "event_id",
        "ts",
        F.when(created, F.col("payload.message.version")).otherwise(F.col("payload.version")).alias("version"),
        _kind().alias("change"),
        F.when(created, F.col("payload.message.content_raw"))
        .when(name == "message.edited", F.col("payload.new_content"))
        .when(deleted, F.lit(TOMBSTONE))
        .alias("content_raw"),
        F.when(created, F.col("payload.message.topic_id"))
        .when(name == "message.moved_topic", F.col("payload.new_topic_id"))
        .alias("topic_id"),
        F.when(created, F.col("payload.message.sender")).when(deleted, F.col("payload.deleted_by")).alias("actor"),
        F.when(created, F.col("payload.message.reply_to")).alias("reply_to"),
    )
    if before is not None:
        steps = before.withColumnRenamed("valid_from_event", "event_id").select(*steps.columns).unionByName(steps)
    so_far = _in_order().rowsBetween(Window.unboundedPreceding, Window.currentRow)
    carried = {column: F.last(column, ignorenulls=True).over(so_far) for column in _LASTING}
    return steps.withColumns({**carried, "valid_to_event": _next()}).withColumnRenamed("event_id", "valid_from_event")


def topic_titles(events: DataFrame, before: DataFrame | None = None) -> DataFrame:
    """One row per title that a topic had. ``before`` holds the title of each topic that was the newest so far."""
    payload = parsed("data_json", "topic struct<title string>, new_title string")
    first, later = F.col("payload.topic.title"), F.col("payload.new_title")
    title = F.when(F.col("name") == "topic.created", first).otherwise(later).alias("title")
    steps = (
        of_entity(events, "topic.created", "topic.renamed")
        .withColumn("payload", payload)
        .select(*KEYS, "event_id", "ts", title)
    )
    if before is not None:
        steps = before.withColumnRenamed("valid_from_event", "event_id").select(*steps.columns).unionByName(steps)
    return steps.withColumn("valid_to_event", _next()).withColumnRenamed("event_id", "valid_from_event")


def moves(events: DataFrame) -> DataFrame:
    """One row per message and move."""
    payload = parsed("data_json", _MOVE)
    return (
        named(events, "message.moved_topic")
        .withColumn("payload", payload)
        .select("db_id", "event_id", "ts", "payload.*")
    )


_LASTING = ("content_raw", "topic_id", "reply_to")
"""What a version has from the one before, unless its event says otherwise."""
_MOVE = "message_id string, old_topic_id string, new_topic_id string, channel_id string, mode string, version bigint"
_CHANGE = (
    "message struct<version bigint, content_raw string, topic_id string, sender string, reply_to string>,"
    " version bigint, new_content string, new_topic_id string, deleted_by string"
)


def _kind() -> Column:
    name = F.col("name")
    return F.when(name == "message.moved_topic", "moved").otherwise(F.split_part(name, F.lit("."), F.lit(2)))


def _in_order() -> WindowSpec:
    return Window.partitionBy(*KEYS).orderBy("event_id")


def _next() -> Column:
    return F.lead("event_id").over(_in_order())
