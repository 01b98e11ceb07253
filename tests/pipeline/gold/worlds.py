"""Small histories written by hand, as the DataFrames that gold is counted from.

A message is written as ``post("m1", "ada", 3)``: its id, its sender, and the minute at which it was said. Its place in
the log is its place in the list.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
"""A Monday."""
MINUTE_MS = 60_000
HUB = "hub-a"

POSTS = (
    "db_id string, message_id string, event_id bigint, channel_id string, topic_id string, sender string,"
    " at timestamp, reply_to string, is_deleted boolean, asks boolean, characters bigint, edits bigint, moves bigint"
)
VERSIONS = (
    "db_id string, id string, version bigint, valid_from_event bigint, valid_to_event bigint, ts string,"
    " change string, actor string, topic_id string, content_raw string, reply_to string"
)
CHANGES = "db_id string, at timestamp, kind string, agent string, channel_id string, topic_id string, characters bigint"
EVENTS = (
    "db_id string, event_id bigint, ts string, name string, scope_channel_id string, scope_topic_id string,"
    " scope_topic_id2 string, entity_type string, entity_id string, data_json string, source string"
)
TOPICS = "db_id string, id string, channel_id string, title string, created_at string, updated_at string"
CHANNELS = "db_id string, id string, name string, description string, created_at string"
TASKS = (
    "db_id string, id string, topic_id string, channel_id string, title string, status string, created_by string,"
    " holder string"
)
LEASES = "db_id string, id string, holder string, mode string, status string"
QUARANTINE = "db_id string, event_id bigint, name string, reason string, data_json string"


class Post(NamedTuple):
    """One message, as it stands now."""

    message_id: str
    sender: str
    minute: float | None
    reply_to: str | None = None
    topic: str = "t1"
    channel: str = "c1"
    deleted: bool = False
    asks: bool = False
    edits: int = 0
    moves: int = 0
    hub: str = HUB


post = Post


def at(minute: float) -> datetime:
    return START + timedelta(minutes=minute)


def hour(day: int, hours: int) -> str:
    """An hour of that March, as ``rows`` tells it."""
    return f"2026-03-{day:02d} {hours:02d}:00:00"


def ts(minute: float) -> str:
    """The time as the log writes it."""
    return at(minute).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def frame(spark: SparkSession, schema: str, rows: Sequence[Any] = ()) -> DataFrame:
    return spark.createDataFrame([tuple(row) for row in rows], schema)


def posts_frame(spark: SparkSession, posts: Sequence[Post] = ()) -> DataFrame:
    return frame(
        spark,
        POSTS,
        [
            (
                each.hub,
                each.message_id,
                event_id,
                each.channel,
                each.topic,
                each.sender,
                None if each.minute is None else at(each.minute),
                each.reply_to,
                each.deleted,
                each.asks,
                10,
                each.edits,
                each.moves,
            )
            for event_id, each in enumerate(posts, start=1)
        ],
    )


def event(
    event_id: int, minute: float | str, name: str = "message.created", entity: str = "", hub: str = HUB
) -> tuple[Any, ...]:
    """A logged event; a minute that is text is taken as its time."""
    when = minute if isinstance(minute, str) else ts(minute)
    return (
        hub,
        event_id,
        when,
        name,
        None,
        None,
        None,
        name.split(".", maxsplit=1)[0],
        entity,
        "{}",
        f"/projects/{hub}",
    )


def rows(counted: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """The named columns of every row, sorted. Times are told as text, in the session's time zone."""
    kinds = dict(counted.dtypes)
    told = [F.col(name).cast("string") if kinds[name] == "timestamp" else F.col(name) for name in columns]
    found = [tuple(row) for row in counted.select(*told).collect()]
    return sorted(found, key=lambda row: tuple((value is not None, value) for value in row))
