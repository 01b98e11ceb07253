"""What comes in: judged, admitted, acknowledged, and only then handed out.

An envelope reaches this point believed: its signature, its sender, its recipient and its certificates were looked at.
Here it is asked what the message may do, and the store says whether it came before. Whatever goes wrong on our side,
the store's failures above all, refuses the message for now: a message is never handled that the store did not keep.

A reply is the exception. Whoever waits for it waits in memory, once, for this peer and under an id that nobody can
guess. So no replay can reach anybody, nothing of it is worth keeping, and it is handed over as soon as it is believed;
only where calls are counted the store is asked first. It is acknowledged after its commit, like everything else.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from parley.bus.connection import Connection
from parley.bus.consumer import Arrival, Consumer, TopicQueue
from parley.bus.dispatch import Dispatcher
from parley.bus.envelope import Opened
from parley.bus.fingerprint import Fingerprint, short
from parley.bus.inbox_entry import Entry, enter
from parley.bus.link import refusal_of
from parley.bus.link_frames import Answer
from parley.bus.mesh_store import Admission, MeshStore
from parley.bus.message import Publish, Reply, Request
from parley.bus.replies import Replies
from parley.bus.trust import Trust
from parley.core.bus_errors import BusError, CallsExhausted, CallsUncounted, NoSubscriber, PeerBusy, Replayed
from parley.core.clock import Clock

_log: Final = logging.getLogger(__name__)


class Intake:
    """For all connections of a bus. What it calls for each envelope never waits but for the store."""

    def __init__(
        self,
        trust: Trust,
        store: MeshStore,
        dispatcher: Dispatcher,
        replies: Replies,
        clock: Clock,
        *,
        is_subscribed: Callable[[str], bool],
        unhandled: Callable[[Fingerprint, bytes, Request], None],
    ) -> None:
        """``unhandled`` is told of requests that nobody here answers."""
        self._trust = trust
        self._store = store
        self._dispatcher = dispatcher
        self._replies = replies
        self._clock = clock
        self._is_subscribed = is_subscribed
        self._unhandled = unhandled
        self._admitting: dict[asyncio.Task[None], None] = {}
        self._closing = False

    def arrived(self, connection: Connection, opened: Opened) -> None:
        """Takes an envelope. Called in the order in which envelopes came, which is that of their admissions, too."""
        try:
            entry = self._examine(opened)
        except BusError as error:
            _log.warning("a message of %s is refused: %s", short(connection.peer), error)
            connection.answer(_refusal(opened, error))
            return
        if isinstance(entry.message, Reply) and not opened.authority.call_limits:
            self._replies.deliver(opened.head.sender, entry.message)
        connection.begin_admission(len(entry.stored))
        queue = self._queue(entry)
        place = None if queue is None else queue.reserve()
        # Tasks begin in the order in which they were made, and each asks the store before it waits for anything.
        task = asyncio.ensure_future(self._admit(connection, opened, entry, queue, place))
        self._admitting[task] = None
        task.add_done_callback(lambda done: self._admitting.pop(done, None))

    def stop(self) -> None:
        """Takes nothing more but replies."""
        self._closing = True

    async def close(self, seconds: float) -> None:
        """Gives what is on its way into the store so long. What is not acknowledged by then comes again."""
        if self._admitting:
            await asyncio.wait(list(self._admitting), timeout=seconds)
        for task in list(self._admitting):
            task.cancel()
        await asyncio.gather(*self._admitting, return_exceptions=True)

    def _examine(self, opened: Opened) -> Entry:
        """What the message says, if it may. Raises the ``BusError`` for which it may not."""
        authority = opened.authority
        if authority.call_limits and not self._store.durable:
            raise CallsUncounted("the certificate counts calls, which a store in memory forgets")
        entry = enter(opened, self._trust)
        message = entry.message
        if self._closing and not isinstance(message, Reply):
            raise PeerBusy("the bus is closing")
        topic = self._replies.topic(opened.head.sender, message) if isinstance(message, Reply) else message.topic
        authority.require_topic(topic)
        self._trust.own(self._clock.now_ms()).require_topic(topic)
        if isinstance(message, Publish) and not self._is_subscribed(topic):
            raise NoSubscriber(f"nobody here subscribes to {topic!r}", topic=topic)
        return entry

    def _queue(self, entry: Entry) -> TopicQueue | None:
        """Where the message goes; None for what is settled at once: a reply, and a request that nobody answers."""
        message = entry.message
        if isinstance(message, Reply):
            return None
        if isinstance(message, Request) and not self._dispatcher.has_consumer("request", message.topic):
            return None
        return self._dispatcher.queue(message)

    async def _admit(
        self,
        connection: Connection,
        opened: Opened,
        entry: Entry,
        queue: TopicQueue | None,
        place: Consumer | None,
    ) -> None:
        head, now = opened.head, self._clock.now_ms()
        try:
            admission = await self._store.admit(
                head.sender,
                head.nonce,
                head.sequence,
                head.message_id,
                entry.stored,
                now=now,
                call_limits=opened.authority.call_limits,
                dispatching=place is not None or queue is None,
                kept=not isinstance(entry.message, Reply),
            )
            answer = _answer(opened, admission)
        except Exception as error:
            _log.exception("a message of %s cannot be admitted", short(head.sender))
            admission = None
            answer = _refusal(opened, error if isinstance(error, BusError) else PeerBusy("the store failed"))
        connection.end_admission(len(entry.stored), answer)
        if admission is not None and admission.verdict == "accepted" and isinstance(entry.message, Reply):
            self._replies.deliver(head.sender, entry.message)
        elif admission is None or admission.inbox_id is None:
            if queue is not None:
                queue.withdraw(place)
        elif queue is not None:
            assert not isinstance(entry.message, Reply)
            arrival = Arrival(
                admission.inbox_id, head.sender, head.message_id, entry.message, now, int(place is not None)
            )
            queue.enter(arrival, place)
        else:
            assert isinstance(entry.message, Request)
            await self._settle(head.sender, head.message_id, entry.message, admission.inbox_id)

    async def _settle(self, peer: Fingerprint, message_id: bytes, message: Request, inbox_id: int) -> None:
        """Nobody answers it, which the peer is told."""
        try:
            await self._store.dispatched(inbox_id)
        except BusError as error:
            _log.error("message %d was settled and cannot be removed: %s", inbox_id, error)
        self._unhandled(peer, message_id, message)


def _answer(opened: Opened, admission: Admission) -> Answer:
    sequence = opened.head.sequence
    match admission.verdict:
        case "accepted" | "duplicate":
            return Answer(sequence, admission.verdict)
        case "bad_sequence":
            return Answer(sequence, "bad_sequence", expected=admission.expected or 0)
        case "replay":
            return _refusal(opened, Replayed("the very same envelope came before"))
        case "spent":
            return _refusal(opened, CallsExhausted("the certificate allows no more calls"))
        case "full":
            return _refusal(opened, PeerBusy("the inbox is full"))


def _refusal(opened: Opened, error: BusError) -> Answer:
    return Answer(opened.head.sequence, "refused", refusal=refusal_of(error))
