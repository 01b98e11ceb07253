"""Channels and topics: create and rename."""

import apsw

from parley.core import ids
from parley.core.errors import InvalidInput, NotFound
from parley.hub.rules.idempotency import Once, earlier, remember
from parley.hub.transaction import Tx
from parley.wire.answers import ChannelResult, TopicResult
from parley.wire.entities import Channel, Topic
from parley.wire.requests import CreateChannel, CreateTopic, RenameTopic
from parley.workspace import queries
from parley.workspace.log import Draft


def create_channel(tx: Tx, request: CreateChannel, once: Once | None = None) -> ChannelResult:
    """Makes a channel. Names are unique, and none looks like an id, since channels are found by either."""
    if (before := earlier(tx, once)) is not None:
        return ChannelResult(_channel(tx, before.entity_id), before.event_id or 0, duplicate=True)
    if ids.is_channel_id(request.name):
        raise InvalidInput("A channel's name must not have the form of a channel's id", field="name")
    if queries.find_channel(tx.db, request.name) is not None:
        raise InvalidInput("Channel name already exists", field="name")
    channel = Channel(tx.new_id(ids.CHANNEL), request.name, request.description, tx.ts)
    tx.db.execute(
        "INSERT INTO channels (id, name, description, created_at) VALUES (?, ?, ?, ?)",
        (channel.id, channel.name, channel.description, channel.created_at),
    )
    event_id = tx.append(Draft("channel.created", channel.id, {"channel": channel}, channel_id=channel.id))
    remember(tx, once, "channel.create", channel.id, event_id)
    return ChannelResult(channel, event_id)


def create_topic(tx: Tx, request: CreateTopic, once: Once | None = None) -> TopicResult:
    """Makes a topic. Titles are unique within a channel."""
    if (before := earlier(tx, once)) is not None:
        return TopicResult(topic_of(tx.db, before.entity_id), before.event_id or 0, duplicate=True)
    _channel(tx, request.channel_id)
    _refuse_taken_title(tx, request.channel_id, request.title)
    topic = Topic(tx.new_id(ids.TOPIC), request.channel_id, request.title, tx.ts, tx.ts)
    tx.db.execute(
        "INSERT INTO topics (id, channel_id, title, created_at, updated_at) VALUES (?, ?, ?, ?, ?)",
        (topic.id, topic.channel_id, topic.title, topic.created_at, topic.updated_at),
    )
    event_id = tx.append(
        Draft("topic.created", topic.id, {"topic": topic}, channel_id=topic.channel_id, topic_id=topic.id)
    )
    remember(tx, once, "topic.create", topic.id, event_id)
    return TopicResult(topic, event_id)


def rename_topic(tx: Tx, topic_id: str, request: RenameTopic, once: Once | None = None) -> TopicResult:
    """Gives a topic another title. Its messages are not touched."""
    if (before := earlier(tx, once)) is not None:
        return TopicResult(topic_of(tx.db, before.entity_id), before.event_id or 0, duplicate=True)
    old = topic_of(tx.db, topic_id)
    topic_id = old.id
    if request.title != old.title:
        _refuse_taken_title(tx, old.channel_id, request.title)
    tx.db.execute("UPDATE topics SET title = ?, updated_at = ? WHERE id = ?", (request.title, tx.ts, topic_id))
    event_id = tx.append(
        Draft(
            "topic.renamed",
            topic_id,
            {"topic_id": topic_id, "old_title": old.title, "new_title": request.title},
            channel_id=old.channel_id,
            topic_id=topic_id,
        )
    )
    remember(tx, once, "topic.rename", topic_id, event_id)
    return TopicResult(topic_of(tx.db, topic_id), event_id)


def topic_of(db: apsw.Connection, topic_id: str) -> Topic:
    """The topic, by its id or that of its task. Raises ``NotFound``."""
    topic = queries.get_topic(db, topic_id)
    if topic is None:
        raise NotFound(f"Topic not found: {topic_id}", topic_id=topic_id)
    return topic


def _channel(tx: Tx, channel_id: str) -> Channel:
    channel = queries.get_channel(tx.db, channel_id)
    if channel is None:
        raise NotFound("Channel not found", channel_id=channel_id)
    return channel


def _refuse_taken_title(tx: Tx, channel_id: str, title: str) -> None:
    if tx.db.execute("SELECT 1 FROM topics WHERE channel_id = ? AND title = ?", (channel_id, title)).fetchone():
        raise InvalidInput("Topic title already exists in this channel", field="title")
