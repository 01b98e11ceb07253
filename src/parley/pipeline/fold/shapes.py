"""What an event must look like for the fold to read it, whatever came before it."""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from parley.core.events import EVENTS
from parley.pipeline.fold.payloads import parsed


def _of_each(entity: str, *members: str) -> dict[str, tuple[str, ...]]:
    return {name: members for name, spec in EVENTS.items() if spec.entity == entity}


_PAYLOAD: Final = (
    "channel struct<id string>, "
    "topic struct<id string, channel_id string>, "
    "message struct<id string, topic_id string, version bigint>, "
    "attachment struct<id string, topic_id string, value_json string>, "
    "topic_id string, "
    "new_title string, "
    "message_id string, "
    "version bigint, "
    "new_content string, "
    "deleted_by string, "
    "old_topic_id string, "
    "new_topic_id string, "
    "plugin_name string, "
    "enrichment_ids array<string>, "
    "enrichments array<struct<kind string, span struct<start bigint, end bigint>, data string>>, "
    "up_to_event_id bigint, "
    "task struct<id string, topic_id string, generation bigint>, "
    "lease struct<id string, generation bigint, patterns array<string>>, "
    "agent struct<name string>"
)
_NEEDS: Final = {
    "channel.created": ("channel.id",),
    "topic.created": ("topic.id", "topic.channel_id"),
    "topic.renamed": ("topic_id", "new_title"),
    "message.created": ("message.id", "message.topic_id", "message.version"),
    "message.edited": ("message_id", "version", "new_content"),
    "message.deleted": ("message_id", "version", "deleted_by"),
    "message.moved_topic": ("message_id", "version", "old_topic_id", "new_topic_id"),
    "message.enriched": ("message_id", "plugin_name", "enrichment_ids", "enrichments"),
    "topic.attachment_added": ("attachment.id", "attachment.topic_id", "attachment.value_json"),
    "workspace.archived": ("up_to_event_id",),
    **_of_each("task", "task.id", "task.topic_id", "task.generation"),
    **_of_each("lease", "lease.id", "lease.generation", "lease.patterns"),
    **_of_each("agent", "agent.name"),
}
"""What must be there for the fold to go on; the first member names the entity, but for an archive's."""


def seen(events: DataFrame) -> DataFrame:
    """The events with their ``payload`` parsed as far as judging goes, and the ``reason`` why one cannot be read."""
    payload = parsed("data_json", _PAYLOAD)
    parts = events.select(
        "db_id", "event_id", "name", "entity_type", "entity_id", payload.alias("payload"), _is_whole().alias("whole")
    )
    return parts.withColumn("reason", _problem()).drop("whole")


def _is_whole() -> Column:
    """Whether the text is one object: the parser stops after the first value, and passes over what follows."""
    return F.rtrim("data_json").endswith("}")


def _problem() -> Column:
    """What is wrong with an event whatever came before it."""
    name = F.col("name")
    known = sorted(EVENTS)
    problem = F.when(~name.isin(*known), F.lit("unknown_name")).when(~F.col("whole"), F.lit("malformed"))
    problem = problem.when(F.col("payload").isNull(), F.lit("malformed"))
    # Most events are about messages, and each is compared with the names before its own.
    for kind in sorted(EVENTS, key=lambda kind: EVENTS[kind].entity != "message"):
        problem = problem.when(name == kind, _problem_of(kind))
    return problem


def _problem_of(kind: str) -> Column:
    """What is wrong with an event of this name."""
    of_another = F.when(~_is("entity_type", F.lit(EVENTS[kind].entity)), "wrong_entity")
    if kind not in _NEEDS:
        return of_another
    needs = _NEEDS[kind]
    missing = reduce(Column.__or__, (F.col(f"payload.{member}").isNull() for member in needs))
    problem = F.when(missing | ~_fits(kind), F.lit("malformed"))
    if kind != "workspace.archived":
        problem = problem.when(~_is(f"payload.{needs[0]}", F.col("entity_id")), "wrong_entity")
    return problem.otherwise(of_another)


def _is(column: str, value: Column) -> Column:
    return F.col(column).eqNullSafe(value)


def _fits(name: str) -> Column:
    """What must hold of the members that are there."""
    if name == "topic.attachment_added":
        return F.col("payload.attachment.value_json").startswith("{")
    if name == "message.enriched":
        whole = F.forall("payload.enrichments", _is_finding)
        return whole & (F.size("payload.enrichments") == F.size("payload.enrichment_ids"))
    return F.lit(True)


def _is_finding(finding: Column) -> Column:
    span = finding["span"]
    there = reduce(Column.__and__, (each.isNotNull() for each in (finding["kind"], span["start"], span["end"])))
    return there & F.coalesce(finding["data"].startswith("{"), F.lit(False))
