"""The feed: who gets which event, and what becomes of a reader that is slow.

``Subscriber`` is the state machine of one connection, with no socket in it. It is told what happens (hello, a batch was
read, events were published, the socket filled up or drained) and asks its ``Outlet`` for what it needs::

    greeting ──hello──▶ replaying ──caught up──▶ live
                            ▲                      │ more than queue_max events behind
                            └──── drained ── behind ◀

Replay is complete whatever its length: the next batch is read only when the socket has taken the last one. A live
subscriber whose socket is full keeps a bounded number of events; beyond it they are dropped, because the log has them,
and the subscriber goes back to replay from the last event it was sent. So a slow reader costs only itself.

``Feed`` publishes what was committed, in order, on the event loop. Subscribers with the same filter form a group: the
frames of a commit are joined once per group, and the same bytes go to every socket in it.
"""

from collections import deque
from collections.abc import Iterable
from typing import Literal, Protocol

import msgspec

from parley.hub.replay import Batch, Filter
from parley.serve.websocket import text_frame
from parley.wire.events import ChannelCreated
from parley.workspace.log import StoredEvent

_decode_channel = msgspec.json.Decoder(ChannelCreated).decode
Phase = Literal["greeting", "replaying", "live", "behind", "closed"]


class Outlet(Protocol):
    """What a subscriber needs from its connection."""

    def write(self, data: bytes) -> None:
        """Sends frames. May call ``Subscriber.filled`` before it returns."""
        ...

    def read(self, after: int, until: int, wanted: Filter | None) -> None:
        """Starts reading a batch; its result comes back through ``Subscriber.batch_read``."""
        ...


class Subscriber:
    """One reader of the log."""

    __slots__ = ("_feed", "_full", "_outlet", "_reading", "_waiting", "_waiting_count", "cursor", "phase", "wanted")

    def __init__(self, feed: "Feed", outlet: Outlet) -> None:
        self.phase: Phase = "greeting"
        self.cursor = 0
        """The last event that was sent, or passed over because it does not match."""
        self.wanted: Filter | None = None
        self._feed = feed
        self._outlet = outlet
        self._full = False
        self._reading = False
        self._waiting: deque[bytes] = deque()
        self._waiting_count = 0

    def subscribe(self, after: int, wanted: Filter | None) -> None:
        """Starts the replay after a cursor; what follows comes by itself. A cursor beyond the log means its end."""
        self.cursor, self.wanted, self.phase = min(after, self._feed.latest), wanted, "replaying"
        self._feed.join(self)
        self._go_on()

    def batch_read(self, batch: Batch) -> None:
        """A batch that was asked for is here."""
        self._reading = False
        if self.phase != "replaying":
            return
        self.cursor = batch.cursor
        if batch.events:
            self._feed.delivered += batch.events
            self._outlet.write(batch.data)
        self._go_on()

    def published(self, data: bytes, count: int, last_event_id: int) -> None:
        """Frames of a commit that this subscriber wants."""
        if self.phase != "live":
            return  # the log will be read up to here
        if not self._full:
            self.cursor = last_event_id
            self._feed.delivered += count
            self._outlet.write(data)
            return
        self._waiting.append(data)
        self._waiting_count += count
        if self._waiting_count > self._feed.queue_max:
            self._waiting.clear()
            self._waiting_count = 0
            self.phase = "behind"

    def filled(self) -> None:
        """The socket takes no more for now."""
        self._full = True

    def drained(self) -> None:
        """The socket takes data again."""
        self._full = False
        if self.phase == "behind":
            self.phase = "replaying"
            self._go_on()
        elif self.phase == "replaying":
            self._go_on()
        elif self._waiting:
            data, count = b"".join(self._waiting), self._waiting_count
            self._waiting.clear()
            self._waiting_count = 0
            self.cursor = self._feed.latest
            self._feed.delivered += count
            self._outlet.write(data)

    def closed(self) -> None:
        """The connection is gone."""
        if self.phase not in ("greeting", "closed"):
            self._feed.leave(self)
        self.phase = "closed"
        self._waiting.clear()

    def _go_on(self) -> None:
        if self._full or self._reading:
            return
        if self.cursor < self._feed.latest:
            self._reading = True
            self._outlet.read(self.cursor, self._feed.latest, self.wanted)
        else:
            self.phase = "live"


class Feed:
    """All subscribers of a hub. Everything here happens on the event loop."""

    def __init__(self, latest: int, queue_max: int) -> None:
        self.latest = latest
        """The newest event that was published."""
        self.queue_max = queue_max
        self.delivered = 0
        self._groups: dict[Filter | None, set[Subscriber]] = {}

    def publish(self, events: list[StoredEvent]) -> None:
        """Sends the events of one commit to whoever wants them."""
        if not events:
            return
        self.latest = events[-1].event_id
        if not self._groups:
            return
        for event in events:
            if event.draft.name == "channel.created":
                self._learn_name(event)
        frames = [text_frame(event.frame_text()) for event in events]
        for wanted, subscribers in list(self._groups.items()):
            chosen = frames if wanted is None else _select(events, frames, wanted)
            if chosen:
                data, count = b"".join(chosen), len(chosen)
                for subscriber in list(subscribers):
                    subscriber.published(data, count, self.latest)

    def join(self, subscriber: Subscriber) -> None:
        self._groups.setdefault(subscriber.wanted, set()).add(subscriber)

    def leave(self, subscriber: Subscriber) -> None:
        group = self._groups.get(subscriber.wanted, set())
        group.discard(subscriber)
        if not group:
            self._groups.pop(subscriber.wanted, None)

    def _learn_name(self, event: StoredEvent) -> None:
        """A subscription by name begins to match when a channel of that name is created."""
        channel = _decode_channel(event.data_json).channel
        for wanted, subscribers in list(self._groups.items()):
            if wanted is not None and channel.name in wanted.names:
                del self._groups[wanted]
                for subscriber in subscribers:
                    subscriber.wanted = wanted._replace(
                        channels=wanted.channels | {channel.id}, names=wanted.names - {channel.name}
                    )
                    self.join(subscriber)

    def backlog(self) -> int:
        """How many events the slowest subscriber has not been sent."""
        return max((self.latest - subscriber.cursor for subscriber in self._behind()), default=0)

    def _behind(self) -> Iterable[Subscriber]:
        return (subscriber for group in self._groups.values() for subscriber in group if subscriber.phase != "live")


def _select(events: list[StoredEvent], frames: list[bytes], wanted: Filter) -> list[bytes]:
    return [
        data
        for event, data in zip(events, frames, strict=True)
        if wanted.matches(event.draft.channel_id, event.draft.topic_id, event.draft.topic_id2)
    ]
