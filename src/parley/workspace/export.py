"""Everything in a workspace as lines of JSON, for other tools.

The first line says what follows. Each further line is one thing with its ``type``; its other members are those that the
API shows, and an event looks as it does on the feed. The export is one moment: all of it is read in one transaction,
one row at a time.
"""

from collections.abc import Collection, Iterator
from typing import Any, BinaryIO, Final

import apsw
import msgspec

from parley.core.clock import iso
from parley.workspace.queries import oldest_cursor, read_meta
from parley.workspace.queries.agents import AGENT_COLUMNS
from parley.workspace.queries.entities import (
    ATTACHMENT_COLUMNS,
    CHANNEL_COLUMNS,
    MESSAGE_COLUMNS,
    TOPIC_COLUMNS,
)
from parley.workspace.queries.events import columns_there
from parley.workspace.queries.leases import LEASE_COLUMNS
from parley.workspace.queries.tasks import TASK_COLUMNS

EXPORT_VERSION: Final = 1
_ENRICHMENT_COLUMNS: Final = "id, message_id, plugin_name, kind, span_start, span_end, data_json, created_at, outdated"
_EVENT_COLUMNS: Final = (
    "event_id, ts, name, scope_channel_id, scope_topic_id, scope_topic_id2, entity_type, entity_id, data_json"
)
_TABLES: Final = {
    "channel": (CHANNEL_COLUMNS, "channels ORDER BY id"),
    "topic": (TOPIC_COLUMNS, "topics ORDER BY id"),
    "message": (MESSAGE_COLUMNS, "messages ORDER BY seq"),
    "attachment": (ATTACHMENT_COLUMNS, "topic_attachments ORDER BY id"),
    "enrichment": (_ENRICHMENT_COLUMNS, "enrichments ORDER BY id"),
    "agent": (AGENT_COLUMNS, "agents ORDER BY name"),
    "task": (TASK_COLUMNS, "tasks ORDER BY id"),
    "lease": (LEASE_COLUMNS, "leases ORDER BY generation"),
    "event": (_EVENT_COLUMNS, "events WHERE event_id > :since ORDER BY event_id"),
}
KINDS: Final = tuple(_TABLES)
"""What can be exported, in the order in which a reader can build on it."""


class _Header(msgspec.Struct, tag_field="type", tag="export"):
    version: int
    db_id: str
    exported_at: str
    kinds: list[str]
    since: int
    oldest_cursor: int


def export_jsonl(
    connection: apsw.Connection,
    out: BinaryIO,
    *,
    now_ms: int,
    kinds: Collection[str] = KINDS,
    since: int = 0,
) -> dict[str, int]:
    """Writes the chosen kinds and returns how many lines of each. ``since`` leaves out events up to that id."""
    counts = dict.fromkeys((kind for kind in KINDS if kind in kinds), 0)
    encode = msgspec.json.Encoder().encode
    with connection:
        floor = oldest_cursor(connection)
        header = _Header(
            EXPORT_VERSION,
            read_meta(connection, "db_id") or "",
            iso(now_ms),
            list(counts),
            since,
            0 if floor is None else floor.event_id,
        )
        out.write(encode(header) + b"\n")
        for kind in counts:
            for line in _lines(connection, kind, since):
                out.write(encode(line) + b"\n")
                counts[kind] += 1
    return counts


def _lines(connection: apsw.Connection, kind: str, since: int) -> Iterator[dict[str, Any]]:
    columns, rest = _TABLES[kind]
    names = columns_there(connection, rest.split()[0], columns.split(", "))
    parameters = {"since": since} if kind == "event" else ()
    rows: Any = connection.execute(f"SELECT {', '.join(names)} FROM {rest}", parameters)
    for row in rows:
        yield _event(*row) if kind == "event" else _entity(kind, dict(zip(names, row, strict=True)))


def _entity(kind: str, members: dict[str, Any]) -> dict[str, Any]:
    for column in ("value_json", "data_json", "patterns"):
        if column in members:
            members[column] = msgspec.Raw(members[column].encode())
    return {"type": kind, **members}


def _event(
    event_id: int,
    ts: str,
    name: str,
    channel_id: str | None,
    topic_id: str | None,
    topic_id2: str | None,
    entity_type: str,
    entity_id: str,
    data_json: str,
) -> dict[str, Any]:
    return {
        "type": "event",
        "event_id": event_id,
        "ts": ts,
        "name": name,
        "scope": {"channel_id": channel_id, "topic_id": topic_id, "topic_id2": topic_id2},
        "entity": {"type": entity_type, "id": entity_id},
        "data": msgspec.Raw(data_json.encode()),
    }
