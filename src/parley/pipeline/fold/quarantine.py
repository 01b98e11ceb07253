"""Which events cannot be folded, and why.

The hub never writes such events; a damaged file, a foreign tool or a newer hub may. An event is judged in the state
that the accepted ones before it have made, so that each refusal is that of one event, and the rest folds as if it had
never been there: the pure fold of what is accepted never fails, and Spark's fold of it is the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from parley.core.events import EVENTS
from parley.pipeline.fold.facts import Facts
from parley.pipeline.fold.payloads import CHANGES, named
from parley.pipeline.fold.refusals import fault, refusals, state_before
from parley.pipeline.fold.shapes import seen

REASONS: Final = {
    "unknown_name": "the name is in no catalogue: a newer hub wrote it, or nobody",
    "malformed": "the payload is no JSON object, or lacks what an event of this name must tell",
    "wrong_entity": "the payload is about another entity than the event's columns say",
    "unknown_channel": "the channel does not exist at this event",
    "unknown_topic": "a topic that it names does not exist at this event",
    "unknown_message": "the message does not exist at this event, or is in an archive",
    "unknown_task": "the task does not exist at this event",
    "unknown_lease": "the lease does not exist at this event",
    "unknown_agent": "the agent does not exist at this event",
    "created_twice": "the thing is there already",
    "version_jump": "the version does not follow the message's last one",
    "generation_jump": "the generation of a task or of a lease does not follow those before it",
    "wrong_topic": "it moves a message out of a topic that the message is not in",
}
"""Why an event is set aside."""


_ONE: Final = ("db_id", "entity", "id")
"""What names one thing."""


@dataclass(frozen=True, slots=True)
class Known:
    """The rows that the events before have left behind, as the fold gives them."""

    channels: DataFrame
    topics: DataFrame
    messages: DataFrame
    attachments: DataFrame
    tasks: DataFrame
    leases: DataFrame
    agents: DataFrame


def quarantined(events: DataFrame, facts: Facts, known: Known | None = None) -> DataFrame:
    """``db_id``, ``event_id``, ``name``, ``reason`` and ``data_json`` of every event that cannot be folded."""
    steps = _steps(_looked_at(events, known), _places(events, facts, known), facts)
    if known is not None:
        steps = steps.unionByName(_standing(known))
    steps = steps.select(*_ONE, _step().alias("step"))
    archives: Column | None = None
    if facts.archives:
        steps = steps.join(_archives_of(facts, steps), "db_id", "left")
        archives = F.col("archives")
    known_archives = [] if archives is None else [F.first("archives").alias("archives")]
    ordered = F.sort_array(F.collect_list("step")).alias("steps")
    walked = _in_doubt(steps, archives).groupBy(*_ONE).agg(ordered, *known_archives)
    refused = F.explode(refusals(F.col("steps"), archives)).alias("refused")
    verdicts = walked.select("db_id", refused).select("db_id", "refused.event_id", "refused.reason")
    return events.join(F.broadcast(verdicts), ["db_id", "event_id"]).select(
        "db_id", "event_id", "name", "reason", "data_json"
    )


def _step() -> Column:
    return F.struct("event_id", "kind", "version", "source", F.col("within").alias("target"), "there", "reason")


def _in_doubt(steps: DataFrame, archives: Column | None) -> DataFrame:
    """The steps of things of which one step cannot follow those before it. Of nearly all things none is left.

    As long as every step is sound, the state before it is what the last of those before it says. So whoever finds no
    fault that way need not walk, which costs several times as much.
    """
    thing = Window.partitionBy(*_ONE)
    before = thing.orderBy("step.event_id").rowsBetween(Window.unboundedPreceding, -1)
    told = steps.withColumns(state_before(F.col("step"), before))
    faults = told.withColumn("fault", fault(F.col("step"), archives))
    return faults.withColumn("faults", F.count("fault").over(thing)).where("faults > 0")


def accepted(events: DataFrame, refused: DataFrame) -> DataFrame:
    """The events without those in quarantine."""
    return events.join(F.broadcast(refused.select("db_id", "event_id")), ["db_id", "event_id"], "left_anti")


def _looked_at(events: DataFrame, known: Known | None) -> DataFrame:
    """The events with what is wrong with each by itself, and with leases by those before them in their hub."""
    is_lease = F.col("name").startswith("lease.")
    leases = seen(events.where(is_lease))
    given = F.when((F.col("name") == "lease.acquired") & F.col("reason").isNull(), F.col("payload.lease.generation"))
    before = Window.partitionBy("db_id").orderBy("event_id").rowsBetween(Window.unboundedPreceding, -1)
    leases = leases.withColumn("given", given).withColumn("largest", F.max("given").over(before))
    if known is not None:
        ever = known.leases.groupBy("db_id").agg(F.max("generation").alias("ever"))
        leases = leases.join(F.broadcast(ever), "db_id", "left").withColumn("largest", F.greatest("largest", "ever"))
    jumps = F.when(F.col("given") <= F.coalesce("largest", F.lit(0)), F.lit("generation_jump"))
    leases = leases.withColumn("reason", F.coalesce("reason", jumps))
    others = seen(events.where(~is_lease))
    return others.unionByName(leases.select(*others.columns))


def _steps(looked_at: DataFrame, places: DataFrame, facts: Facts) -> DataFrame:
    """The events as steps in the lives of what they are about.

    Nothing is left out by what a payload holds: such a filter would be moved to where it parses every payload again.
    """
    steps = looked_at.select(
        "db_id",
        F.col("entity_type").alias("entity"),
        F.col("entity_id").alias("id"),
        "event_id",
        F.col("name").alias("kind"),
        _told(_VERSIONS).alias("version"),
        F.col("payload.old_topic_id").alias("source"),
        _told(_PLACES).alias("within"),
        "reason",
    )
    return _placed(steps, places, facts)


_PLACES: Final = {
    "topic.created": "topic.channel_id",
    "message.created": "message.topic_id",
    "topic.attachment_added": "attachment.topic_id",
    "message.moved_topic": "new_topic_id",
    "task.created": "task.topic_id",
}
"""Where an event says that its thing then is."""
_VERSIONS: Final = {
    "message.created": "message.version",
    **dict.fromkeys(CHANGES, "version"),
    **{name: f"{spec.entity}.generation" for name, spec in EVENTS.items() if spec.entity in ("task", "lease")},
}
"""Where an event says which version or generation its thing then has."""


def _told(members: Mapping[str, str]) -> Column:
    """The member that an event of its name tells it by. Others may be in a payload by chance, and mean nothing."""
    of_name = [F.when(F.col("name") == name, F.col(f"payload.{member}")) for name, member in members.items()]
    return F.coalesce(*of_name)


def _places(events: DataFrame, facts: Facts, known: Known | None) -> DataFrame:
    """The channels and topics that exist, and the event ``since`` which each does."""
    made = seen(named(events, "channel.created", "topic.created")).select(
        "db_id",
        "name",
        F.col("entity_id").alias("id"),
        "event_id",
        F.col("payload.topic.channel_id").alias("within"),
        F.col("reason").isNull().alias("well"),
    )
    channels = _since(named(made, "channel.created"), F.col("well"), known and known.channels)
    placed = _placed(named(made, "topic.created"), channels, facts)
    return channels.unionByName(_since(placed, F.col("well") & F.col("there"), known and known.topics))


def _since(created: DataFrame, holds: Column, known: DataFrame | None) -> DataFrame:
    """The first of the creations that hold, of each thing; null where none does."""
    creations = created.select("db_id", "id", F.when(holds, F.col("event_id")).alias("event_id"))
    if known is not None:
        before = known.select("db_id", "id", F.col("created_event_id").alias("event_id"))
        creations = creations.unionByName(before)
    return creations.groupBy("db_id", "id").agg(F.min("event_id").alias("since"))


def _placed(events: DataFrame, places: DataFrame, facts: Facts) -> DataFrame:
    """Whether what an event names as its place, ``within``, was ``there`` at the event."""
    found = events.join(F.broadcast(places.withColumnRenamed("id", "within")), ["db_id", "within"], "left")
    there = F.coalesce(F.col("since") < F.col("event_id"), F.lit(False)) | facts.begins_later(F.col("db_id"))
    return found.withColumn("there", there).drop("since")


def _standing(known: Known) -> DataFrame:
    """Known things as the first steps of their lives. Of most nothing but being there matters."""
    no_text, no_number = F.lit(None).cast("string"), F.lit(None).cast("bigint")
    parts = (
        ("channel", "channel.created", known.channels, no_number, no_text),
        ("topic", "topic.created", known.topics, no_number, no_text),
        ("message", "message.created", known.messages, F.col("version"), F.col("topic_id")),
        ("attachment", "topic.attachment_added", known.attachments, no_number, no_text),
        ("task", "task.created", known.tasks, F.col("generation"), no_text),
        ("lease", "lease.acquired", known.leases, F.col("generation"), no_text),
        ("agent", "agent.registered", known.agents.withColumnRenamed("name", "id"), no_number, no_text),
    )
    rows = [
        table.select(
            "db_id",
            F.lit(entity).alias("entity"),
            "id",
            F.col("last_event_id").alias("event_id"),
            F.lit(kind).alias("kind"),
            version.alias("version"),
            no_text.alias("source"),
            within.alias("within"),
            F.lit(True).alias("there"),
            no_text.alias("reason"),
        )
        for entity, kind, table, version, within in parts
    ]
    return reduce(DataFrame.unionByName, rows)


def _archives_of(facts: Facts, like: DataFrame) -> DataFrame:
    archive = F.struct("archive_event_id", "up_to")
    return F.broadcast(facts.archived(like).groupBy("db_id").agg(F.collect_list(archive).alias("archives")))
