"""A log, a feed and subscribers without a database, a socket or a loop, driven step by step."""

import json
from collections.abc import Collection
from typing import Any

from parley.hub.feed import Feed, Subscriber
from parley.hub.replay import Batch, Filter
from parley.serve.websocket import text_frame
from parley.wire.entities import Channel
from parley.workspace.log import Draft, StoredEvent, encode_json
from tests.hub.feed.frames import split_frames

TS = "2026-01-01T00:00:00.000Z"


class Reader:
    """One subscriber and the connection it believes to have. Reads are answered, and the socket fills, on command."""

    def __init__(self, world: "World", after: int, channels: Collection[str] | None, topics: Collection[str]) -> None:
        self.world = world
        self.start = min(after, world.feed.latest)
        self.channels, self.topics = channels, topics
        self.received: list[int] = []
        self.asked: tuple[int, int, Filter | None] | None = None
        self.writes_until_full: int | None = None
        self.subscriber = Subscriber(world.feed, self)
        self.subscriber.subscribe(after, world.resolve(channels, topics))

    def write(self, data: bytes) -> None:
        self.received += [json.loads(each.payload)["event_id"] for each in split_frames(data)]
        if self.writes_until_full is not None:
            self.writes_until_full -= 1
            if self.writes_until_full <= 0:
                self.fill()

    def read(self, after: int, until: int, wanted: Filter | None) -> None:
        assert self.asked is None, "one read at a time"
        self.asked = (after, until, wanted)

    def answer(self) -> None:
        """The read that was asked for, if any, comes back."""
        if self.asked is not None:
            asked, self.asked = self.asked, None
            self.subscriber.batch_read(self.world.batch(*asked))

    def fill(self) -> None:
        self.writes_until_full = None
        self.subscriber.filled()

    def drain(self) -> None:
        self.subscriber.drained()

    @property
    def waiting(self) -> int:
        """How many events are held in memory for it."""
        return sum(len(list(split_frames(data))) for data in self.subscriber._waiting)

    @property
    def expected(self) -> list[int]:
        """By definition: what was published after the start and matches, in order."""
        return [
            event.event_id
            for event in self.world.log
            if self.start < event.event_id <= self.world.feed.latest and self._wants(event)
        ]

    def _wants(self, event: StoredEvent) -> bool:
        if self.channels is None:
            return True
        draft = event.draft
        name = self.world.names.get(draft.channel_id or "")
        in_channel = draft.channel_id is not None and (draft.channel_id in self.channels or name in self.channels)
        return in_channel or any(topic in self.topics for topic in (draft.topic_id, draft.topic_id2) if topic)


class World:
    """The log as the database would hold it, and a feed that may be behind it: commits are published a moment later."""

    def __init__(self, queue_max: int, batch_max: int) -> None:
        self.log: list[StoredEvent] = []
        self.names: dict[str, str] = {}
        self.feed = Feed(0, queue_max)
        self.batch_max = batch_max
        self._unpublished: list[list[StoredEvent]] = []

    def channel(self, name: str) -> Draft:
        """A draft of a new channel with this name; its id follows from it."""
        channel_id = f"ch_{name}"
        self.names[channel_id] = name
        data = {"channel": Channel(channel_id, name, None, TS)}
        return Draft("channel.created", channel_id, data, channel_id=channel_id)

    def commit(self, drafts: list[Draft]) -> None:
        """Writes events in one transaction, which is not published yet."""
        events = [
            StoredEvent(len(self.log) + 1 + offset, TS, draft, encode_json(draft.data))
            for offset, draft in enumerate(drafts)
        ]
        self.log += events
        self._unpublished.append(events)

    def publish(self) -> None:
        """Publishes the oldest commit that was not published."""
        if self._unpublished:
            self.feed.publish(self._unpublished.pop(0))

    def resolve(self, channels: Collection[str] | None, topics: Collection[str]) -> Filter | None:
        """What a connection makes of a hello: names of channels that exist become ids."""
        if channels is None:
            return None
        committed = {event.draft.channel_id for event in self.log if event.draft.name == "channel.created"}
        ids = {name: channel_id for channel_id, name in self.names.items() if channel_id in committed}
        meant = {ids.get(channel, channel) for channel in channels}
        names = {channel for channel in meant if not channel.startswith("ch_")}
        return Filter(frozenset(meant - names), frozenset(topics), frozenset(names))

    def batch(self, after: int, until: int, wanted: Filter | None) -> Batch:
        """A read of the log, as ``read_batch`` would answer it."""
        chosen = [
            event
            for event in self.log
            if after < event.event_id <= until and (wanted is None or wanted.matches(*_scopes(event)))
        ][: self.batch_max]
        cursor = chosen[-1].event_id if len(chosen) == self.batch_max else until
        return Batch(b"".join(text_frame(event.frame_text()) for event in chosen), len(chosen), cursor)


def message(channel: str, topic: str) -> Draft:
    return Draft("message.created", "msg_1", {}, channel_id=f"ch_{channel}", topic_id=topic)


def move(channel: str, topic: str, to_topic: str) -> Draft:
    return Draft("message.moved_topic", "msg_1", {}, channel_id=f"ch_{channel}", topic_id=topic, topic_id2=to_topic)


def system() -> Draft:
    return Draft("plugin.failed", "plugin", {})


def _scopes(event: StoredEvent) -> tuple[Any, Any, Any]:
    return event.draft.channel_id, event.draft.topic_id, event.draft.topic_id2
