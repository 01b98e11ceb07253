"""Finding channels and topics by what an agent calls them."""

from parley.client import AsyncClient
from parley.core.errors import InvalidInput, NotFound
from parley.core.limits import PAGE_LIMIT_MAX
from parley.mcp.link import key_of_part
from parley.wire.entities import Channel, channel_meant


async def channel_named(client: AsyncClient, name: str) -> Channel:
    """The channel with this name or id. Raises ``NotFound``."""
    found = await _find_channel(client, name)
    if found is None:
        raise NotFound("Channel not found", channel=name)
    return found


async def channel_made(client: AsyncClient, name: str, key: str) -> Channel:
    """The channel with this name or id, made if it is missing; somebody else may do so in the same moment."""
    found = await _find_channel(client, name)
    if found is not None:
        return found
    try:
        return (await client.create_channel(name, idempotency_key=key_of_part(key, "channel"))).channel
    except InvalidInput:
        found = await _find_channel(client, name)
        if found is None:
            raise
        return found


async def topic_named(client: AsyncClient, channel_name: str, title: str, key: str) -> str:
    """The id of the topic with this title; the channel and the topic are made if they are missing."""
    channel = await channel_made(client, channel_name, key)
    found = await _find_topic(client, channel.id, title)
    if found is not None:
        return found
    try:
        return (await client.create_topic(channel.id, title, idempotency_key=key_of_part(key, "topic"))).topic.id
    except InvalidInput:
        found = await _find_topic(client, channel.id, title)
        if found is None:
            raise
        return found


async def _find_channel(client: AsyncClient, name: str) -> Channel | None:
    return channel_meant((await client.list_channels()).channels, name)


async def _find_topic(client: AsyncClient, channel_id: str, title: str) -> str | None:
    cursor: str | None = None
    while True:
        page = await client.list_topics(channel_id, limit=PAGE_LIMIT_MAX, cursor=cursor)
        found = next((each.id for each in page.topics if each.title == title), None)
        cursor = page.cursor
        if found is not None or cursor is None:
            return found
