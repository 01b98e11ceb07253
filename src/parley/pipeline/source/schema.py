"""The columns of an event, as the hub's log holds it, in Arrow and in Spark's own words."""

from typing import Final

import pyarrow as pa

EVENT_SCHEMA: Final = pa.schema(
    [
        pa.field("db_id", pa.string()),
        pa.field("event_id", pa.int64()),
        pa.field("ts", pa.string()),
        pa.field("name", pa.string()),
        pa.field("scope_channel_id", pa.string()),
        pa.field("scope_topic_id", pa.string()),
        pa.field("scope_topic_id2", pa.string()),
        pa.field("entity_type", pa.string()),
        pa.field("entity_id", pa.string()),
        pa.field("data_json", pa.string()),
    ]
)
"""``ts`` stays the text that was logged: a time that cannot be read is still an event, and order never needs it."""
LOG_COLUMNS: Final = tuple(name for name in EVENT_SCHEMA.names if name != "db_id")
"""What stands in a hub's own table; which hub it is stands in another."""
EVENT_DDL: Final = ", ".join(f"{name} {'bigint' if name == 'event_id' else 'string'}" for name in EVENT_SCHEMA.names)
