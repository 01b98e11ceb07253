"""Idempotency keys: whether each still belongs to the write that it was kept beside.

A key answers a retry with what its first request did. One that points to nothing, or to something else, would lose a
write in silence, so each is held against the log; for posted messages also the fingerprint, which is made anew from the
event by the function that made it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window, functions
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from parley.core.errors import InvalidInput
from parley.core.fingerprint import message_fingerprint
from parley.pipeline.audit.copies import HubCopy
from parley.pipeline.audit.findings import frame_of
from parley.pipeline.audit.stored import stored_table
from parley.pipeline.fold.payloads import parsed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE: Final = "idempotency_keys"
WRITTEN: Final[dict[str, tuple[str, ...]]] = {
    "channel.create": ("channel.created",),
    "topic.create": ("topic.created",),
    "topic.rename": ("topic.renamed",),
    "message.create": ("message.created",),
    "message.edit": ("message.edited",),
    "message.delete": ("message.deleted",),
    "message.move": ("message.moved_topic",),
    "attachment.add": ("topic.attachment_added",),
    "findings.store": ("message.enriched", "topic.attachment_added"),
    "agent.register": ("agent.registered", "agent.changed"),
    "agent.leave": ("agent.left",),
    "task.create": ("task.created",),
    "task.claim": ("task.claimed",),
    "task.claim_next": ("task.claimed",),
    "task.release": ("task.released",),
    "task.complete": ("task.completed",),
    "task.cancel": ("task.cancelled",),
    "task.take_over": ("task.taken_over",),
    "lease.acquire": ("lease.acquired",),
    "lease.release": ("lease.released",),
}
"""The events that an operation writes and its key remembers. An operation that is not here is not judged by it."""
_OF_OTHERS: Final = ("message.move", "findings.store")
"""Operations whose remembered event may be about something else: the first message that moved along, an attachment."""


def key_findings(spark: "SparkSession", events: DataFrame, copies: Sequence[HubCopy]) -> DataFrame:
    """A search for keys that belong to nothing, to something else, to two requests, or to another message."""
    of_event = Window.partitionBy("db_id", "event_id")
    keys = (
        stored_table(spark, copies, TABLE)
        .where("event_id IS NOT NULL")
        .withColumnRenamed("entity_id", "key_entity_id")
        .withColumns({"of_event": F.count("*").over(of_event), "first_key": F.min("key").over(of_event)})
    )
    facts = ("db_id", "event_id", "name", "entity_id", "data_json")
    known = _with_tasks(keys.join(events.select(*facts), ["db_id", "event_id"], "left"), events)
    event = F.concat(F.lit("event "), F.col("event_id"))
    meant = F.concat_ws(" ", F.col("operation"), F.lit("of"), F.col("key_entity_id"))
    written = F.concat_ws(" ", F.col("name"), F.lit("of"), F.col("entity_id"))
    shared = (F.col("of_event") > 1) & (F.col("key") != F.col("first_key"))
    problems = (
        _when(F.col("name").isNull() & _is_readable(copies), "key.event", event, F.lit("nothing")),
        _when(_is_other(), "key.entity", meant, written),
        _when(shared, "key.twice", event, F.concat(F.lit("also of "), F.col("first_key"))),
        _when(_is_unlike(), "key.fingerprint", F.lit("that of the message"), F.lower(F.hex("fingerprint"))),
    )
    wrong = known.withColumn("problem", F.explode(F.array_compact(F.array(*problems))))
    return frame_of(
        wrong,
        F.col("problem.check"),
        TABLE,
        id=F.col("key"),
        event_id=F.col("event_id"),
        expected=F.col("problem.expected"),
        found=F.col("problem.found"),
    )


def _when(wrong: Column, check: str, expected: Column, found: Column) -> Column:
    problem = F.struct(F.lit(check).alias("check"), expected.alias("expected"), found.alias("found"))
    return F.when(wrong, problem)


def _is_readable(copies: Sequence[HubCopy]) -> Column:
    """Whether the event would be in what can be read: not if it is in an archive that is missing."""
    readable = F.lit(True)
    for copy in copies:
        if copy.begins_after > 0:
            readable &= (F.col("db_id") != copy.db_id) | (F.col("event_id") > copy.begins_after)
    return readable


def _is_other() -> Column:
    operation, name = F.col("operation"), F.col("name")
    names = F.lit(False)
    for each, written in WRITTEN.items():
        names |= (operation == each) & ~name.isin(*written)
    entity = (F.col("entity_id") != F.col("key_entity_id")) & ~operation.isin(*_OF_OTHERS)
    return name.isNotNull() & (names | (operation.isin(*WRITTEN) & entity))


def _with_tasks(known: DataFrame, events: DataFrame) -> DataFrame:
    """The keys of posted messages with the message, and the task of its topic: a request may name a topic by that."""
    members = "message struct<topic_id string, sender string, content_raw string, reply_to string>"
    posted = F.col("name") == "message.created"
    message = F.when(posted & (F.col("operation") == "message.create"), parsed("data_json", members)["message"])
    tasks = events.where("name = 'task.created'").select(
        "db_id",
        F.col("entity_id").alias("task_id"),
        parsed("data_json", "task struct<topic_id string>")["task"]["topic_id"].alias("topic_id"),
    )
    posts = known.withColumn("message", message).withColumn("topic_id", F.col("message.topic_id"))
    return posts.join(tasks, ["db_id", "topic_id"], "left")


def _is_unlike() -> Column:
    """Whether the fingerprint is not that of the message."""
    spark: Any = functions
    is_of = spark.arrow_udf(_are_of, BooleanType())
    parts = ("topic_id", "task_id", "message.sender", "message.content_raw", "message.reply_to")
    return F.col("topic_id").isNotNull() & ~is_of(F.col("fingerprint"), *(F.col(part) for part in parts))


def _are_of(prints: pa.Array, *parts: pa.Array) -> pa.Array:
    columns = (prints.to_pylist(), *(part.to_pylist() for part in parts))
    return pa.array([_is_of(*row) for row in zip(*columns, strict=True)], pa.bool_())


def _is_of(
    found: bytes,
    topic_id: str | None,
    task_id: str | None,
    sender: str | None,
    content: str | None,
    reply_to: str | None,
) -> bool:
    if topic_id is None or sender is None or content is None:
        return False
    try:
        return any(
            message_fingerprint(ref, sender, content, reply_to) == found
            for ref in (topic_id, task_id)
            if ref is not None
        )
    except InvalidInput:
        return False
