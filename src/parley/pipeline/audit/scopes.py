"""Scopes decide who receives an event: whether each event carries those of the place where its entity then was."""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from parley.core.events import EVENTS
from parley.pipeline.audit.findings import frame_of
from parley.pipeline.fold.payloads import named, parsed

_PAYLOAD: Final = (
    "topic struct<channel_id string>, message struct<topic_id string, channel_id string>,"
    " attachment struct<topic_id string>, task struct<topic_id string, channel_id string>,"
    " old_topic_id string, new_topic_id string, channel_id string"
)
_SCOPES: Final = ("channel_id", "topic_id", "topic_id2")


def scope_findings(events: DataFrame) -> DataFrame:
    """A search for wrong scopes, and for things in a topic of another channel."""
    problems = F.array_compact(F.array(*map(_scope_problem, _SCOPES), _channel_problem()))
    wrong = _placed(events).withColumn("problem", F.explode(problems))
    return frame_of(
        wrong,
        F.col("problem.check"),
        "events",
        id=F.col("entity_id"),
        column=F.col("problem.column"),
        event_id=F.col("event_id"),
        expected=F.col("problem.expected"),
        found=F.col("problem.found"),
    )


def _placed(events: DataFrame) -> DataFrame:
    """Each event with the place where its entity really was: ``real_…``; null where the log cannot tell."""
    topics = named(events, "topic.created").select(
        "db_id",
        F.col("entity_id").alias("topic_id"),
        parsed("data_json", "topic struct<channel_id string>")["topic"]["channel_id"].alias("of_channel_id"),
    )
    said = events.where(F.col("name").isin(*(name for name, spec in EVENTS.items() if spec.scopes))).select(
        "db_id",
        "event_id",
        "name",
        "entity_type",
        "entity_id",
        *(f"scope_{scope}" for scope in _SCOPES),
        parsed("data_json", _PAYLOAD).alias("to"),
    )
    about_messages = F.col("entity_type") == "message"
    before = Window.partitionBy("db_id", "entity_id").orderBy("event_id").rowsBetween(Window.unboundedPreceding, -1)
    goes_to = F.coalesce("to.message.topic_id", "to.new_topic_id")
    messages = said.where(about_messages).withColumn("was_in", F.last(goes_to, ignorenulls=True).over(before))
    others = said.where(~about_messages).withColumn("was_in", F.lit(None).cast("string"))
    own_topic = F.when(F.col("entity_type") == "topic", F.col("entity_id"))
    topic = F.coalesce(
        "to.message.topic_id", "to.old_topic_id", "was_in", "to.attachment.topic_id", "to.task.topic_id", own_topic
    )
    own_channel = F.when(F.col("entity_type") == "channel", F.col("entity_id"))
    placed = messages.unionByName(others).select(
        "db_id",
        "event_id",
        "name",
        "entity_id",
        *(f"scope_{scope}" for scope in _SCOPES),
        topic.alias("real_topic_id"),
        F.col("to.new_topic_id").alias("real_topic_id2"),
        F.coalesce("to.topic.channel_id", own_channel).alias("own_channel_id"),
        F.coalesce("to.message.channel_id", "to.task.channel_id", "to.channel_id").alias("said_channel_id"),
    )
    one = topics.toDF("db_id", "real_topic_id", "of_channel_id")
    two = topics.toDF("db_id", "real_topic_id2", "real_channel_id2")
    return (
        placed.join(one, ["db_id", "real_topic_id"], "left")
        .join(two, ["db_id", "real_topic_id2"], "left")
        .withColumn("real_channel_id", F.coalesce("own_channel_id", "of_channel_id"))
    )


def _scope_problem(scope: str) -> Column:
    """What is wrong with one scope of an event: it is missing, it must not be there, or it is another's."""
    carrying = [name for name, spec in EVENTS.items() if scope in spec.scopes]
    there, real = F.col(f"scope_{scope}"), F.col(f"real_{scope}")
    demanded = F.col("name").isin(*carrying)
    wrong = F.when(demanded, there.isNull() | F.coalesce(there != real, F.lit(False))).otherwise(there.isNotNull())
    expected = F.when(demanded, F.coalesce(real, F.lit("a scope"))).otherwise(F.lit("nothing"))
    return F.when(wrong, _problem("event.scope", f"scope_{scope}", expected, there))


def _channel_problem() -> Column:
    """What an event says of its channel, or a topic that a message moves to, is not the channel of its topic."""
    real, said, other = (F.col(name) for name in ("real_channel_id", "said_channel_id", "real_channel_id2"))
    found = F.when(said != real, said).when(other != real, other)
    return F.when(found.isNotNull(), _problem("event.channel", "channel_id", real, found))


def _problem(check: str, column: str, expected: Column, found: Column) -> Column:
    return F.struct(
        F.lit(check).alias("check"),
        F.lit(column).alias("column"),
        expected.alias("expected"),
        F.coalesce(found, F.lit("nothing")).alias("found"),
    )
