"""Bronze: the events as they are.

A file holds one stretch of one hub's log within one day. The days are folders, so a question about a day opens only
that day's files; the statistics of a file name its hub and its range of ids, so one about a hub's history opens only
that hub's.

``EVENTS`` has what a hub's log is now. When a hub was restored from a backup, the events that its log no longer has go
to ``LOST_EVENTS``, and it goes on under a new epoch.
"""

from typing import Final

import pyarrow as pa

from parley.pipeline.lake.tables import Table
from parley.pipeline.source.schema import EVENT_SCHEMA

CURSOR_PREFIX: Final = "parley.bronze."
"""The names of the cursors that tell how far bronze has each hub's log; the hub's id follows."""
NO_DAY: Final = "0000-00-00"
"""The day of an event whose time is no date."""

_ADDED: Final = (
    pa.field("source", pa.string()),
    pa.field("ingested_at", pa.timestamp("us", tz="UTC")),
    pa.field("day", pa.string()),
)

EVENTS: Final = Table(
    layer="bronze",
    name="events",
    schema=pa.schema([*EVENT_SCHEMA, *_ADDED]),
    meaning="every event of every hub, as it was logged, with where it came from and when it was taken",
    partition_by=("day",),
    cluster_by="db_id",
)

LOST_EVENTS: Final = Table(
    layer="bronze",
    name="lost_events",
    schema=pa.schema(
        [*EVENT_SCHEMA, *_ADDED, pa.field("epoch", pa.int64()), pa.field("lost_at", pa.timestamp("us", tz="UTC"))]
    ),
    meaning="every event that a hub's log lost when the hub was restored, and the epoch of the hub that it belonged to",
    cluster_by="db_id",
)

TABLES: Final = (EVENTS, LOST_EVENTS)
