"""Posting, reading and searching."""

from typing import Annotated

from msgspec import Meta

from parley.client import AsyncClient
from parley.core.errors import InvalidInput
from parley.mcp.context import AgentContext
from parley.mcp.link import new_key
from parley.mcp.results import Entry, Result, done, listing
from parley.mcp.toolbox import Arguments, Channel, Detail, Key, Tool, Topic
from parley.mcp.tools.entries import channel_entry, cursor_before, message_entry, rest_of, topic_entry
from parley.mcp.tools.places import channel_named, topic_named
from parley.mcp.untrusted_text import quoted
from parley.wire.paging import parse_cursor

Limit = Annotated[int, Meta(ge=1, le=200)]


class Post(Arguments, frozen=True):
    content: str
    topic: Topic | None = None
    channel: Annotated[str, Meta(description="name; made if missing")] | None = None
    title: Annotated[str, Meta(description="topic in the channel; made if missing")] | None = None
    reply_to: Annotated[str, Meta(description="message id")] | None = None
    idempotency_key: Key = None


async def post(context: AgentContext, given: Post) -> Result:
    key = given.idempotency_key or new_key()
    topic_id = given.topic or await _topic_for(context, given, key)

    async def send(client: AsyncClient) -> Result:
        sent = await client.send_message(
            topic_id, given.content, context.agent, reply_to=given.reply_to, idempotency_key=key
        )
        message = sent.message
        return done(
            {
                "message_id": message.id,
                "topic_id": message.topic_id,
                "event_id": sent.event_id,
                "duplicate": sent.duplicate,
                "idempotency_key": key,
            }
        )

    return await context.link.call(send)


class Read(Arguments, frozen=True):
    topic: Topic | None = None
    channel: Annotated[str, Meta(description="lists its topics; with neither, channels are listed")] | None = None
    message: Annotated[str, Meta(description="message id: this one in full")] | None = None
    cursor: str | None = None
    limit: Limit = 20
    detail: Detail = "full"


async def read(context: AgentContext, given: Read) -> Result:
    inside = None if given.cursor is None else rest_of(given.cursor)
    if inside is not None:
        return await _one_message(context, *inside)
    if given.message is not None:
        return await _one_message(context, given.message, 0)
    if given.topic is not None:
        return await _topic(context, given.topic, given)
    if given.channel is not None:
        return await _channel(context, given.channel, given)
    return await _channels(context, given)


class Search(Arguments, frozen=True):
    query: Annotated[str, Meta(description='words, "phrases", OR, NOT')]
    channel: Channel | None = None
    topic: Topic | None = None
    cursor: str | None = None
    limit: Limit = 10
    detail: Detail = "short"


async def search(context: AgentContext, given: Search) -> Result:
    start = _offset(given.cursor)

    async def find(client: AsyncClient) -> Result:
        hits = await client.search(
            given.query, channel=given.channel, topic_id=given.topic, limit=given.limit, cursor=given.cursor
        )
        entries = [message_entry(context, message, given.detail) for message in hits.messages]

        def ending(taken: int) -> dict[str, object]:
            more = hits.has_more or taken < len(entries)
            return {"has_more": more, "cursor": f"o.{start + taken}" if more else None}

        head = Entry({}, f"{len(entries)} found")
        return listing("messages", entries, head=head, bytes_max=context.result_bytes_max, ending=ending)

    return await context.link.call(find)


TOOLS = (
    Tool(
        "post",
        "Post a message to a topic (id), to channel+title, or as reply_to a message.",
        Post,
        post,
        writes=True,
    ),
    Tool("read", "Read a topic, newest page first, oldest message on top; or list topics or channels.", Read, read),
    Tool("search", "Find messages by text. Search before you start work.", Search, search),
)


async def _topic_for(context: AgentContext, given: Post, key: str) -> str:
    """The topic that a post without an id goes to; the channel and the topic are made if they are missing."""
    if given.reply_to is not None and given.title is None:
        reply_to = given.reply_to
        return (await context.link.call(lambda client: client.get_message(reply_to))).message.topic_id
    if given.channel is None or given.title is None:
        raise InvalidInput("Give topic, or channel and title, or reply_to", field="topic")
    name, title = given.channel, given.title
    return await context.link.call(lambda client: topic_named(client, name, title, key))


async def _one_message(context: AgentContext, message_id: str, from_char: int) -> Result:
    message = (await context.link.call(lambda client: client.get_message(message_id))).message
    entry = message_entry(context, message, "full", from_char)
    return listing(
        "messages",
        [entry],
        head=Entry({}, ""),
        bytes_max=context.result_bytes_max,
        ending=lambda taken: {"has_more": False},
    )


async def _topic(context: AgentContext, topic_id: str, given: Read) -> Result:
    before_id = parse_cursor(given.cursor, "messages").before_id

    async def page(client: AsyncClient) -> Result:
        topic = (await client.get_topic(topic_id)).topic
        found = await client.page_messages(topic_id=topic.id, limit=given.limit, before_id=before_id)
        entries = [message_entry(context, message, given.detail) for message in found.messages]

        def ending(taken: int) -> dict[str, object]:
            more = found.has_more or taken < len(entries)
            return {"has_more": more, "cursor": cursor_before(found.messages, taken) if more and taken else None}

        data = {"topic_id": topic.id, "title": topic.title, "channel_id": topic.channel_id}
        head = Entry(data, f"Topic {topic.id} {quoted(topic.title)} in channel {topic.channel_id}")
        return listing(
            "messages", entries, head=head, bytes_max=context.result_bytes_max, ending=ending, newest_first=True
        )

    return await context.link.call(page)


async def _channel(context: AgentContext, name: str, given: Read) -> Result:
    start = _offset(given.cursor)

    async def page(client: AsyncClient) -> Result:
        channel = await channel_named(client, name)
        found = await client.list_topics(channel.id, limit=given.limit, offset=start)
        entries = [topic_entry(topic) for topic in found.topics]

        def ending(taken: int) -> dict[str, object]:
            more = found.has_more or taken < len(entries)
            return {"has_more": more, "cursor": f"o.{start + taken}" if more else None}

        head = Entry({"channel_id": channel.id, "name": channel.name}, f"Topics of {quoted(channel.name)} {channel.id}")
        return listing("topics", entries, head=head, bytes_max=context.result_bytes_max, ending=ending)

    return await context.link.call(page)


async def _channels(context: AgentContext, given: Read) -> Result:
    start = _offset(given.cursor)
    channels = (await context.link.call(lambda client: client.list_channels())).channels
    entries = [channel_entry(channel) for channel in channels[start:]]

    def ending(taken: int) -> dict[str, object]:
        more = taken < len(entries)
        return {"has_more": more, "cursor": f"o.{start + taken}" if more else None}

    head = Entry({}, f"{len(channels)} channels")
    return listing("channels", entries, head=head, bytes_max=context.result_bytes_max, ending=ending)


def _offset(cursor: str | None) -> int:
    return parse_cursor(cursor, "rows").offset or 0
