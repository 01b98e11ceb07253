"""Who handles the messages of one topic: a handler, as many at a time as it may, or somebody who asks for each.

A message that can be handled at once is counted as handed out together with its admission. Any other waits by its
number in the inbox until its turn, and is counted then. Messages are handed out in the order in which they were
admitted.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple

from parley.bus.fingerprint import Fingerprint
from parley.bus.mesh_store import MeshStore
from parley.bus.message import Publish, Request
from parley.core.backoff import Backoff, Jitter
from parley.core.bus_errors import BusError
from parley.core.errors import InvalidInput

_log: Final = logging.getLogger(__name__)
RETRY: Final = Backoff(first_ms=1_000, most_ms=60_000)
"""Waits before a message is handed out again to a handler that raised."""


class Arrival(NamedTuple):
    """A message that is about to be handled."""

    inbox_id: int
    peer: Fingerprint
    message_id: bytes
    message: Request | Publish
    admitted_at: int
    dispatches: int

    @property
    def redelivered(self) -> bool:
        """Whether a handler may have had it before."""
        return self.dispatches > 1


class Shared(NamedTuple):
    """What all consumers of a bus work with."""

    store: MeshStore
    claim: Callable[[int], Awaitable[Arrival | None]]
    """Counts that the message with this number is handed out, and reads it; None if it is gone or given up."""
    jitter: Jitter


class TopicQueue:
    """The messages of one topic that wait, and who takes them, if there is anybody."""

    def __init__(self) -> None:
        self.held: deque[int] = deque()
        self.consumer: Consumer | None = None
        self._entering = 0
        """Messages on their way into the store that will wait."""

    def reserve(self) -> "Consumer | None":
        """Who handles the next message as soon as it is admitted; None if it waits its turn, or for somebody.

        ``enter`` or ``withdraw`` must follow with the answer.
        """
        if self.consumer is not None and not self.held and not self._entering and self.consumer.reserve():
            return self.consumer
        self._entering += 1
        return None

    def withdraw(self, place: "Consumer | None") -> None:
        """The message was not admitted."""
        if place is None:
            self._entering -= 1
        else:
            place.release()

    def enter(self, arrival: Arrival, place: "Consumer | None") -> None:
        """The message was admitted."""
        if place is not None and place is self.consumer:
            place.start(arrival)
        self.withdraw(place)
        if place is None or place is not self.consumer:
            self.hold(arrival.inbox_id)

    def hold(self, inbox_id: int) -> None:
        """A message waits for its turn."""
        self.held.append(inbox_id)
        if self.consumer is not None:
            self.consumer.wake()


class Consumer(ABC):
    """Takes the messages of one topic, in their order, until ``finish``."""

    def __init__(self, queue: TopicQueue, shared: Shared) -> None:
        self._queue = queue
        self._shared = shared
        self._running: dict[asyncio.Task[None], None] = {}
        self._handling = 0
        """Messages whose handler has not returned. Their tasks go on after that, until the store has removed them."""
        self._reserved = 0

    @abstractmethod
    def capacity(self) -> int:
        """How many messages may be in hand at this moment."""

    @abstractmethod
    async def handle(self, arrival: Arrival) -> None:
        """Has the message handled. Raises whatever the handler raises."""

    @property
    def is_free(self) -> bool:
        return self._handling + self._reserved < self.capacity()

    def reserve(self) -> bool:
        """Keeps a place for a message that is being admitted, if there is one."""
        if not self.is_free:
            return False
        self._reserved += 1
        return True

    def release(self) -> None:
        """Gives the place back."""
        self._reserved -= 1
        self.wake()

    def start(self, arrival: Arrival) -> None:
        """Hands out a message that is counted already."""
        self._start(self._run(arrival))

    def wake(self) -> None:
        """Hands out what waits, as far as there is place."""
        while self._queue.consumer is self and self._queue.held and self.is_free:
            self._start(self._claim(self._queue.held.popleft()))

    async def finish(self, seconds: float) -> None:
        """Waits for what is in hand, and gives it up after so long; it is handed out again later."""
        if self._queue.consumer is self:
            self._queue.consumer = None
        running = [task for task in self._running if task is not asyncio.current_task()]
        if running:
            await asyncio.wait(running, timeout=seconds)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._handling += 1
        task = asyncio.ensure_future(work)
        self._running[task] = None
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a consumer failed", exc_info=task.exception())

    def _let_go(self) -> None:
        """A handler has returned, or was not called: there is place for the next message."""
        self._handling -= 1
        self.wake()

    async def _claim(self, inbox_id: int) -> None:
        try:
            arrival = await self._shared.claim(inbox_id)
        except BusError as error:
            _log.error("message %d of the inbox cannot be handed out now: %s", inbox_id, error)
            self._again(inbox_id, 1)
            arrival = None
        if arrival is None:
            self._let_go()
        else:
            await self._run(arrival)

    async def _run(self, arrival: Arrival) -> None:
        try:
            try:
                await self.handle(arrival)
            finally:
                self._let_go()
        except asyncio.CancelledError:
            self._queue.hold(arrival.inbox_id)
            raise
        except Exception:
            _log.exception("the handler of %r failed, time %d", arrival.message.topic, arrival.dispatches)
            self._again(arrival.inbox_id, arrival.dispatches)
            return
        try:
            await self._shared.store.dispatched(arrival.inbox_id)
        except BusError as error:
            _log.error("message %d was handled and cannot be removed: %s", arrival.inbox_id, error)

    def _again(self, inbox_id: int, failures: int) -> None:
        """Once more after a wait; the claim that comes then wedges a message that failed too often."""
        wait_ms = RETRY.wait_ms(failures, self._shared.jitter)
        asyncio.get_running_loop().call_later(wait_ms / 1000, self._queue.hold, inbox_id)


class HandlerConsumer(Consumer):
    """Calls a handler, for up to ``most`` messages at a time."""

    def __init__(
        self, queue: TopicQueue, shared: Shared, handler: Callable[[Arrival], Awaitable[None]], most: int
    ) -> None:
        super().__init__(queue, shared)
        self._handler = handler
        self._most = most

    def capacity(self) -> int:
        return self._most

    async def handle(self, arrival: Arrival) -> None:
        await self._handler(arrival)


class AskedConsumer(Consumer):
    """Hands out a message when one is asked for, which is also when the one before counts as handled."""

    def __init__(self, queue: TopicQueue, shared: Shared) -> None:
        super().__init__(queue, shared)
        self._unread: deque[Arrival] = deque()
        self._in_hand: asyncio.Future[None] | None = None
        self._asking = False
        self._closed = False
        self._changed = asyncio.Event()

    def capacity(self) -> int:
        return int(self._asking)

    async def handle(self, arrival: Arrival) -> None:
        self._in_hand = asyncio.get_running_loop().create_future()
        self._unread.append(arrival)
        self._changed.set()
        await self._in_hand
        self._changed.set()

    async def ask(self) -> Arrival | None:
        """The next message; None after ``finish``. Raises ``InvalidInput`` if somebody else is asking."""
        if self._asking:
            raise InvalidInput("another task waits for the next message of this subscription", field="topic")
        if self._closed:
            return None
        if self._in_hand is not None and not self._unread:
            self._in_hand.set_result(None)
            self._in_hand = None
            while self._handling:
                self._changed.clear()
                await self._changed.wait()
        self._asking = True
        try:
            self.wake()
            while not self._unread and not self._closed:
                self._changed.clear()
                await self._changed.wait()
            return self._unread.popleft() if self._unread and not self._closed else None
        finally:
            self._asking = False

    async def finish(self, seconds: float) -> None:
        """What was handed out last is in hand for ever, unless the next one is asked for: that is not waited for."""
        self._closed = True
        self._changed.set()
        await super().finish(0)
