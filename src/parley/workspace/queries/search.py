"""Searching messages: by the full-text index where there is one, else by comparing text.

A person types ``c++`` or ``hub-lock`` and means the words; a program may send ``deploy* NOT staging`` and mean the
syntax of FTS5. So the query is tried as syntax first and, if that is not valid, taken word by word. A deleted message
is never found.
"""

from itertools import starmap
from typing import Final, NamedTuple

import apsw
import msgspec

from parley.core.errors import InvalidInput
from parley.core.limits import SEARCH_QUERY_CHARS_MAX
from parley.wire.entities import Message
from parley.workspace.queries.entities import MESSAGE_COLUMNS
from parley.workspace.queries.tasks import topic_id_of

FTS_TABLE: Final = "messages_fts"

_HAS_INDEX: Final = f"SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = '{FTS_TABLE}'"
_MATCH: Final = (
    f"SELECT {', '.join('m.' + column for column in MESSAGE_COLUMNS.split(', '))}"
    " FROM messages_fts JOIN messages AS m ON m.seq = messages_fts.rowid"
    " WHERE messages_fts MATCH ?1 AND m.deleted_at IS NULL"
    " AND (?2 IS NULL OR m.channel_id = ?2) AND (?3 IS NULL OR m.topic_id = ?3)"
    " ORDER BY messages_fts.rank, m.seq DESC LIMIT ?4 OFFSET ?5"
)
# Every pattern of the list must match. The list is one parameter, so the statement is the same for any number of words.
_COMPARE: Final = {
    scope: f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE {where} deleted_at IS NULL"
    " AND NOT EXISTS (SELECT 1 FROM json_each(?1) AS word WHERE content_raw NOT LIKE word.value ESCAPE '\\')"
    " ORDER BY seq DESC LIMIT ?4 OFFSET ?5"
    for scope, where in (
        ("all", "(?2 IS NULL AND ?3 IS NULL) AND"),
        ("channel", "channel_id = ?2 AND ?3 IS NULL AND"),
        ("topic", "topic_id = ?3 AND (?2 IS NULL OR channel_id = ?2) AND"),
    )
}


class Hits(NamedTuple):
    """Messages that match: best first with the index, newest first without."""

    messages: list[Message]
    has_more: bool
    fts_used: bool


def search(
    connection: apsw.Connection,
    query: str,
    *,
    channel_id: str | None = None,
    topic_id: str | None = None,
    limit: int,
    offset: int = 0,
) -> Hits:
    """Messages that hold what the query asks for. No query is a syntax error, but an empty or too long one is refused.

    Raises ``InvalidInput``.
    """
    query = query.replace("\0", " ")
    words = query.split()
    if not words or len(query) > SEARCH_QUERY_CHARS_MAX:
        raise InvalidInput(f"query must have 1 to {SEARCH_QUERY_CHARS_MAX} characters", field="query")
    # Words without a letter or digit have no entry in the index, but can be compared.
    by_index = has_index(connection) and any(character.isalnum() for character in query)
    topic_id = None if topic_id is None else topic_id_of(connection, topic_id)
    window = (channel_id, topic_id, limit + 1, offset)
    if by_index:
        found = _match(connection, query, words, window)
    else:
        scope = "topic" if topic_id is not None else "channel" if channel_id is not None else "all"
        patterns = msgspec.json.encode([f"%{_escaped(word)}%" for word in words]).decode()
        found = list(starmap(Message, connection.execute(_COMPARE[scope], (patterns, *window))))
    return Hits(found[:limit], len(found) > limit, by_index)


def has_index(connection: apsw.Connection) -> bool:
    """Whether this database keeps a full-text index."""
    return connection.execute(_HAS_INDEX).fetchone() is not None


def _match(
    connection: apsw.Connection, query: str, words: list[str], window: tuple[str | None, str | None, int, int]
) -> list[Message]:
    try:
        return list(starmap(Message, connection.execute(_MATCH, (query, *window))))
    except apsw.SQLError:  # the result code with which FTS5 refuses a query's syntax
        quoted = " ".join('"' + word.replace('"', '""') + '"' for word in words)
        return list(starmap(Message, connection.execute(_MATCH, (quoted, *window))))


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
