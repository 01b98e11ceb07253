"""What brokers hold: messages as they were accepted, deliveries as they were seen, and what both add up to.

Messages lie in days and deliveries in buckets by their ids, each bucket of one broker. A message is never changed, so
its tables only grow. A delivery is; what was seen of it is kept in bronze, and silver has what was seen last.
"""

from typing import Final

import pyarrow as pa

from parley.pipeline.brokers.schema import MESSAGE_SCHEMA, STORED_DELIVERIES, STORED_MEMBERS
from parley.pipeline.lake.tables import PLAIN, Table

BUCKET_DELIVERIES: Final = 50_000
"""Deliveries that share a bucket: compared and written again in a fraction of a second."""
_MOMENT: Final = pa.timestamp("us", tz="UTC")
_PLAIN: Final = PLAIN | {"broker_message_id", "client_message_id", "meta", "request_fingerprint"}

BROKER_MESSAGES: Final = Table(
    layer="bronze",
    name="broker_messages",
    schema=pa.schema(
        [
            *MESSAGE_SCHEMA,
            pa.field("source", pa.string()),
            pa.field("ingested_at", _MOMENT),
            pa.field("day", pa.string()),
        ]
    ),
    meaning="every message that a broker accepted, without what it says, with where it came from",
    partition_by=("day",),
    cluster_by="broker_id",
    plain=_PLAIN,
)
BROKER_DELIVERIES: Final = Table(
    layer="bronze",
    name="broker_deliveries",
    schema=pa.schema(
        [
            pa.field("broker_id", pa.string()),
            pa.field("epoch", pa.int64()),
            *STORED_DELIVERIES,
            pa.field("gone", pa.bool_()),
            pa.field("observation", pa.int64()),
            pa.field("observed_at", _MOMENT),
            pa.field("bucket", pa.string()),
        ]
    ),
    meaning="each delivery each time that it was found changed; gone when the broker had removed it",
    partition_by=("bucket",),
    plain=_PLAIN,
)
BROKER_MEMBERS: Final = Table(
    layer="bronze",
    name="broker_members",
    schema=pa.schema([pa.field("broker_id", pa.string()), *STORED_MEMBERS, pa.field("seen_at", _MOMENT)]),
    meaning="each member of each mesh, those who left too, as the broker had them when it was last looked at",
    partition_by=("broker_id",),
)
MESH_MESSAGES: Final = Table(
    layer="silver",
    name="mesh_messages",
    schema=pa.schema(
        [
            *(field for field in MESSAGE_SCHEMA if field.name not in ("accepted_ms", "request_fingerprint")),
            pa.field("accepted_at", _MOMENT),
            pa.field("day", pa.string()),
        ]
    ),
    meaning="each message of each mesh, once accepted never changed",
    partition_by=("day",),
    plain=_PLAIN,
)
MESH_DELIVERIES: Final = Table(
    layer="silver",
    name="mesh_deliveries",
    schema=pa.schema(
        [
            pa.field("broker_id", pa.string()),
            pa.field("epoch", pa.int64()),
            pa.field("delivery_id", pa.int64()),
            pa.field("mesh_id", pa.string()),
            pa.field("broker_message_id", pa.string()),
            pa.field("recipient_id", pa.string()),
            pa.field("priority", pa.string()),
            pa.field("mentioned", pa.bool_()),
            pa.field("state", pa.string()),
            pa.field("status", pa.string()),
            pa.field("reason", pa.string()),
            pa.field("attempts", pa.int64()),
            pa.field("queued_at", _MOMENT),
            pa.field("lease_until", _MOMENT),
            pa.field("settled_at", _MOMENT),
            pa.field("latency_ms", pa.int64()),
            pa.field("gone", pa.bool_()),
            pa.field("first_seen_at", _MOMENT),
            pa.field("changed_seen_at", _MOMENT),
            pa.field("bucket", pa.string()),
        ]
    ),
    meaning="each delivery as it was when it was last seen; gone if the broker has removed it since",
    partition_by=("bucket",),
    plain=_PLAIN,
)

DELIVERY_TIMES: Final = Table(
    layer="gold",
    name="delivery_times",
    schema=pa.schema(
        [
            pa.field("broker_id", pa.string()),
            pa.field("mesh_id", pa.string()),
            pa.field("mesh", pa.string()),
            pa.field("priority", pa.string()),
            *(
                pa.field(name, pa.int64())
                for name in ("deliveries", "delivered", "undecryptable", "dead", "open", "repeated")
            ),
            pa.field("oldest_open_at", _MOMENT),
            pa.field("measured", pa.int64()),
            *(pa.field(name, pa.float64()) for name in ("p50_ms", "p90_ms", "p99_ms")),
            pa.field("max_ms", pa.int64()),
        ]
    ),
    meaning="each mesh and priority: what became of its deliveries, how long they took, and what is open",
)

TABLES: Final[tuple[Table, ...]] = (
    BROKER_MESSAGES,
    BROKER_DELIVERIES,
    BROKER_MEMBERS,
    MESH_MESSAGES,
    MESH_DELIVERIES,
    DELIVERY_TIMES,
)
