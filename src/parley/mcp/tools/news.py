"""What is new: since a cursor at once, or as soon as there is something.

Both look at the same log with the same eyes, so what a wait ends with is what the inbox would have told. Looking
changes nothing. Only a cursor that the agent hands in says that it has seen what came before, and is kept for the next
time that it asks without one.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple

from msgspec import Meta, ValidationError, structs

from parley.client import (
    AsyncClient,
    LeaseExpired,
    LeaseReleased,
    MessageCreated,
    MessageDeleted,
    MessageEdited,
    StateChange,
    TaskCancelled,
    TaskCompleted,
    TaskCreated,
    TaskExpired,
    TaskReleased,
    TaskTakenOver,
)
from parley.mcp.context import AgentContext
from parley.mcp.results import Entry, Result, listing
from parley.mcp.toolbox import Arguments, Channel, Detail, Tool, Topic
from parley.mcp.tools.entries import lease_entry, message_entry, task_entry
from parley.mcp.tools.places import channel_named
from parley.wire.entities import Lease, Message, Task
from parley.wire.events import decode_payload

PAGE_EVENTS: Final = 500
PAGES_MAX: Final = 20
"""One look goes through at most so many pages of events; what is left is told as more, so no look takes long."""
MESSAGE: Final = "message.created"
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


class _Item(NamedTuple):
    """One thing that is new, as it was after the newest event about it."""

    event_id: int
    event: str
    about: Message | Task | Lease


@dataclass(slots=True)
class _Found:
    """What a look through the log has found, in its order, and up to which event it has looked."""

    cursor: int
    items: dict[str, _Item] = field(default_factory=dict[str, _Item])
    has_more: bool = False


class _HubLeft(Exception):
    """The hub that hosts this wait is stopping, and waits for nobody."""


async def inbox(context: AgentContext, given: Inbox) -> Result:
    """What others have written since the cursor."""
    start = await asyncio.to_thread(context.link.start_of_news, given.cursor)
    found = await context.link.call(lambda client: _look(client, context, given, start))
    return _told(context, given, found)


async def wait(context: AgentContext, given: Wait) -> Result:
    """The same as soon as there is something, or nothing after so many seconds."""
    start = await asyncio.to_thread(context.link.start_of_news, given.cursor)
    found = await context.link.call(lambda client: _look(client, context, given, start))
    if not found.items and not found.has_more:
        after = found.cursor
        await context.link.call(lambda client: _until_news(client, context, given, after))
        found = await context.link.call(lambda client: _look(client, context, given, after))
    return _told(context, given, found)


TOOLS = (
    Tool(
        "inbox",
        "What is new for you since your cursor: posts, tasks, lost claims. Looking consumes nothing.",
        Inbox,
        inbox,
    ),
    Tool("wait", "Like inbox, but waits until there is something.", Wait, wait),
)


async def _look(client: AsyncClient, context: AgentContext, given: Inbox, start: int | None) -> _Found:
    place = await _place(client, given)
    filters: dict[str, Any] = place._asdict()
    newest = (await client.read_events(tail=1)).replay_until
    if start is None or start > newest:  # the first time, or a cursor of another log
        page = await client.read_events(tail=PAGE_EVENTS, **filters)
        found = _Found(newest)
        for event in page.events:
            _take(context, event.event_id, event.name, event.data_json, found)
        _keep_newest(found, given.limit)
        return found
    found = _Found(start)
    for _ in range(PAGES_MAX):
        page = await client.read_events(found.cursor, limit=PAGE_EVENTS, **filters)
        for event in page.events:
            _take(context, event.event_id, event.name, event.data_json, found)
        found.cursor = page.replay_until if page.cursor is None else page.cursor
        found.has_more = page.has_more
        if not page.has_more or len(found.items) > given.limit:
            break
    return found


async def _until_news(client: AsyncClient, context: AgentContext, given: Wait, after: int) -> None:
    """Returns when the log goes on with something that the inbox tells of, or when the time is over."""

    def leave_with_the_hub(change: StateChange) -> None:
        if context.hosted_by_hub and change.name != "connected":
            raise _HubLeft

    await client.health()  # a feed waits for a hub for ever; here a missing one is to be started, or told
    place = await _place(client, given)
    seen = _Found(after)
    seconds = min(given.seconds, context.wait_seconds_max)
    feed = client.events(
        after, channels=place.channels or None, topics=place.topics or None, on_state=leave_with_the_hub
    )
    async with feed:
        try:
            async with asyncio.timeout(seconds):
                async for event in feed:
                    _take(context, event.event_id, event.name, event.data, seen)
                    if seen.items:
                        return
        except (TimeoutError, _HubLeft):
            return


async def _place(client: AsyncClient, given: Inbox) -> _Place:
    channels = () if given.channel is None else ((await channel_named(client, given.channel)).id,)
    topics = () if given.topic is None else ((await client.get_topic(given.topic)).topic.id,)
    return _Place(channels, topics)


def _take(context: AgentContext, event_id: int, name: str, data: dict[str, Any], found: _Found) -> None:
    """Notes what an event changes of what is new for this agent."""
    try:
        payload = decode_payload(name, data)
    except ValidationError:
        return  # a newer hub may say more than this version understands
    if isinstance(payload, MessageEdited | MessageDeleted):
        _correct(payload, found)
    elif (about := _news_in(payload, context.agent)) is not None:
        found.items.pop(about.id, None)
        found.items[about.id] = _Item(event_id, name, about)


def _news_in(payload: Any, me: str) -> Message | Task | Lease | None:
    """What an event tells this agent: words and tasks of others, the end of what it asked for, the loss of what it had.

    Who claims what is no news; ``tasks`` and ``who`` tell it.
    """
    match payload:
        case MessageCreated(message):
            return message if message.sender != me else None
        case TaskCreated(task, actor):
            return task if actor != me else None
        case TaskCompleted(task, actor):
            return task if me == task.created_by != actor else None
        case TaskCancelled(task, actor, _, previous_holder):
            return task if actor != me and me in (task.created_by, previous_holder) else None
        case TaskReleased(task, actor, _, previous_holder) | TaskTakenOver(task, actor, _, previous_holder):
            return task if me == previous_holder != actor else None
        case TaskExpired(task, previous_holder):
            return task if me == previous_holder else None
        case LeaseReleased(lease, actor):
            return lease if me == lease.holder != actor else None
        case LeaseExpired(lease):
            return lease if me == lease.holder else None
        case _:
            return None


def _correct(payload: MessageEdited | MessageDeleted, found: _Found) -> None:
    """A later word about a message that is new: it is told as it is now, or not at all."""
    item = found.items.get(payload.message_id)
    if item is None or not isinstance(item.about, Message):
        return
    if isinstance(payload, MessageDeleted):
        del found.items[payload.message_id]
        return
    message = structs.replace(item.about, content_raw=payload.new_content, version=payload.version)
    found.items[payload.message_id] = item._replace(about=message)


def _keep_newest(found: _Found, limit: int) -> None:
    for key in list(found.items)[:-limit]:
        del found.items[key]


def _entry(context: AgentContext, item: _Item, detail: str) -> Entry:
    match item.about:
        case Message() as message:
            row = message_entry(context, message, detail)
        case Task() as task:
            row = task_entry(context, task, detail)
        case Lease() as lease:
            row = lease_entry(context, lease)
    return Entry({"event": item.event, **row.data}, row.text if item.event == MESSAGE else f"{item.event} {row.text}")


def _told(context: AgentContext, given: Inbox, found: _Found) -> Result:
    items = list(found.items.values())
    entries = [_entry(context, item, given.detail) for item in items[: given.limit]]

    def ending(taken: int) -> dict[str, object]:
        if taken == len(items):
            return {"has_more": found.has_more, "cursor": found.cursor}
        return {"has_more": True, "cursor": items[taken].event_id - 1}

    head = Entry({}, f"{len(entries)} new" if entries else "Nothing new")
    return listing("news", entries, head=head, bytes_max=context.result_bytes_max, ending=ending)
