"""Silver: what the events add up to, typed.

Current tables have the columns of the pure fold with the same texts, the event that made a row and the last that
changed it. Beside each text of a time stands the moment that it means, null where the text is no time:
``created_time`` beside ``created_at``. Tables of history say from which event to which a row was true.

Rows lie in buckets by the event that made them, so that new work lands in few of them and old rows that change touch
few. Hubs are spread over a few groups of buckets, so that many small hubs do not share one.
"""

from typing import Final

import pyarrow as pa

from parley.core.fold import TABLES as FOLDED
from parley.pipeline.lake.tables import Table

BUCKET_EVENTS: Final = 100_000
"""Events of a hub whose rows share a bucket: a file of a few megabytes, and little to write again for one new event."""
BUCKET_GROUPS: Final = 8
NUMBERS: Final = frozenset(
    {
        "version",
        "span_start",
        "span_end",
        "outdated",
        "generation",
        "event_id",
        "created_event_id",
        "last_event_id",
        "valid_from_event",
        "valid_to_event",
    }
)
NOT_FOLDED_UNDER_THIS_NAME: Final = {"attachments": "topic_attachments"}


def time_column(column: str) -> str | None:
    """The name of the moment that stands beside a text, or None if the text is no time."""
    if column == "ts":
        return "time"
    return f"{column.removesuffix('_at')}_time" if column.endswith("_at") else None


def _schema(columns: tuple[str, ...], bucket: bool) -> pa.Schema:
    times = [name for column in columns if (name := time_column(column)) is not None]
    return pa.schema(
        [
            pa.field("db_id", pa.string()),
            *(pa.field(column, pa.int64() if column in NUMBERS else pa.string()) for column in columns),
            *(pa.field(name, pa.timestamp("us", tz="UTC")) for name in times),
            *([pa.field("bucket", pa.string())] if bucket else []),
        ]
    )


def _current(name: str, meaning: str) -> Table:
    folded = FOLDED[NOT_FOLDED_UNDER_THIS_NAME.get(name, name)]
    return _kept(name, meaning, (*folded, "created_event_id", "last_event_id"))


def _kept(name: str, meaning: str, columns: tuple[str, ...]) -> Table:
    return Table("silver", name, _schema(columns, bucket=True), meaning, partition_by=("bucket",))


def _appended(name: str, meaning: str, columns: tuple[str, ...]) -> Table:
    return Table("silver", name, _schema(columns, bucket=False), meaning)


CHANNELS: Final = _current("channels", "each channel")
TOPICS: Final = _current("topics", "each topic with its newest title")
MESSAGES: Final = _current("messages", "each message as it is now; what archives took is not here")
ATTACHMENTS: Final = _current("attachments", "each attachment of a topic")
ENRICHMENTS: Final = _current("enrichments", "what each plugin found last in each message")
TASKS: Final = _current("tasks", "each task as its last event left it")
LEASES: Final = _current("leases", "each lease as its last event left it")
AGENTS: Final = _current("agents", "each registered agent as its last event left it")
MESSAGE_VERSIONS: Final = _kept(
    "message_versions",
    "every version that a message ever had, archived ones too",
    (
        "id",
        "version",
        "change",
        "content_raw",
        "topic_id",
        "actor",
        "reply_to",
        "ts",
        "valid_from_event",
        "valid_to_event",
    ),
)
TOPIC_TITLES: Final = _kept(
    "topic_titles", "every title that a topic ever had", ("id", "title", "ts", "valid_from_event", "valid_to_event")
)
MOVES: Final = _appended(
    "moves",
    "each move of a message from one topic to another",
    ("event_id", "ts", "message_id", "old_topic_id", "new_topic_id", "channel_id", "mode", "version"),
)
QUARANTINE: Final = _appended(
    "quarantine",
    "each event that cannot be folded, and why",
    ("event_id", "name", "reason", "data_json"),
)

TABLES: Final[tuple[Table, ...]] = (
    CHANNELS,
    TOPICS,
    MESSAGES,
    MESSAGE_VERSIONS,
    TOPIC_TITLES,
    MOVES,
    ATTACHMENTS,
    ENRICHMENTS,
    TASKS,
    LEASES,
    AGENTS,
    QUARANTINE,
)
