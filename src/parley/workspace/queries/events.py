"""Reading the event log in pages, and as input for the fold.

With filters there is one ordered stream per channel and topic, each served by its own index, and the streams are merged
lazily: a page costs what it returns, however sparse the filter and however long the log.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from parley.core.canonical import canonical_json
from parley.core.fold import TABLES, HubState, LoggedEvent, Row
from parley.wire.events import Entity, EventPage, EventRow, Scope
from parley.workspace.queries.tasks import topic_id_of

_COLUMNS: Final = (
    "event_id, ts, name, data_json, scope_channel_id, scope_topic_id, scope_topic_id2, entity_type, entity_id"
)
# SQLite builds the text of the frame, so that a replay neither decodes nor encodes a payload. It is the same text, to
# the byte, as ``StoredEvent.frame_text`` makes for an event that was just written.
_FRAME: Final = (
    'event_id, CAST(format(\'{"type":"event","event_id":%d,"ts":%s,"name":%s,"scope":{"channel_id":%s,'
    '"topic_id":%s,"topic_id2":%s},"entity":{"type":%s,"id":%s},"data":%s}\','
    " event_id, json_quote(ts), json_quote(name), json_quote(scope_channel_id), json_quote(scope_topic_id),"
    " json_quote(scope_topic_id2), json_quote(entity_type), json_quote(entity_id), data_json) AS BLOB)"
)
_SCOPES: Final = ("scope_channel_id", "scope_topic_id", "scope_topic_id2")
_SELECT: Final = {
    (columns, scope): f"SELECT {columns} FROM events WHERE {f'{scope} = ? AND ' if scope else ''}"
    "event_id > ? AND event_id <= ? ORDER BY event_id LIMIT ?"
    for columns in (_COLUMNS, _FRAME)
    for scope in ("", *_SCOPES)
}
_SELECT_TAIL: Final = {
    scope: f"SELECT {_COLUMNS} FROM events WHERE {f'{scope} = ? AND ' if scope else ''}"
    "event_id <= ? ORDER BY event_id DESC LIMIT ?"
    for scope in ("", *_SCOPES)
}
_LATEST: Final = "SELECT max(event_id) FROM events"
_OLDEST: Final = "SELECT up_to_event_id, name FROM archives ORDER BY up_to_event_id DESC LIMIT 1"
_LOG: Final = "SELECT event_id, ts, name, data_json FROM events ORDER BY event_id"
_JSON_COLUMNS: Final = frozenset({"value_json", "data_json"})

_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


class Floor(NamedTuple):
    """The end of what was archived: a cursor before ``event_id`` has expired."""

    event_id: int
    archive: str


def read_events(
    connection: apsw.Connection,
    *,
    after: int,
    until: int,
    limit: int,
    channels: Iterable[str] | None = None,
    topics: Iterable[str] | None = None,
) -> list[EventRow]:
    """Events in ``(after, until]``, oldest first.

    The filters are ids: None for both means everything, empty ones nothing.
    """
    return list(map(_event, _select(connection, _COLUMNS, after, until, limit, channels, topics)))


def page_events(
    connection: apsw.Connection, *, after: int, until: int, limit: int, **filters: Iterable[str] | None
) -> EventPage:
    """The same selection as a page, whose cursor is never beyond ``until``, the newest event."""
    found = read_events(connection, after=after, until=until, limit=limit, **filters)
    more = len(found) == limit and found[-1].event_id < until
    return EventPage(until, found, more, found[-1].event_id if more else until, reset=after > until)


def read_frames(
    connection: apsw.Connection,
    *,
    after: int,
    until: int,
    limit: int,
    channels: Iterable[str] | None = None,
    topics: Iterable[str] | None = None,
) -> Iterator[tuple[int, bytes]]:
    """The same selection as ``(event_id, text of the feed's frame)``, one at a time: frames can be large."""
    return _select(connection, _FRAME, after, until, limit, channels, topics)


def tail_events(
    connection: apsw.Connection,
    *,
    until: int,
    limit: int,
    channels: Iterable[str] | None = None,
    topics: Iterable[str] | None = None,
) -> list[EventRow]:
    """The newest events up to ``until``, oldest first; filters as in ``read_events``."""
    if channels is None and topics is None:
        newest: Iterable[Any] = connection.execute(_SELECT_TAIL[""], (until, limit))
    else:
        streams = _streams(connection, _SELECT_TAIL, (until, limit), channels, topics)
        newest = islice(_once(heapq.merge(*streams, key=itemgetter(0), reverse=True)), limit)
    return list(map(_event, newest))[::-1]


def latest_event_id(connection: apsw.Connection) -> int:
    """The newest event's id; 0 in an empty log."""
    newest: Any = connection.execute(_LATEST).fetchall()[0][0]
    return newest or 0


def oldest_cursor(connection: apsw.Connection) -> Floor | None:
    """The smallest cursor that can still be resumed from, and the archive that holds what came before it."""
    row: Any = connection.execute(_OLDEST).fetchone()
    return None if row is None else Floor(*row)


def logged_events(connection: apsw.Connection) -> Iterator[LoggedEvent]:
    """The whole log as the fold takes it, one row at a time."""
    rows: Any = connection.execute(_LOG)
    for event_id, ts, name, data in rows:
        yield LoggedEvent(event_id, ts, name, _decode_object(data))


def stored_state(connection: apsw.Connection) -> HubState:
    """The tables as the fold would give them: the columns that the log determines, JSON as canonical text."""
    state = HubState()
    for table, known in TABLES.items():
        rows = state.table(table)
        columns = columns_there(connection, table, known)
        if not columns:
            continue  # an archive from before the table came to be
        for values in connection.execute(f"SELECT {', '.join(columns)} FROM {table}"):
            row: Row = dict(zip(columns, values, strict=True))
            for column in _JSON_COLUMNS & row.keys():
                row[column] = canonical_json(_decode_object(row[column])).decode()
            rows[row[known[0]]] = row
    state.last_event_id = latest_event_id(connection)
    return state


def columns_there(connection: apsw.Connection, table: str, known: Iterable[str]) -> list[str]:
    """Those of the known columns that the table has: an archive, or a file from before an upgrade, may lack some."""
    there = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
    return [column for column in known if column in there]


def _select(
    connection: apsw.Connection,
    columns: str,
    after: int,
    until: int,
    limit: int,
    channels: Iterable[str] | None,
    topics: Iterable[str] | None,
) -> Iterator[Any]:
    bounds = (after, until, limit)
    if channels is None and topics is None:
        return connection.execute(_SELECT[columns, ""], bounds)
    statements = {scope: _SELECT[columns, scope] for scope in _SCOPES}
    streams = _streams(connection, statements, bounds, channels, topics)
    return islice(_once(heapq.merge(*streams, key=itemgetter(0))), limit)


def _streams(
    connection: apsw.Connection,
    statements: Mapping[str, str],
    bounds: tuple[int, ...],
    channels: Iterable[str] | None,
    topics: Iterable[str] | None,
) -> list[Iterator[Any]]:
    """One ordered stream per channel and per topic, a topic's as the place a message left and as the one it went to."""
    topics = tuple(dict.fromkeys(topic_id_of(connection, each) for each in topics or ()))
    return [
        connection.execute(statements[scope], (scope_id, *bounds))
        for scope, wanted in zip(_SCOPES, (dict.fromkeys(channels or ()), topics, topics), strict=True)
        for scope_id in wanted
    ]


def _event(row: Any) -> EventRow:
    event_id, ts, name, data, channel, topic, topic2, kind, entity = row
    return EventRow(event_id, ts, name, _decode_object(data), Scope(channel, topic, topic2), Entity(kind, entity))


def _once(rows: Iterable[Any]) -> Iterator[Any]:
    """Drops the repetitions of an event that several streams hold."""
    last = None
    for row in rows:
        if row[0] != last:
            last = row[0]
            yield row
