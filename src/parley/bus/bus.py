"""The bus: agents of one user ask each other, answer, publish and subscribe, with no server between them.

It puts the parts together and owns them: connections over a transport, the intake and the dispatch of what comes, the
sender and the spool of what goes, and the store that remembers. What each promises stands in its own module.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Final, Literal

from parley.bus.background import Background
from parley.bus.chain import Chain
from parley.bus.connections import Connections
from parley.bus.consumer import Arrival
from parley.bus.dispatch import Dispatcher
from parley.bus.fingerprint import Fingerprint
from parley.bus.greetings import Greetings
from parley.bus.intake import Intake
from parley.bus.link_frames import INSTANCE_BYTES, is_topic
from parley.bus.memory_store import MemoryMeshStore
from parley.bus.mesh_store import MeshStore, Undispatched
from parley.bus.message import TIMEOUT_MS_MAX, Publish, Reply, Request
from parley.bus.options import BusOptions, Delivery, Peer
from parley.bus.outbound import Outbound
from parley.bus.peer_book import PeerBook
from parley.bus.reception import Reception
from parley.bus.renewals import Renewals
from parley.bus.replies import Replies
from parley.bus.revocation import Revocations
from parley.bus.sending import Sender
from parley.bus.spool import Outbox, Spool
from parley.bus.subscription import Message, Subscription
from parley.bus.transport import Address, Resolver, Transport
from parley.bus.trust import Identity, Trust
from parley.core import limits
from parley.core.bus_errors import BusClosed, ChannelClosed
from parley.core.clock import Clock, SystemClock
from parley.core.errors import InvalidInput, ParleyError

_log: Final = logging.getLogger(__name__)
_PAGE: Final = 100

SpoolPolicy = Literal["off", "publish", "all"]
RequestHandler = Callable[[Message], Awaitable[bytes]]
PublishHandler = Callable[[Message], Awaitable[None]]


class Bus:
    """One agent on the bus. Made by ``bind`` or ``bind_with``; belongs to one event loop."""

    def __init__(
        self,
        identity: Identity,
        *,
        store: MeshStore,
        resolver: Resolver,
        transport: Transport,
        options: BusOptions,
        clock: Clock,
    ) -> None:
        """For ``bind`` and ``bind_with``."""
        trust = Trust(identity)
        self._options = options
        self._clock = clock
        self._resolver = resolver
        self._store = store
        self._trust = trust
        self._background = Background()
        self._dispatcher = Dispatcher(store, trust, options.jitter)
        self._replies = Replies()
        self._book = PeerBook(store, trust, clock)
        self._connections = Connections(
            trust,
            transport,
            resolver,
            clock,
            instance=options.random_bytes(INSTANCE_BYTES),
            topics=self._subscribed,
        )
        sender = Sender(trust, store, self._connections, clock, options.random_bytes)
        self._spool = Spool(
            store,
            trust,
            sender,
            self._book,
            clock,
            sealing=options.seal_spool,
            jitter=options.jitter,
            random_bytes=options.random_bytes,
        )
        self._greetings = Greetings(self._connections, self._spool, self._book)
        self._outbound = Outbound(
            trust,
            sender,
            self._spool,
            self._replies,
            clock,
            options,
            policy=options.spool or ("publish" if store.durable else "off"),
        )
        self._intake = Intake(
            trust,
            store,
            self._dispatcher,
            self._replies,
            clock,
            is_subscribed=self._is_subscribed,
            unhandled=self._answer_unhandled,
        )
        self._renewals = Renewals(trust, clock, self._background, options)
        self._reception = Reception(
            trust,
            self._intake,
            self._book,
            self._spool,
            self._connections,
            clock,
            self._background,
            options.keep_revocations,
            self._renewals,
        )
        self._address: Address | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def bind(
        cls,
        identity: Identity,
        *,
        resolver: Resolver,
        transport: Transport,
        options: BusOptions | None = None,
        clock: Clock | None = None,
    ) -> "Bus":
        """A bus that forgets everything when it ends, and touches no file."""
        return await cls.bind_with(
            identity, store=MemoryMeshStore(), resolver=resolver, transport=transport, options=options, clock=clock
        )

    @classmethod
    async def bind_with(
        cls,
        identity: Identity,
        *,
        store: MeshStore,
        resolver: Resolver,
        transport: Transport,
        options: BusOptions | None = None,
        clock: Clock | None = None,
    ) -> "Bus":
        """A bus on this store. It closes the store and the transport when it is closed, or cannot begin.

        Raises the ``BusError`` for which this agent may not be on the bus, or the store's.
        """
        try:
            bus = cls(
                identity,
                store=store,
                resolver=resolver,
                transport=transport,
                options=options or BusOptions(),
                clock=clock or SystemClock(),
            )
            await bus._start()
        except BaseException:
            await transport.close()
            await store.close()
            raise
        return bus

    async def __aenter__(self) -> "Bus":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def fingerprint(self) -> Fingerprint:
        """This agent's."""
        return self._trust.agent

    @property
    def address(self) -> Address:
        """Where it listens."""
        assert self._address is not None
        return self._address

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or is about to be."""
        return self._closing is not None

    @property
    def revocations(self) -> Revocations:
        """All that is known to be revoked."""
        return self._trust.revocations

    async def request(
        self,
        peer: Fingerprint,
        topic: str,
        body: bytes,
        *,
        timeout: float = limits.BUS_REQUEST_SECONDS,
        message_id: bytes | None = None,
    ) -> bytes:
        """The peer's answer. Under a ``message_id`` that it has handled before, the peer does not handle it again.

        Raises ``PeerUnreachable``, ``NotAcknowledged``, ``NoReply`` if the peer took the request and did not answer in
        time, ``NoHandler``, ``HandlerFailed``, or the refusal of either side. ``timeout`` is in seconds and covers all.
        """
        if not 0 < timeout <= limits.BUS_REQUEST_SECONDS_MAX:
            raise InvalidInput(f"timeout must be up to {limits.BUS_REQUEST_SECONDS_MAX} seconds", field="timeout")
        message = Request(topic, body, min(round(timeout * 1000), TIMEOUT_MS_MAX))
        self._check(topic, message)
        return await self._outbound.request(peer, self._outbound.new_message_id(message_id), message, timeout)

    def handle(self, topic: str, handler: RequestHandler) -> None:
        """Has the handler answer requests on the topic; those that wait are handed to it at once.

        Several run at a time. What the handler raises is logged here, and the peer is told that it failed. Raises
        ``InvalidInput`` if the topic has a handler.
        """
        self._check(topic)

        async def answer(arrival: Arrival) -> None:
            assert isinstance(arrival.message, Request)
            self._background.spawn(self._outbound.reply(arrival, await self._outcome(handler, arrival)))

        self._dispatcher.handle("request", topic, answer, self._options.handlers_max)

    async def publish(self, topic: str, body: bytes) -> list[Delivery]:
        """Sends to every peer that is known to subscribe, and tells what became of it for each.

        A peer that is away gets it later, if the bus spools; otherwise its delivery has failed, and says why.
        """
        message = Publish(topic, body)
        self._check(topic, message)
        peers = [Fingerprint(each.fingerprint) for each in self._book if topic in each.topics]

        async def attempt(peer: Fingerprint) -> Delivery:
            message_id = self._outbound.new_message_id()
            try:
                return await self._outbound.publish(peer, message_id, message)
            except ParleyError as error:
                return Delivery(peer, "failed", message_id, error=error)

        return list(await asyncio.gather(*map(attempt, peers)))

    async def publish_to(
        self, peer: Fingerprint, topic: str, body: bytes, *, message_id: bytes | None = None
    ) -> Delivery:
        """Sends to one peer. Raises the ``BusError`` for which it was neither delivered nor spooled.

        Give a ``message_id`` of 16 random bytes to send the same message again, whatever became of it before: the peer
        handles it once.
        """
        message = Publish(topic, body)
        self._check(topic, message)
        message_id = self._outbound.new_message_id(message_id)
        return await self._outbound.publish(peer, message_id, message, patience_seconds=limits.BUS_RESOLVE_SECONDS)

    def subscribe(self, topic: str, handler: PublishHandler | None = None) -> Subscription:
        """What is published on the topic from now on, and what waits of it, one after the other.

        With a handler that is called for each; without, the subscription is an async iterator, for which a message
        counts as handled when the next one is asked for. A message of which the handler raised comes again, a few
        times. Raises ``InvalidInput`` if the topic has a subscription.
        """
        self._check(topic)
        if not self._is_subscribed(topic) and len(self._subscribed()) >= limits.BUS_SUBSCRIPTIONS_MAX:
            raise InvalidInput(f"a bus subscribes to {limits.BUS_SUBSCRIPTIONS_MAX} topics at most", field="topic")
        if handler is None:
            consumer = self._dispatcher.ask(topic)
        else:
            called = handler

            async def hand_over(arrival: Arrival) -> None:
                await called(Message.of(arrival))

            consumer = self._dispatcher.handle("publish", topic, hand_over, 1)
        self._tell_topics()
        return Subscription(topic, consumer, closed=self._tell_topics)

    def peers(self) -> list[Peer]:
        """Who was met within the last 30 days, and who is announced."""
        known = {each.fingerprint: each for each in self._book}
        announced = [each for each in self._resolver.peers() if each != self.fingerprint]
        found: list[Peer] = []
        for name in dict.fromkeys((*map(Fingerprint, known), *announced)):
            connected = self._connections.current(name) is not None
            peer = known.get(name)
            found.append(
                Peer(name, connected, None, (), None)
                if peer is None
                else Peer(name, connected, peer.role, peer.topics, peer.seen_at)
            )
        return found

    async def connect(self, peer: Fingerprint) -> None:
        """Meets the peer, so that each knows what the other one subscribes to. Raises ``PeerUnreachable``."""
        self._require_open()
        await self._connections.to(peer, patience_seconds=limits.BUS_RESOLVE_SECONDS)

    async def outbox(self) -> Outbox:
        """What waits for peers, what is wedged and why, and what has expired."""
        return await self._spool.outbox()

    async def drain(self) -> None:
        """Tries now to send all that waits. What waits after that is for peers that could not be reached."""
        self._require_open()
        await self._spool.drain()

    async def unwedge(self, outbox_id: int) -> bool:
        """Lets a wedged message of the outbox be tried again. True if it was wedged."""
        return await self._spool.unwedge(outbox_id)

    async def discard(self, outbox_id: int) -> bool:
        """Gives up a message of the outbox. True if it was there."""
        return await self._spool.discard(outbox_id)

    async def inbox(self) -> list[Undispatched]:
        """What was accepted and no handler has returned from, wedged or not."""
        found: list[Undispatched] = []
        while page := await self._store.undispatched(after=found[-1].id if found else 0, limit=_PAGE):
            found += page
        return found

    async def unwedge_inbox(self, inbox_id: int) -> bool:
        """Lets a wedged message of the inbox be handed out again. True if it was wedged."""
        if not await self._store.unwedge_undispatched(inbox_id):
            return False
        await self._dispatcher.take_up(inbox_id)
        return True

    async def learn(self, statements: Iterable[bytes]) -> bool:
        """Takes statements of what the user has revoked, and tells the peers. True if something of it is new.

        Raises ``StatementInvalid``, ``OtherUser`` or ``RevocationsFull``.
        """
        new = self._trust.learn(statements)
        if new:
            self._reception.learned()
        return new

    def renew(self, chain: Chain) -> None:
        """Goes on with a newer certificate for the same key. Every connection is made anew, so that each peer sees it.

        Raises ``ChainInvalid`` for another agent's, ``OtherUser``, or what ``chain.verify`` raises.
        """
        self._trust.renew(chain, self._clock.now_ms())
        for connection in self._connections.all():
            connection.end(ChannelClosed("the certificate was renewed"))

    async def close(self, seconds: float = limits.BUS_CLOSE_SECONDS) -> None:
        """Takes nothing new, gives what is under way so long, and lets go of everything.

        What no handler has returned from by then, and what nobody has acknowledged, is there after a restart of a
        durable store. To close again does nothing.
        """
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close(seconds))
        await asyncio.shield(self._closing)

    async def _start(self) -> None:
        self._trust.own(self._clock.now_ms())
        if len(self._options.topics) > limits.BUS_SUBSCRIPTIONS_MAX or not all(map(is_topic, self._options.topics)):
            raise InvalidInput("the topics are too many, or not all of them can be called so", field="topics")
        await self._book.load()
        await self._dispatcher.load()
        self._address = await self._connections.listen(self._reception)
        await self._spool.start()
        if self._options.renew is not None:
            self._renewing = asyncio.ensure_future(self._renewals.run(self._connections))
        self._resolver.watch(self._seen)
        for peer in self._resolver.peers():
            self._seen(peer)

    async def _close(self, seconds: float) -> None:
        until = asyncio.get_running_loop().time() + seconds
        self._intake.stop()
        if self._renewing is not None:
            self._renewing.cancel()
        await self._dispatcher.close(seconds)
        await _until(self._outbound.idle(), until)
        self._replies.fail_all(BusClosed("the bus was closed"))
        await self._greetings.close()
        await self._spool.close()
        await self._background.finish(until - asyncio.get_running_loop().time())
        await self._connections.close()
        await self._intake.close(seconds)
        await self._store.close()

    def _require_open(self) -> None:
        if self._closing is not None:
            raise BusClosed("the bus was closed")

    def _check(self, topic: str, message: Request | Publish | None = None) -> None:
        """Raises the error for which this agent may not use the topic, or not send this."""
        self._require_open()
        if not is_topic(topic):
            raise InvalidInput(
                f"a topic has 1 to {limits.BUS_TOPIC_CHARS_MAX} characters that can be shown", field="topic"
            )
        self._trust.own(self._clock.now_ms()).require_topic(topic)
        if message is not None:
            self._outbound.check_size(message)

    def _subscribed(self) -> tuple[str, ...]:
        return tuple(sorted(self._dispatcher.topics("publish") | self._options.topics))

    def _is_subscribed(self, topic: str) -> bool:
        return topic in self._options.topics or self._dispatcher.has_consumer("publish", topic)

    def _tell_topics(self) -> None:
        topics = self._subscribed()
        for connection in self._connections.all():
            connection.tell_topics(topics)

    async def _outcome(self, handler: RequestHandler, arrival: Arrival) -> Reply:
        try:
            body = await handler(Message.of(arrival))
            reply = Reply(arrival.message_id, "answered", bytes(body))
            self._outbound.check_size(reply)
        except Exception:
            _log.exception("the handler of %r failed", arrival.message.topic)
            return Reply(arrival.message_id, "failed")
        return reply

    def _answer_unhandled(self, peer: Fingerprint, message_id: bytes, message: Request) -> None:
        arrival = Arrival(0, peer, message_id, message, self._clock.now_ms(), 1)
        self._background.spawn(self._outbound.reply(arrival, Reply(message_id, "no_handler")))

    def _seen(self, peer: Fingerprint) -> None:
        if self._closing is None and peer != self.fingerprint:
            self._greetings.seen(peer)


async def _until(work: Awaitable[object], until: float) -> None:
    """Waits for it, and no longer than to this time of the loop."""
    with suppress(TimeoutError):
        async with asyncio.timeout_at(until):
            await work
