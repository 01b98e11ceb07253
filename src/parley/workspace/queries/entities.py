"""Reading channels, topics, messages and attachments.

Every function takes any connection to a workspace's database and returns wire structs. The statements are constant
texts, so a connection parses each of them once; columns stand in the order of the struct's fields, so a row becomes a
struct without naming its columns again.
"""

from itertools import starmap
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from parley.core import ids
from parley.core.errors import InvalidInput, NotFound
from parley.wire.entities import Attachment, Channel, ListedTopic, Message, Topic, channel_meant
from parley.workspace.queries.tasks import topic_id_of

CHANNEL_COLUMNS: Final = "id, name, description, created_at"
TOPIC_COLUMNS: Final = "id, channel_id, title, created_at, updated_at"
MESSAGE_COLUMNS: Final = (
    "id, topic_id, channel_id, sender, content_raw, version, created_at, edited_at, deleted_at, deleted_by, reply_to"
)
ATTACHMENT_COLUMNS: Final = "id, topic_id, kind, key, value_json, dedupe_key, source_message_id, created_at"

_LIST_CHANNELS: Final = f"SELECT {CHANNEL_COLUMNS} FROM channels ORDER BY name"
_CHANNEL_BY_ID: Final = f"SELECT {CHANNEL_COLUMNS} FROM channels WHERE id = ?"
_CHANNELS_CALLED: Final = f"SELECT {CHANNEL_COLUMNS} FROM channels WHERE id = ? OR name = ?"
# rowid makes the order of topics that changed in the same millisecond definite, in the direction the index has it.
_LIST_TOPICS: Final = (
    f"SELECT {', '.join('t.' + column for column in TOPIC_COLUMNS.split(', '))}, m.id, m.created_at FROM topics AS t"
    " LEFT JOIN messages AS m ON m.seq = (SELECT max(seq) FROM messages WHERE topic_id = t.id)"
    " WHERE t.channel_id = ? ORDER BY t.updated_at DESC, t.rowid LIMIT ? OFFSET ?"
)
_TOPIC: Final = f"SELECT {TOPIC_COLUMNS} FROM topics WHERE id = ?"
_MESSAGE: Final = f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE id = ?"
_SEQ: Final = "SELECT seq FROM messages WHERE id = ?"
_PAGE: Final = {
    (scope, side): f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE {scope} = ? {where} ORDER BY seq {order} LIMIT ?"
    for scope in ("topic_id", "channel_id")
    for side, where, order in (
        ("newest", "", "DESC"),
        ("oldest", "", "ASC"),
        ("before", "AND seq < ?", "DESC"),
        ("after", "AND seq > ?", "ASC"),
        ("between", "AND seq > ? AND seq < ?", "ASC"),
    )
}
_ATTACHMENTS: Final = (
    f"SELECT {ATTACHMENT_COLUMNS} FROM topic_attachments WHERE topic_id = ? ORDER BY created_at DESC, id DESC"
)
_ATTACHMENTS_OF_KIND: Final = (
    f"SELECT {ATTACHMENT_COLUMNS} FROM topic_attachments WHERE topic_id = ? AND kind = ?"
    " ORDER BY created_at DESC, id DESC"
)
_ATTACHMENT: Final = f"SELECT {ATTACHMENT_COLUMNS} FROM topic_attachments WHERE id = ?"
# The text of the expression must be the index's own.
_ATTACHMENT_BY_KEY: Final = (
    f"SELECT {ATTACHMENT_COLUMNS} FROM topic_attachments"
    " WHERE topic_id = ? AND kind = ? AND COALESCE(key, '') = ? AND dedupe_key = ?"
)
_META: Final = "SELECT value FROM meta WHERE key = ?"
_LARGEST: Final = {
    # A half-open range is the form of a prefix that an index can serve.
    prefix: f"SELECT max(id) FROM {table} WHERE id >= '{prefix}' AND id < '{prefix}~'"
    for prefix, table in (
        (ids.CHANNEL, "channels"),
        (ids.TOPIC, "topics"),
        (ids.MESSAGE, "messages"),
        (ids.ATTACHMENT, "topic_attachments"),
        (ids.ENRICHMENT, "enrichments"),
        (ids.TASK, "tasks"),
        (ids.LEASE, "leases"),
    )
}
LARGEST_ARCHIVED_ID: Final = "largest_archived_id"
"""The key in ``meta`` that keeps ids growing after the messages that carried the largest ones went to an archive."""

_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


class Page(NamedTuple):
    """Messages, newest first, and whether there are more beyond the end that the page grows to."""

    messages: list[Message]
    has_more: bool


def read_meta(connection: apsw.Connection, key: str) -> str | None:
    """One value of the ``meta`` table."""
    row = connection.execute(_META, (key,)).fetchone()
    return None if row is None else str(row[0])


def list_channels(connection: apsw.Connection) -> list[Channel]:
    """All channels by name."""
    return list(starmap(Channel, connection.execute(_LIST_CHANNELS)))


def find_channel(connection: apsw.Connection, id_or_name: str) -> Channel | None:
    """The channel with this id, else the one with this name."""
    return channel_meant(starmap(Channel, connection.execute(_CHANNELS_CALLED, (id_or_name, id_or_name))), id_or_name)


def get_channel(connection: apsw.Connection, channel_id: str) -> Channel | None:
    """One channel."""
    row: Any = connection.execute(_CHANNEL_BY_ID, (channel_id,)).fetchone()
    return None if row is None else Channel(*row)


def list_topics(
    connection: apsw.Connection, channel_id: str, *, limit: int, offset: int = 0
) -> tuple[list[ListedTopic], bool]:
    """Topics of a channel, most recently changed first, and whether there are more."""
    topics = list(starmap(ListedTopic, connection.execute(_LIST_TOPICS, (channel_id, limit + 1, offset))))
    return topics[:limit], len(topics) > limit


def get_topic(connection: apsw.Connection, topic_id: str) -> Topic | None:
    """One topic, by its id or that of its task."""
    row: Any = connection.execute(_TOPIC, (topic_id_of(connection, topic_id),)).fetchone()
    return None if row is None else Topic(*row)


def get_message(connection: apsw.Connection, message_id: str) -> Message | None:
    """One message, deleted ones included."""
    row: Any = connection.execute(_MESSAGE, (message_id,)).fetchone()
    return None if row is None else Message(*row)


def page_messages(
    connection: apsw.Connection,
    *,
    topic_id: str | None = None,
    channel_id: str | None = None,
    before_id: str | None = None,
    after_id: str | None = None,
    from_oldest: bool = False,
    limit: int,
) -> Page:
    """Messages of a topic (or, without one, of a channel) in order of creation, newest first.

    Without an anchor: the newest ones, or with ``from_oldest`` the oldest. ``before_id``: the ones right before it.
    ``after_id``: the ones right after it, so that a reader who pages forward misses none; with both, those between,
    from ``after_id`` on. Raises ``NotFound`` for an anchor that does not exist.
    """
    if topic_id is not None:
        scope, scope_id = "topic_id", topic_id_of(connection, topic_id)
    elif channel_id is not None:
        scope, scope_id = "channel_id", channel_id
    else:
        raise InvalidInput("topic_id or channel_id is required", field="topic_id")
    side, anchors = "oldest" if from_oldest else "newest", ()
    if after_id is not None and before_id is not None:
        side, anchors = "between", (_seq_of(connection, after_id), _seq_of(connection, before_id))
    elif after_id is not None:
        side, anchors = "after", (_seq_of(connection, after_id),)
    elif before_id is not None:
        side, anchors = "before", (_seq_of(connection, before_id),)
    found = connection.execute(_PAGE[scope, side], (scope_id, *anchors, limit + 1))
    messages = list(starmap(Message, found))
    has_more = len(messages) > limit
    del messages[limit:]
    if side not in ("newest", "before"):
        messages.reverse()
    return Page(messages, has_more)


def list_attachments(connection: apsw.Connection, topic_id: str, kind: str | None = None) -> list[Attachment]:
    """A topic's attachments, newest first."""
    topic_id = topic_id_of(connection, topic_id)
    if kind is None:
        found = connection.execute(_ATTACHMENTS, (topic_id,))
    else:
        found = connection.execute(_ATTACHMENTS_OF_KIND, (topic_id, kind))
    return list(map(_attachment, found))


def get_attachment(connection: apsw.Connection, attachment_id: str) -> Attachment | None:
    """One attachment."""
    row = connection.execute(_ATTACHMENT, (attachment_id,)).fetchone()
    return None if row is None else _attachment(row)


def find_attachment(
    connection: apsw.Connection, topic_id: str, kind: str, key: str | None, dedupe_key: str
) -> Attachment | None:
    """The attachment that a new one with these keys would repeat."""
    row = connection.execute(_ATTACHMENT_BY_KEY, (topic_id, kind, key or "", dedupe_key)).fetchone()
    return None if row is None else _attachment(row)


def largest_ids(connection: apsw.Connection) -> dict[str, str]:
    """The largest id of each kind that this database ever held, for ``core.ids.IdSource``."""
    found = {prefix: connection.execute(statement).fetchall()[0][0] for prefix, statement in _LARGEST.items()}
    largest = {prefix: str(text) for prefix, text in found.items() if text is not None}
    archived = read_meta(connection, LARGEST_ARCHIVED_ID)
    if archived is not None:
        largest[ids.MESSAGE] = max(archived, largest.get(ids.MESSAGE, ""))
    return largest


def _seq_of(connection: apsw.Connection, message_id: str) -> Any:
    row = connection.execute(_SEQ, (message_id,)).fetchone()
    if row is None:
        raise NotFound(f"Message not found: {message_id}")
    return row[0]


def _attachment(row: Any) -> Attachment:
    attachment_id, topic_id, kind, key, value_json, dedupe_key, source_message_id, created_at = row
    value = _decode_object(value_json)
    return Attachment(attachment_id, topic_id, kind, key, value, dedupe_key, source_message_id, created_at)
