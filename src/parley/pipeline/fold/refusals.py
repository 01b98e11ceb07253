"""Walking through the events of one thing in order, inside Spark's own engine.

The walk is a fold over an array: its state is the thing as far as judging goes, a step is one event. Most things are
created and never touched again; they are passed without a walk.
"""

from typing import Final

from pyspark.sql import Column, WindowSpec
from pyspark.sql import functions as F

_ONCE: Final = (
    "channel.created",
    "topic.created",
    "message.created",
    "topic.attachment_added",
    "task.created",
    "agent.registered",
)
_CREATING: Final = (*_ONCE, "lease.acquired")
_CHANGING: Final = ("message.edited", "message.deleted", "message.moved_topic")
_TAKING: Final = ("task.claimed", "task.taken_over")
_OF_TASKS: Final = (*_TAKING, "task.released", "task.completed", "task.cancelled", "task.expired")
_OF_LEASES: Final = ("lease.released", "lease.expired")
_PLACING: Final = (
    "topic.created",
    "message.created",
    "topic.attachment_added",
    "message.moved_topic",
    "task.created",
)
"""What names a channel or a topic in which the thing then is."""
_NEEDING: Final = (
    *_CHANGING,
    "message.enriched",
    "topic.renamed",
    *_OF_TASKS,
    *_OF_LEASES,
    "agent.changed",
    "agent.left",
    "agent.swept",
)
"""What can only happen to a thing that is there. All other events depend on nothing."""

_STATE: Final = "version bigint, topic string, touched bigint, refused array<struct<event_id bigint, reason string>>"


def refusals(steps: Column, archives: Column | None) -> Column:
    """The events among the steps of one thing that cannot be folded, with the reasons; null if there can be none."""
    only = steps[0]
    is_placed = only["there"] | ~only["kind"].isin(*_PLACING)
    plain = (F.size(steps) == 1) & only["reason"].isNull() & ~only["kind"].isin(*_NEEDING) & is_placed
    start = F.from_json(F.lit('{"refused": []}'), _STATE)
    walked = F.aggregate(steps, start, lambda state, step: _next(state, step, archives), lambda state: state["refused"])
    return F.when(~plain, walked)


def state_before(step: Column, before: WindowSpec) -> dict[str, Column]:
    """What a thing is, by the last of the steps ``before`` that changed it, if all of these could be taken."""
    changes = step["kind"].isin(*_CREATING, *_CHANGING, *_OF_TASKS)

    def so_far(member: str) -> Column:
        return F.last(F.when(changes, step[member]), ignorenulls=True).over(before)

    return {"_version": so_far("version"), "_topic": so_far("target"), "_touched": so_far("event_id")}


def fault(step: Column, archives: Column | None) -> Column:
    """Why a step cannot be taken in the state that ``state_before`` gives; null if it can."""
    state = F.struct(
        F.col("_version").alias("version"), F.col("_topic").alias("topic"), F.col("_touched").alias("touched")
    )
    return F.coalesce(step["reason"], _problem(state, step, _is_alive(state, step, archives)))


def _is_alive(state: Column, step: Column, archives: Column | None) -> Column:
    alive = state["touched"].isNotNull()
    if archives is None:
        return alive
    taken = F.exists(archives, lambda archive: _took(archive, state, step))
    return alive & ~(step["kind"].startswith("message.") & F.coalesce(taken, F.lit(False)))


def _next(state: Column, step: Column, archives: Column | None) -> Column:
    reason = F.coalesce(step["reason"], _problem(state, step, _is_alive(state, step, archives)))
    changes = reason.isNull() & step["kind"].isin(*_CREATING, *_CHANGING, *_OF_TASKS)
    refusal = F.struct(step["event_id"].alias("event_id"), reason.alias("reason"))
    refused = F.when(reason.isNull(), state["refused"]).otherwise(F.concat(state["refused"], F.array(refusal)))
    return F.struct(
        F.when(changes, step["version"]).otherwise(state["version"]).alias("version"),
        F.when(changes, F.coalesce(step["target"], state["topic"])).otherwise(state["topic"]).alias("topic"),
        F.when(changes, step["event_id"]).otherwise(state["touched"]).alias("touched"),
        refused.alias("refused"),
    )


def _took(archive: Column, state: Column, step: Column) -> Column:
    """Whether the message was in the archive already when the event happened."""
    return (archive["archive_event_id"] < step["event_id"]) & (archive["up_to"] >= state["touched"])


def _problem(state: Column, step: Column, alive: Column) -> Column:
    kind = step["kind"]
    missing = F.concat(F.lit("unknown_"), F.split_part(kind, F.lit("."), F.lit(1)))
    generation = state["version"] + kind.isin(*_TAKING).cast("bigint")
    nowhere = F.when(kind == "topic.created", "unknown_channel").otherwise("unknown_topic")
    return (
        F.when(kind.isin(*_ONCE) & alive, "created_twice")
        .when(kind.isin(*_NEEDING) & ~alive, missing)
        .when(kind.isin(*_CHANGING) & (step["version"] != state["version"] + 1), "version_jump")
        .when(kind.isin(*_OF_TASKS, *_OF_LEASES) & (step["version"] != generation), "generation_jump")
        .when((kind == "message.moved_topic") & (step["source"] != state["topic"]), "wrong_topic")
        .when(kind.isin(*_PLACING) & ~step["there"], nowhere)
    )
