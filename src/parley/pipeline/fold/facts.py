"""What must be known of whole hubs before single entities can be folded.

An archive takes every message that nothing touched since its boundary, so one event changes rows of all ages. And the
log of a hub that was archived before anybody read it begins in the middle: what its events refer to may have been
created before, so that a reference into the dark is no contradiction there.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from parley.pipeline.fold.payloads import named
from parley.pipeline.fold.shapes import seen

ARCHIVE_TYPE = "db_id string, archive_event_id bigint, up_to bigint"


class Archive(NamedTuple):
    """The event of an archive, and the last event that went into it."""

    db_id: str
    event_id: int
    up_to: int


@dataclass(frozen=True, slots=True)
class Facts:
    """The archives of all hubs, and the hubs whose log does not begin with their first event."""

    archives: tuple[Archive, ...] = ()
    truncated: frozenset[str] = frozenset()

    def begins_later(self, db_id: Column) -> Column:
        """Whether the beginning of the hub's log is missing."""
        return db_id.isin(*sorted(self.truncated)) if self.truncated else F.lit(False)

    def archived(self, like: DataFrame) -> DataFrame:
        """The archives as rows, in the session of another DataFrame. Never asked for when there are none."""
        spark: Any = like.sparkSession
        return F.broadcast(spark.createDataFrame(list(self.archives), ARCHIVE_TYPE))


def read_facts(events: DataFrame) -> Facts:
    """Looks through whole logs for them. Reads few columns, and payloads of archive events alone."""
    beginnings: Any = events.groupBy("db_id").agg(F.min("event_id").alias("first")).where("first > 1").collect()
    return Facts(read_archives(events), frozenset(row["db_id"] for row in beginnings))


def read_archives(events: DataFrame) -> tuple[Archive, ...]:
    """The archives that the events tell of; one that cannot be read takes nothing."""
    boundary = F.least("payload.up_to_event_id", "event_id")
    found: Any = (
        seen(named(events, "workspace.archived"))
        .where("reason IS NULL")
        .select("db_id", "event_id", boundary.alias("up_to"))
        .collect()
    )
    return tuple(sorted(Archive(*row) for row in found))


def taken_by(messages: DataFrame, facts: Facts) -> DataFrame:
    """For each message that an archive took, with its ``last_event_id``: ``db_id``, ``id``, ``archive_event_id``."""
    archives = facts.archived(messages)
    return (
        messages.join(archives, "db_id")
        .where("up_to >= last_event_id")
        .groupBy("db_id", "id")
        .agg(F.min("archive_event_id").alias("archive_event_id"))
    )
