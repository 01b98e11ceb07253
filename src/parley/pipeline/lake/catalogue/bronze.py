"""Bronze: the events as they are.

A file holds one stretch of one hub's log within one day. The days are folders, so a question about a day opens only
that day's files; the statistics of a file name its hub and its range of ids, so one about a hub's history opens only
that hub's.
"""

from typing import Final

import pyarrow as pa

from parley.pipeline.lake.tables import Table
from parley.pipeline.source.schema import EVENT_SCHEMA

NO_DAY: Final = "0000-00-00"
"""The day of an event whose time is no date."""

EVENTS: Final = Table(
    layer="bronze",
    name="events",
    schema=pa.schema(
        [
            *EVENT_SCHEMA,
            pa.field("source", pa.string()),
            pa.field("ingested_at", pa.timestamp("us", tz="UTC")),
            pa.field("day", pa.string()),
        ]
    ),
    meaning="every event of every hub, as it was logged, with where it came from and when it was taken",
    partition_by=("day",),
    cluster_by="db_id",
)

TABLES: Final = (EVENTS,)
