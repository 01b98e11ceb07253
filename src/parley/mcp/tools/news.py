"""What is new: since a cursor at once, or as soon as there is something.

Both look at the same log with the same eyes, so what a wait ends with is what the inbox would have told. Looking
changes nothing. Only a cursor that the agent hands in says that it has seen what came before, and is kept for the next
time that it asks without one.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple

from msgspec import Meta, ValidationError, structs

from parley.client import AsyncClient, MessageCreated, MessageDeleted, MessageEdited, StateChange
from parley.mcp.desk import Desk
from parley.mcp.results import Entry, Result, listing
from parley.mcp.toolbox import Arguments, Channel, Detail, Tool, Topic
from parley.mcp.tools.entries import message_entry
from parley.mcp.tools.places import channel_named
from parley.wire.entities import Message
from parley.wire.events import decode_payload

PAGE_EVENTS: Final = 500
PAGES_MAX: Final = 20
"""One look goes through at most so many pages of events; what is left is told as more, so no look takes long."""
WAIT_SECONDS_DEFAULT: Final = 25.0
"""Below the minute after which many programs give up on a tool."""


class Inbox(Arguments, frozen=True):
    cursor: Annotated[int, Meta(ge=0, description="of your last result: confirms that you saw it")] | None = None
    channel: Channel | None = None
    topic: Topic | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 20
    detail: Detail = "short"


class Wait(Inbox, frozen=True):
    seconds: Annotated[float, Meta(gt=0)] = WAIT_SECONDS_DEFAULT


class _Place(NamedTuple):
    """The part of the log that is looked at; both empty for all of it."""

    channels: tuple[str, ...]
    topics: tuple[str, ...]


@dataclass(slots=True)
class _Found:
    """What a look through the log has found, in its order, and up to which event it has looked."""

    cursor: int
    messages: dict[str, Message] = field(default_factory=dict[str, Message])
    event_ids: dict[str, int] = field(default_factory=dict[str, int])
    has_more: bool = False


class _HubLeft(Exception):
    """The hub that hosts this wait is stopping, and waits for nobody."""


async def inbox(desk: Desk, given: Inbox) -> Result:
    """What others have written since the cursor."""
    start = desk.link.start_of_news(given.cursor)
    found = await desk.link.call(lambda client: _look(client, desk, given, start))
    return _told(desk, given, found)


async def wait(desk: Desk, given: Wait) -> Result:
    """The same as soon as there is something, or nothing after so many seconds."""
    start = desk.link.start_of_news(given.cursor)
    found = await desk.link.call(lambda client: _look(client, desk, given, start))
    if not found.messages and not found.has_more:
        after = found.cursor
        await desk.link.call(lambda client: _until_news(client, desk, given, after))
        found = await desk.link.call(lambda client: _look(client, desk, given, after))
    return _told(desk, given, found)


TOOLS = (
    Tool("inbox", "What others posted since your cursor. Looking consumes nothing.", Inbox, inbox),
    Tool("wait", "Like inbox, but waits until there is something.", Wait, wait),
)


async def _look(client: AsyncClient, desk: Desk, given: Inbox, start: int | None) -> _Found:
    place = await _place(client, given)
    filters: dict[str, Any] = place._asdict()
    newest = (await client.read_events(tail=1)).replay_until
    if start is None or start > newest:  # the first time, or a cursor of another log
        page = await client.read_events(tail=PAGE_EVENTS, **filters)
        found = _Found(newest)
        for event in page.events:
            _take(desk, event.event_id, event.name, event.data_json, found)
        _keep_newest(found, given.limit)
        return found
    found = _Found(start)
    for _ in range(PAGES_MAX):
        page = await client.read_events(found.cursor, limit=PAGE_EVENTS, **filters)
        for event in page.events:
            _take(desk, event.event_id, event.name, event.data_json, found)
        found.cursor = page.replay_until if page.cursor is None else page.cursor
        found.has_more = page.has_more
        if not page.has_more or len(found.messages) > given.limit:
            break
    return found


async def _until_news(client: AsyncClient, desk: Desk, given: Wait, after: int) -> None:
    """Returns when the log goes on with something that the inbox tells of, or when the time is over."""

    def leave_with_the_hub(change: StateChange) -> None:
        if desk.hosted_by_hub and change.name != "connected":
            raise _HubLeft

    await client.health()  # a feed waits for a hub for ever; here a missing one is to be started, or told
    place = await _place(client, given)
    seen = _Found(after)
    seconds = min(given.seconds, desk.wait_seconds_max)
    feed = client.events(
        after, channels=place.channels or None, topics=place.topics or None, on_state=leave_with_the_hub
    )
    async with feed:
        try:
            async with asyncio.timeout(seconds):
                async for event in feed:
                    _take(desk, event.event_id, event.name, event.data, seen)
                    if seen.messages:
                        return
        except (TimeoutError, _HubLeft):
            return


async def _place(client: AsyncClient, given: Inbox) -> _Place:
    channels = () if given.channel is None else ((await channel_named(client, given.channel)).id,)
    topics = () if given.topic is None else ((await client.get_topic(given.topic)).topic.id,)
    return _Place(channels, topics)


def _take(desk: Desk, event_id: int, name: str, data: dict[str, Any], found: _Found) -> None:
    """Notes what an event changes of what is new: a message of somebody else, or a later word about one."""
    try:
        payload = decode_payload(name, data)
    except ValidationError:
        return  # a newer hub may say more than this version understands
    match payload:
        case MessageCreated(message) if message.sender != desk.agent:
            found.messages[message.id] = message
            found.event_ids[message.id] = event_id
        case MessageEdited(message_id, _, content, version) if message_id in found.messages:
            found.messages[message_id] = structs.replace(
                found.messages[message_id], content_raw=content, version=version
            )
        case MessageDeleted(message_id) if message_id in found.messages:
            del found.messages[message_id], found.event_ids[message_id]
        case _:
            pass


def _keep_newest(found: _Found, limit: int) -> None:
    for message_id in list(found.messages)[:-limit]:
        del found.messages[message_id], found.event_ids[message_id]


def _told(desk: Desk, given: Inbox, found: _Found) -> Result:
    ids = list(found.messages)
    entries = [message_entry(desk, found.messages[each], given.detail) for each in ids[: given.limit]]

    def ending(taken: int) -> dict[str, object]:
        if taken == len(ids):
            return {"has_more": found.has_more, "cursor": found.cursor}
        return {"has_more": True, "cursor": found.event_ids[ids[taken]] - 1}

    head = Entry({"new": len(entries)}, f"{len(entries)} new" if entries else "Nothing new")
    return listing("messages", entries, head=head, bytes_max=desk.result_bytes_max, ending=ending)
