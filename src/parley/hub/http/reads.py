"""Handlers that read. Short, indexed reads run on the loop; what may take long runs on a thread."""

from functools import partial
from typing import TYPE_CHECKING, cast, get_args

from parley.core.errors import CursorExpired, InvalidInput, NotFound
from parley.core.ids import is_id
from parley.core.limits import (
    ENRICHED_MESSAGES_MAX,
    EVENTS_LIMIT_DEFAULT,
    PAGE_LIMIT_DEFAULT,
    SEARCH_LIMIT_DEFAULT,
    SUBSCRIPTIONS_MAX,
)
from parley.hub.rules.moves import preview_move
from parley.serve.endpoint import Answer, Call
from parley.wire.answers import (
    Attachments,
    Channels,
    Enrichments,
    MessageHistory,
    Messages,
    OneMessage,
    OneTopic,
    Plugins,
    SearchHits,
    Topics,
)
from parley.wire.events import EventPage
from parley.wire.paging import message_cursor, offset_cursor, parse_cursor
from parley.wire.requests import MoveMode
from parley.workspace import queries

if TYPE_CHECKING:
    from parley.hub.hub import Hub

OFFSET_MAX = 2**53
EVENT_ID_MAX = 2**53


async def health(hub: "Hub", call: Call) -> Answer:
    return Answer(200, hub.health(), b"application/json;charset=utf-8")


async def status(hub: "Hub", call: Call) -> Answer:
    return Answer(200, hub.status())


async def plugins(hub: "Hub", call: Call) -> Answer:
    return Answer(200, Plugins(hub.derived.health()))


async def metrics(hub: "Hub", call: Call) -> Answer:
    hub.monitor.measure()
    return Answer(200, hub.metrics.render(), hub.metrics.content_type.encode())


async def openapi(hub: "Hub", call: Call) -> Answer:
    return Answer(200, hub.openapi_json)


async def channels(hub: "Hub", call: Call) -> Answer:
    return Answer(200, Channels(hub.store.read(queries.list_channels)))


async def topics(hub: "Hub", call: Call) -> Answer:
    limit = limit_of(hub, call, PAGE_LIMIT_DEFAULT)
    offset = parse_cursor(call.query.text("cursor"), "rows").offset
    if offset is None:
        offset = call.query.integer("offset", default=0, low=0, high=OFFSET_MAX)
    channel_id = call.path["channel_id"]
    if hub.store.read(partial(queries.get_channel, channel_id=channel_id)) is None:
        raise NotFound("Channel not found", channel_id=channel_id)
    found, more = hub.store.read(partial(queries.list_topics, channel_id=channel_id, limit=limit, offset=offset))
    return Answer(200, Topics(found, more, offset_cursor(offset, limit, more)))


async def topic(hub: "Hub", call: Call) -> Answer:
    found = hub.store.read(partial(queries.get_topic, topic_id=call.path["topic_id"]))
    if found is None:
        raise NotFound("Topic not found", topic_id=call.path["topic_id"])
    return Answer(200, OneTopic(found))


async def message(hub: "Hub", call: Call) -> Answer:
    message_id = call.path["message_id"]
    found = hub.store.read(partial(queries.get_message, message_id=message_id))
    if found is None:
        raise NotFound(f"Message not found: {message_id}", message_id=message_id)
    return Answer(200, OneMessage(found))


async def history(hub: "Hub", call: Call) -> Answer:
    message_id = call.path["message_id"]
    versions = hub.store.read(partial(queries.message_history, message_id=message_id))
    if versions is None:
        raise NotFound(f"Message not found: {message_id}", message_id=message_id)
    return Answer(200, MessageHistory(message_id, versions))


async def move_preview(hub: "Hub", call: Call) -> Answer:
    to_topic_id = id_of(call, "to_topic_id")
    if to_topic_id is None:
        raise InvalidInput("to_topic_id must be given", field="to_topic_id")
    mode = cast(MoveMode, call.query.choice("mode", get_args(MoveMode)))
    message_id = call.path["message_id"]
    read = partial(preview_move, message_id=message_id, to_topic_id=to_topic_id, mode=mode)
    return Answer(200, await hub.store.read_slow(read))


async def enrichments(hub: "Hub", call: Call) -> Answer:
    asked = _ids(call, "message_id", ENRICHED_MESSAGES_MAX)
    return Answer(200, Enrichments(hub.store.read(partial(queries.list_enrichments, message_ids=asked))))


async def messages(hub: "Hub", call: Call) -> Answer:
    query = call.query
    limit = limit_of(hub, call, PAGE_LIMIT_DEFAULT)
    before_id, after_id = id_of(call, "before_id"), id_of(call, "after_id")
    position = parse_cursor(query.text("cursor"), "messages")
    before_id, after_id = position.before_id or before_id, position.after_id or after_id
    from_oldest = query.choice("order", ("newest", "oldest")) == "oldest" and before_id is None and after_id is None
    page = hub.store.read(
        partial(
            queries.page_messages,
            topic_id=query.text("topic_id"),
            channel_id=query.text("channel_id"),
            before_id=before_id,
            after_id=after_id,
            from_oldest=from_oldest,
            limit=limit,
        )
    )
    cursor = message_cursor(page.messages, page.has_more, forwards=after_id is not None or from_oldest)
    return Answer(200, Messages(page.messages, page.has_more, cursor))


async def attachments(hub: "Hub", call: Call) -> Answer:
    topic_id = call.path["topic_id"]
    found = hub.store.read(partial(queries.list_attachments, topic_id=topic_id, kind=call.query.text("kind")))
    if not found and hub.store.read(partial(queries.get_topic, topic_id=topic_id)) is None:
        raise NotFound("Topic not found", topic_id=topic_id)
    return Answer(200, Attachments(found))


async def search(hub: "Hub", call: Call) -> Answer:
    text = call.query.text("query") or call.query.text("q") or ""
    limit = limit_of(hub, call, SEARCH_LIMIT_DEFAULT)
    offset = parse_cursor(call.query.text("cursor"), "rows").offset or 0
    channel = call.query.text("channel") or call.query.text("channel_id")
    if channel is not None:
        found = hub.store.read(partial(queries.find_channel, id_or_name=channel))
        if found is None:
            raise NotFound("Channel not found", channel=channel)
        channel = found.id
    hits = await hub.store.read_slow(
        partial(
            queries.search,
            query=text,
            channel_id=channel,
            topic_id=call.query.text("topic_id"),
            limit=limit,
            offset=offset,
        )
    )
    cursor = offset_cursor(offset, limit, hits.has_more)
    return Answer(200, SearchHits(hits.messages, hits.has_more, hits.fts_used, cursor))


async def events(hub: "Hub", call: Call) -> Answer:
    latest = hub.feed.latest
    chosen = _ids(call, "channel_id"), _ids(call, "topic_id")
    channels, topics = chosen if any(chosen) else (None, None)
    if call.query.text("tail") is not None:
        limit = _tail(hub, call)
        read = partial(queries.tail_events, until=latest, limit=limit, channels=channels, topics=topics)
        return Answer(200, EventPage(latest, await hub.store.read_slow(read), False, latest))
    limit = limit_of(hub, call, EVENTS_LIMIT_DEFAULT)
    after = _after(hub, call)
    read = partial(queries.page_events, after=after, until=latest, limit=limit, channels=channels, topics=topics)
    return Answer(200, await hub.store.read_slow(read))


def _tail(hub: "Hub", call: Call) -> int:
    """How many of the newest events; clamped, as existing clients expect."""
    if call.query.text("after") is not None:
        raise InvalidInput("tail and after exclude each other", field="tail")
    asked = call.query.integer("tail", default=1, low=-EVENT_ID_MAX, high=EVENT_ID_MAX)
    return min(max(asked, 1), hub.settings.limits.page_max)


def _after(hub: "Hub", call: Call) -> int:
    """The cursor; without one, the oldest that is kept."""
    floor = hub.store.read(queries.oldest_cursor)
    oldest = 0 if floor is None else floor.event_id
    after = call.query.integer("after", default=oldest, low=0, high=EVENT_ID_MAX)
    if floor is not None and after < floor.event_id:
        raise CursorExpired("These events were archived", archive=floor.archive, oldest_cursor=floor.event_id)
    return after


def limit_of(hub: "Hub", call: Call, default: int) -> int:
    """How many rows are asked for."""
    most = hub.settings.limits.page_max
    return call.query.integer("limit", default=min(default, most), low=1, high=most)


def id_of(call: Call, name: str) -> str | None:
    """A parameter that is an id, if it is given."""
    text = call.query.text(name)
    if text is not None and not is_id(text):
        raise InvalidInput(f"{name} is not a valid id", field=name)
    return text


def _ids(call: Call, name: str, most: int = SUBSCRIPTIONS_MAX) -> list[str]:
    texts = call.query.texts(name)
    if len(texts) > most or not all(map(is_id, texts)):
        raise InvalidInput(f"{name} must be valid ids, at most {most}", field=name)
    return texts
