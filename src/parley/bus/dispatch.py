"""What becomes of a message after it was admitted: it goes to whoever handles its topic, now or later.

What nobody handles yet waits in the inbox until somebody registers, also across a restart. Requests and what is
published are apart: each topic has one consumer for either.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final, Literal

from parley.bus.consumer import Arrival, AskedConsumer, Consumer, HandlerConsumer, Shared, TopicQueue
from parley.bus.fingerprint import Fingerprint
from parley.bus.inbox_entry import read_entry
from parley.bus.mesh_store import MeshStore, Undispatched
from parley.bus.message import Publish, Reply, Request
from parley.bus.trust import Trust
from parley.core.backoff import Jitter
from parley.core.bus_errors import BusError
from parley.core.errors import InvalidInput

_log: Final = logging.getLogger(__name__)
_PAGE: Final = 100

Kind = Literal["request", "publish"]


class Dispatcher:
    """The consumers of one bus, by kind and topic."""

    def __init__(self, store: MeshStore, trust: Trust, jitter: Jitter = random.random) -> None:
        self._store = store
        self._trust = trust
        self._shared = Shared(store, self._claim, jitter)
        self._queues: dict[tuple[Kind, str], TopicQueue] = {}

    async def load(self) -> None:
        """Takes up what was left undispatched. A reply is given up: whoever waited for it is gone."""
        after = 0
        while page := await self._store.undispatched(after=after, limit=_PAGE):
            for each in page:
                await self._take_up(each)
            after = page[-1].id

    def topics(self, kind: Kind) -> set[str]:
        """Those that have a consumer."""
        return {topic for (its, topic), queue in self._queues.items() if its == kind and queue.consumer is not None}

    def has_consumer(self, kind: Kind, topic: str) -> bool:
        """Whether somebody handles the topic."""
        queue = self._queues.get((kind, topic))
        return queue is not None and queue.consumer is not None

    def queue(self, message: Request | Publish) -> TopicQueue:
        """The queue that the message belongs to."""
        return self._queue("request" if isinstance(message, Request) else "publish", message.topic)

    def handle(self, kind: Kind, topic: str, handler: Callable[[Arrival], Awaitable[None]], most: int) -> Consumer:
        """Has a handler called for each message. Raises ``InvalidInput`` if the topic is taken."""
        queue = self._free_queue(kind, topic)
        queue.consumer = consumer = HandlerConsumer(queue, self._shared, handler, most)
        consumer.wake()
        return consumer

    def ask(self, topic: str) -> AskedConsumer:
        """A consumer of what is published that is asked for each message. Raises ``InvalidInput`` as ``handle``."""
        queue = self._free_queue("publish", topic)
        queue.consumer = consumer = AskedConsumer(queue, self._shared)
        return consumer

    async def take_up(self, inbox_id: int) -> None:
        """Has a message that was unwedged handed out again."""
        for kept in await self._store.undispatched(after=inbox_id - 1, limit=1):
            if kept.id == inbox_id:
                await self._take_up(kept)

    async def close(self, seconds: float) -> None:
        """Hands out nothing more, and waits for what is in hand."""
        consumers = [queue.consumer for queue in self._queues.values() if queue.consumer is not None]
        for queue in self._queues.values():
            queue.consumer = None
        await asyncio.gather(*(consumer.finish(seconds) for consumer in consumers))

    def _queue(self, kind: Kind, topic: str) -> TopicQueue:
        return self._queues.setdefault((kind, topic), TopicQueue())

    def _free_queue(self, kind: Kind, topic: str) -> TopicQueue:
        queue = self._queue(kind, topic)
        if queue.consumer is not None:
            raise InvalidInput(f"the topic {topic!r} has a handler or a subscription already", field="topic")
        return queue

    async def _take_up(self, kept: Undispatched) -> None:
        if kept.wedged:
            return
        try:
            message = read_entry(kept.payload, kept.message_id, self._trust)
        except BusError as error:
            _log.error("message %d of the inbox cannot be read: %s", kept.id, error)
            return
        if isinstance(message, Reply):
            await self._store.dispatched(kept.id)
        else:
            self.queue(message).hold(kept.id)

    async def _claim(self, inbox_id: int) -> Arrival | None:
        kept = await self._store.start_dispatch(inbox_id)
        if kept is None:
            return None
        if kept.wedged:
            _log.error("message %d of the inbox was tried too often and is wedged", inbox_id)
            return None
        message = read_entry(kept.payload, kept.message_id, self._trust)
        assert not isinstance(message, Reply)
        return Arrival(inbox_id, Fingerprint(kept.peer), kept.message_id, message, kept.admitted_at, kept.dispatches)
