"""Reading what follows from messages: their history, and what plugins found in them."""

from collections.abc import Sequence
from typing import Any, Final

import apsw
import msgspec

from parley.wire.entities import Message, MessageVersion, Span, StoredEnrichment
from parley.workspace.queries.entities import get_message
from parley.workspace.queries.events import columns_there

_ENRICHMENTS: Final = {
    marked: f"SELECT e.id, e.message_id, {plugin_name}, e.kind, e.span_start, e.span_end, e.data_json, e.created_at"
    " FROM json_each(?) AS asked JOIN enrichments AS e ON e.message_id = asked.value"
    f" {where} ORDER BY asked.key, e.span_start, e.span_end, e.id"
    for marked, plugin_name, where in ((True, "e.plugin_name", "WHERE e.outdated = 0"), (False, "''", ""))
}
"""By whether the table marks what is outdated: one that no hub has opened since an upgrade does not."""
# The text of the condition must be the index's own.
_CHANGES: Final = (
    "SELECT event_id, ts, name, data_json FROM events WHERE entity_id = ?"
    " AND name IN ('message.edited', 'message.deleted', 'message.moved_topic') ORDER BY event_id"
)
_FIRST_CHANGE: Final = 2
"""The version that a message's first change gives it."""

_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def list_enrichments(connection: apsw.Connection, message_ids: Sequence[str]) -> list[StoredEnrichment]:
    """What plugins found in these messages as they are now: an edit hides what was found before it."""
    marked = bool(columns_there(connection, "enrichments", ("outdated",)))
    rows: Any = connection.execute(_ENRICHMENTS[marked], (msgspec.json.encode(message_ids).decode(),))
    return [
        StoredEnrichment(each, message_id, plugin, kind, Span(start, end), _decode_object(data), created_at)
        for each, message_id, plugin, kind, start, end, data, created_at in rows
    ]


def message_history(connection: apsw.Connection, message_id: str) -> list[MessageVersion] | None:
    """The steps of a message from its first version to its last; None for a message that does not exist.

    Steps that were archived are missing, and so is the content of a message that was deleted since.
    """
    message = get_message(connection, message_id)
    if message is None:
        return None
    rows: Any = connection.execute(_CHANGES, (message_id,))
    changes = [_change(event_id, ts, name, _decode_object(data)) for event_id, ts, name, data in rows]
    steps = [_created(message, changes), *(step for step, _ in changes)]
    if message.deleted_at is not None:
        steps = [msgspec.structs.replace(step, content_raw=None) for step in steps]
    return steps


def _change(event_id: int, ts: str, name: str, data: dict[str, Any]) -> tuple[MessageVersion, dict[str, Any]]:
    version = data["version"]
    if name == "message.edited":
        return MessageVersion(version, event_id, ts, "edited", data["new_content"], None, None), data
    if name == "message.moved_topic":
        return MessageVersion(version, event_id, ts, "moved", None, data["new_topic_id"], None), data
    return MessageVersion(version, event_id, ts, "deleted", None, None, data["deleted_by"]), data


def _created(message: Message, changes: list[tuple[MessageVersion, dict[str, Any]]]) -> MessageVersion:
    """The first version: each of its members is what the first change of that member found, or what it still is."""
    content: str | None = message.content_raw
    topic_id: str | None = message.topic_id
    for _, data in reversed(changes):
        content = data.get("old_content", content)
        topic_id = data.get("old_topic_id", topic_id)
    first = changes[0][0].version if changes else message.version + 1
    if first != _FIRST_CHANGE:
        content = topic_id = None
    return MessageVersion(1, None, message.created_at, "created", content, topic_id, message.sender)
