"""Every read, described once: how to take it from the workspace's file, and how to ask a hub for it.

With a workspace at hand a read goes straight to the file and needs no hub. A client that knows only an address asks
there. Both give the same structs in the same order.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from parley.client.call import Caller, Read, check_limit, query_text, segment
from parley.core import limits
from parley.core.errors import CursorExpired, InvalidInput, NotFound
from parley.wire.answers import (
    Attachments,
    Channels,
    Enrichments,
    MessageHistory,
    Messages,
    OneMessage,
    OneTopic,
    SearchHits,
    Topics,
)
from parley.wire.events import EventPage
from parley.wire.paging import message_cursor, offset_cursor, parse_cursor
from parley.workspace import queries

if TYPE_CHECKING:
    import apsw


def list_channels(_caller: Caller) -> Read[Channels]:
    """All channels by name."""

    def from_file(connection: "apsw.Connection") -> Channels:
        return Channels(queries.list_channels(connection))

    return Read("GET", "/api/v1/channels", Channels, from_file=from_file)


def list_topics(
    _caller: Caller,
    channel_id: str,
    *,
    limit: int = limits.PAGE_LIMIT_DEFAULT,
    offset: int = 0,
    cursor: str | None = None,
) -> Read[Topics]:
    """A channel's topics, most recently changed first. ``cursor`` goes on where an earlier answer ended."""
    check_limit(limit)
    position = parse_cursor(cursor, "rows").offset
    offset = offset if position is None else position

    def from_file(connection: "apsw.Connection") -> Topics:
        if queries.get_channel(connection, channel_id) is None:
            raise NotFound("Channel not found", channel_id=channel_id)
        topics, has_more = queries.list_topics(connection, channel_id, limit=limit, offset=offset)
        return Topics(topics, has_more, offset_cursor(offset, limit, has_more))

    path = f"/api/v1/channels/{segment(channel_id)}/topics" + query_text(limit=limit, offset=offset)
    return Read("GET", path, Topics, from_file=from_file)


def get_topic(_caller: Caller, topic_id: str) -> Read[OneTopic]:
    """One topic."""

    def from_file(connection: "apsw.Connection") -> OneTopic:
        found = queries.get_topic(connection, topic_id)
        if found is None:
            raise NotFound("Topic not found", topic_id=topic_id)
        return OneTopic(found)

    return Read("GET", f"/api/v1/topics/{segment(topic_id)}", OneTopic, from_file=from_file)


def get_message(_caller: Caller, message_id: str) -> Read[OneMessage]:
    """One message, also a deleted one."""

    def from_file(connection: "apsw.Connection") -> OneMessage:
        found = queries.get_message(connection, message_id)
        if found is None:
            raise NotFound(f"Message not found: {message_id}", message_id=message_id)
        return OneMessage(found)

    return Read("GET", f"/api/v1/messages/{segment(message_id)}", OneMessage, from_file=from_file)


def tail_messages(caller: Caller, topic_id: str, *, limit: int = limits.PAGE_LIMIT_DEFAULT) -> Read[Messages]:
    """A topic's newest messages, newest first."""
    return page_messages(caller, topic_id=topic_id, limit=limit)


def page_messages(
    _caller: Caller,
    *,
    topic_id: str | None = None,
    channel_id: str | None = None,
    before_id: str | None = None,
    after_id: str | None = None,
    from_oldest: bool = False,
    limit: int = limits.PAGE_LIMIT_DEFAULT,
    cursor: str | None = None,
) -> Read[Messages]:
    """Messages of a topic or a whole channel, newest first: those right before or right after a message.

    Without either they are the newest, or with ``from_oldest`` the oldest. ``cursor`` goes on where an earlier answer
    ended, in its direction.
    """
    check_limit(limit)
    position = parse_cursor(cursor, "messages")
    before_id, after_id = position.before_id or before_id, position.after_id or after_id

    forwards = after_id is not None or (from_oldest and before_id is None)

    def from_file(connection: "apsw.Connection") -> Messages:
        page = queries.page_messages(
            connection,
            topic_id=topic_id,
            channel_id=channel_id,
            before_id=before_id,
            after_id=after_id,
            from_oldest=from_oldest,
            limit=limit,
        )
        return Messages(page.messages, page.has_more, message_cursor(page.messages, page.has_more, forwards=forwards))

    path = "/api/v1/messages" + query_text(
        topic_id=topic_id,
        channel_id=channel_id,
        before_id=before_id,
        after_id=after_id,
        order="oldest" if from_oldest else None,
        limit=limit,
    )
    return Read("GET", path, Messages, from_file=from_file)


def message_history(_caller: Caller, message_id: str) -> Read[MessageHistory]:
    """A message's versions, oldest first."""

    def from_file(connection: "apsw.Connection") -> MessageHistory:
        versions = queries.message_history(connection, message_id)
        if versions is None:
            raise NotFound(f"Message not found: {message_id}", message_id=message_id)
        return MessageHistory(message_id, versions)

    return Read("GET", f"/api/v1/messages/{segment(message_id)}/history", MessageHistory, from_file=from_file)


def list_enrichments(_caller: Caller, message_ids: Sequence[str]) -> Read[Enrichments]:
    """What plugins found in these messages as they are now."""
    if len(message_ids) > limits.ENRICHED_MESSAGES_MAX:
        raise InvalidInput(f"At most {limits.ENRICHED_MESSAGES_MAX} messages at once", field="message_id")

    def from_file(connection: "apsw.Connection") -> Enrichments:
        return Enrichments(queries.list_enrichments(connection, message_ids))

    return Read("GET", "/api/v1/enrichments" + query_text(message_id=message_ids), Enrichments, from_file=from_file)


def list_attachments(_caller: Caller, topic_id: str, *, kind: str | None = None) -> Read[Attachments]:
    """A topic's attachments, newest first."""

    def from_file(connection: "apsw.Connection") -> Attachments:
        found = queries.list_attachments(connection, topic_id, kind)
        if not found and queries.get_topic(connection, topic_id) is None:
            raise NotFound("Topic not found", topic_id=topic_id)
        return Attachments(found)

    path = f"/api/v1/topics/{segment(topic_id)}/attachments" + query_text(kind=kind)
    return Read("GET", path, Attachments, from_file=from_file)


def search(
    _caller: Caller,
    query: str,
    *,
    channel: str | None = None,
    topic_id: str | None = None,
    limit: int = limits.SEARCH_LIMIT_DEFAULT,
    cursor: str | None = None,
) -> Read[SearchHits]:
    """Messages that hold what the query asks for: best first with the full-text index, newest first without.

    ``channel`` is an id or a name. ``cursor`` goes on where an earlier answer ended.
    """
    check_limit(limit)
    offset = parse_cursor(cursor, "rows").offset or 0

    def from_file(connection: "apsw.Connection") -> SearchHits:
        found = None if channel is None else queries.find_channel(connection, channel)
        if channel is not None and found is None:
            raise NotFound("Channel not found", channel=channel)
        channel_id = None if found is None else found.id
        hits = queries.search(connection, query, channel_id=channel_id, topic_id=topic_id, limit=limit, offset=offset)
        return SearchHits(hits.messages, hits.has_more, hits.fts_used, offset_cursor(offset, limit, hits.has_more))

    path = "/api/v1/search" + query_text(query=query, channel=channel, topic_id=topic_id, limit=limit, cursor=cursor)
    return Read("GET", path, SearchHits, from_file=from_file)


def read_events(
    _caller: Caller,
    after: int | None = None,
    *,
    tail: int | None = None,
    limit: int = limits.EVENTS_LIMIT_DEFAULT,
    channels: Sequence[str] = (),
    topics: Sequence[str] = (),
) -> Read[EventPage]:
    """One page of the log, oldest first, without a connection that stays open. Filters are ids; none means all.

    ``after`` continues from a cursor, ``tail`` takes the newest events instead. ``replay_until`` of the answer is the
    newest event's id: a feed that begins after it gets only what is yet to come.
    """
    check_limit(tail if tail is not None else limit)
    if tail is not None and after is not None:
        raise InvalidInput("after and tail exclude each other", field="tail")

    def from_file(connection: "apsw.Connection") -> EventPage:
        latest = queries.latest_event_id(connection)
        filters = {"channels": channels, "topics": topics} if channels or topics else {}
        if tail is not None:
            return EventPage(
                latest, queries.tail_events(connection, until=latest, limit=tail, **filters), False, latest
            )
        start = _start_of_events(connection, after)
        return queries.page_events(connection, after=start, until=latest, limit=limit, **filters)

    window = {"after": after, "limit": limit} if tail is None else {"tail": tail}
    path = "/api/v1/events" + query_text(**window, channel_id=channels, topic_id=topics)
    return Read("GET", path, EventPage, from_file=from_file)


def _start_of_events(connection: "apsw.Connection", after: int | None) -> int:
    """The cursor to read from; without one, the oldest that is kept."""
    floor = queries.oldest_cursor(connection)
    if floor is None:
        return after or 0
    if after is not None and after < floor.event_id:
        raise CursorExpired("These events were archived", archive=floor.archive, oldest_cursor=floor.event_id)
    return floor.event_id if after is None else after
