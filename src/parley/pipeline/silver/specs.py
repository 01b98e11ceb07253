"""How each silver table follows from events: what of it new events touch, and the fold that gives its rows anew."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from parley.core.events import EVENTS
from parley.pipeline import fold
from parley.pipeline.fold.payloads import CHANGES, MESSAGE_EVENTS, WHOLE_ROWS, key_of, named
from parley.pipeline.lake.catalogue import silver
from parley.pipeline.lake.tables import Table

Fold = Callable[[DataFrame, fold.Facts, DataFrame | None], DataFrame]


@dataclass(frozen=True, slots=True)
class Spec:
    """One table. ``rows`` folds events, onto the rows that earlier ones have left behind."""

    table: Table
    names: tuple[str, ...]
    """The events that it follows from."""
    rows: Fold
    key: str = "id"
    """The column whose values new events touch; rows that share one are folded together."""
    origin: str = "created_event_id"
    """The column with the event that made a row: it decides on the bucket."""
    touched: Callable[[DataFrame], DataFrame] | None = None
    """``db_id`` and the touched values, as ``key``; None if rows never change once they are there."""
    standing: str = "TRUE"
    """Which of the touched rows the fold goes on from; the others stay as they are."""
    forgets: bool = False
    """Whether an archive changes rows that no event of their own touched."""


def _entities(*names: str) -> Callable[[DataFrame], DataFrame]:
    return lambda events: named(events, *names).select("db_id", F.col("entity_id").alias("key"))


def _topics_touched(events: DataFrame) -> DataFrame:
    return _entities("topic.created", "topic.renamed")(events).unionByName(
        fold.topic_touches(events).select("db_id", F.col("id").alias("key"))
    )


def _whole_row_spec(table: Table, name: str) -> Spec:
    names = tuple(each for each, spec in EVENTS.items() if spec.entity == WHOLE_ROWS[name])
    return Spec(
        table,
        names,
        lambda events, _, before: fold.whole_rows(events, name, before),
        key=key_of(name),
        touched=_entities(*names),
    )


SPECS: Final[tuple[Spec, ...]] = (
    Spec(silver.CHANNELS, ("channel.created",), lambda events, _, __: fold.channels(events)),
    Spec(
        silver.TOPICS,
        ("topic.created", "topic.renamed", "message.created", "message.moved_topic"),
        lambda events, _, before: fold.topics(events, before),
        touched=_topics_touched,
    ),
    Spec(silver.MESSAGES, MESSAGE_EVENTS, fold.messages, touched=_entities(*MESSAGE_EVENTS), forgets=True),
    Spec(
        silver.MESSAGE_VERSIONS,
        MESSAGE_EVENTS,
        lambda events, _, before: fold.message_versions(events, before),
        origin="valid_from_event",
        touched=_entities(*CHANGES),
        standing="valid_to_event IS NULL",
    ),
    Spec(
        silver.TOPIC_TITLES,
        ("topic.created", "topic.renamed"),
        lambda events, _, before: fold.topic_titles(events, before),
        origin="valid_from_event",
        touched=_entities("topic.renamed"),
        standing="valid_to_event IS NULL",
    ),
    Spec(silver.MOVES, ("message.moved_topic",), lambda events, _, __: fold.moves(events), origin="event_id"),
    Spec(
        silver.ATTACHMENTS,
        ("topic.attachment_added",),
        lambda events, facts, _: fold.attachments(events, facts),
        forgets=True,
    ),
    Spec(
        silver.ENRICHMENTS,
        ("message.enriched", "message.edited", "message.deleted"),
        fold.enrichments,
        key="message_id",
        touched=_entities("message.enriched", "message.edited", "message.deleted"),
        forgets=True,
    ),
    _whole_row_spec(silver.TASKS, "tasks"),
    _whole_row_spec(silver.LEASES, "leases"),
    _whole_row_spec(silver.AGENTS, "agents"),
)
