"""The spool: messages for peers that are away, sealed to them, in the store's outbox until somebody acknowledges them.

Each peer's messages leave one after the other, in the order in which they came, each under the message id that it was
given first. They leave when the peer is seen or met, at the start, and when their wait is over. What fails for now
waits twice as long each time, what fails for good is wedged with its reason and holds up nobody, and what is too old
expires. Nothing is ever dropped that ``outbox`` does not tell of.
"""

import asyncio
import logging
import random
import secrets
from collections import defaultdict
from typing import Final, NamedTuple

from blake3 import blake3

from parley.bus.fingerprint import Fingerprint, short
from parley.bus.mesh_store import ExpiredItem, MeshStore, NewOutboxItem, OutboxItem
from parley.bus.message import BusMessage, encode_message
from parley.bus.payload import seal_payload
from parley.bus.peer_book import PeerBook
from parley.bus.sending import Outgoing, Sender
from parley.bus.trust import Trust
from parley.core.backoff import Backoff, Jitter
from parley.core.bus_errors import (
    BusClosed,
    BusError,
    NoSubscriber,
    PeerUnreachable,
    SequenceRefused,
    StoreError,
)
from parley.core.clock import Clock
from parley.core.errors import ParleyError
from parley.core.limits import BUS_BACKOFF_MS_MAX, BUS_EXPIRED_KEPT
from parley.core.sealing import Random

_log: Final = logging.getLogger(__name__)
WAIT: Final = Backoff(first_ms=1_000, most_ms=BUS_BACKOFF_MS_MAX)
_PAGE: Final = 100
_LOOK_SECONDS: Final = 60.0
"""The longest sleep, so that a clock that jumps forward is noticed."""
_BREATH_SECONDS: Final = 1.0
"""The shortest sleep before something is tried again that should have worked, such as a store that cannot write."""


class Outbox(NamedTuple):
    """What waits to be sent, is wedged, or has expired."""

    waiting: tuple[OutboxItem, ...]
    """Oldest first. An item that is wedged has the reason in ``wedged``."""
    expired: tuple[ExpiredItem, ...]
    """The newest first."""


class Spool:
    """The outbox of one bus. ``start`` and ``close`` it."""

    def __init__(
        self,
        store: MeshStore,
        trust: Trust,
        sender: Sender,
        book: PeerBook,
        clock: Clock,
        *,
        sealing: bool,
        jitter: Jitter = random.random,
        random_bytes: Random = secrets.token_bytes,
    ) -> None:
        self._store = store
        self._trust = trust
        self._sender = sender
        self._book = book
        self._clock = clock
        self._sealing = sealing
        self._jitter = jitter
        self._random = random_bytes
        self._live: defaultdict[Fingerprint, set[int]] = defaultdict(set)
        """What is neither wedged nor expired, by peer."""
        self._unwanted: set[Fingerprint] = set()
        """Peers for which something is wedged because they did not subscribe."""
        self._draining: dict[Fingerprint, asyncio.Task[None]] = {}
        self._kicked = asyncio.Event()
        self._timer: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Takes up what is in the outbox, and begins to send it."""
        for item in await self._items():
            if item.wedged is None:
                self._live[Fingerprint(item.peer)].add(item.id)
            else:
                self._note_wedged(item, item.wedged)
        self._timer = asyncio.ensure_future(self._run())

    def has_backlog(self, peer: Fingerprint) -> bool:
        """Whether something for the peer waits, which nothing may overtake."""
        return bool(self._live.get(peer))

    async def put(self, peer: Fingerprint, message_id: bytes, message: BusMessage, *, lives_ms: int) -> int:
        """Keeps a message until the peer takes it; its id in the outbox.

        Raises ``PeerUnreachable`` for a peer that was never met, whose key is not known, and what the store raises.
        """
        known = self._book.get(peer)
        if known is None:
            raise PeerUnreachable(f"{short(peer)} was never met, so nothing can be sealed for it", met=False)
        plain = encode_message(message)
        now = self._clock.now_ms()
        waits_ms = 0 if self.has_backlog(peer) else WAIT.wait_ms(1, self._jitter)
        item = NewOutboxItem(
            peer,
            message_id,
            self._wrapped(plain, message_id, known.agent_key),
            blake3(plain).digest(),
            expires_at=now + lives_ms,
            not_before=now + waits_ms,
        )
        outbox_id = await self._store.enqueue_outbox(item, now=now)
        self._live[peer].add(outbox_id)
        self._kicked.set()
        return outbox_id

    async def hasten(self, peer: Fingerprint) -> None:
        """The peer was seen: what waits for it is tried now."""
        if self.has_backlog(peer):
            await self._store.hasten_outbox(peer, now=self._clock.now_ms())
            self._kicked.set()

    async def drain(self) -> None:
        """Tries all that waits now; returns when each peer has what waited for it, or could not be reached."""
        peers = [peer for peer, live in self._live.items() if live]
        for peer in peers:
            await self.hasten(peer)
        under_way = [self._draining.get(peer) or self._begin(peer) for peer in peers]
        if under_way:
            await asyncio.wait(under_way)

    async def subscribed(self, peer: Fingerprint) -> None:
        """The peer has told its topics: what it did not want before is tried again."""
        if peer not in self._unwanted:
            return
        self._unwanted.discard(peer)
        for item in await self._items():
            if item.peer == peer and (item.wedged or "").startswith(NoSubscriber.code):
                await self.unwedge(item.id)

    async def unwedge(self, outbox_id: int) -> bool:
        """Lets a wedged message be tried again. True if it was wedged."""
        if not await self._store.unwedge_outbox(outbox_id, now=self._clock.now_ms()):
            return False
        for item in await self._store.list_outbox(after=outbox_id - 1, limit=1):
            if item.id == outbox_id:
                self._live[Fingerprint(item.peer)].add(outbox_id)
        self._kicked.set()
        return True

    async def discard(self, outbox_id: int) -> bool:
        """Gives a message up. True if it was there."""
        self._forget(outbox_id)
        return await self._store.remove_outbox(outbox_id)

    async def outbox(self) -> Outbox:
        """All that there is to tell."""
        return Outbox(tuple(await self._items()), tuple(await self._store.expired_outbox(limit=BUS_EXPIRED_KEPT)))

    async def close(self) -> None:
        """Sends nothing more. What was under way and not acknowledged stays."""
        tasks = [*self._draining.values(), *([self._timer] if self._timer is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            self._kicked.clear()
            try:
                seconds = await self._sweep()
            except BusError as error:
                _log.error("the outbox cannot be looked through: %s", error)
                seconds = _BREATH_SECONDS
            await _either(self._kicked, seconds)

    async def _sweep(self) -> float:
        """Reports what has expired, begins to send what is due, and tells how long there is nothing more to do."""
        now = self._clock.now_ms()
        for item in await self._store.expire_outbox(now=now):
            self._forget(item.id)
            _log.error("message %d for %s expired in the outbox", item.id, short(Fingerprint(item.peer)))
        for peer in [peer for peer, live in self._live.items() if live and peer not in self._draining]:
            if not await self._store.due_outbox(now=now, limit=1, peer=peer):
                continue
            if peer not in self._draining:  # nobody has begun meanwhile
                self._begin(peer)
        due_at = await self._store.next_due_at(now=now)
        if due_at is None:
            return _LOOK_SECONDS
        return _BREATH_SECONDS if due_at <= now else min((due_at - now) / 1000, _LOOK_SECONDS)

    def _begin(self, peer: Fingerprint) -> asyncio.Task[None]:
        task = self._draining[peer] = asyncio.ensure_future(self._drain(peer))
        task.add_done_callback(lambda task: self._drained(peer, task))
        return task

    async def _drain(self, peer: Fingerprint) -> None:
        """Sends what is due, in order, up to the first that fails for now."""
        while due := await self._store.due_outbox(now=self._clock.now_ms(), limit=1, peer=peer):
            item = due[0]
            try:
                await self._sender.send(peer, _outgoing(item))
            except (BusClosed, StoreError) as error:
                if not isinstance(error, SequenceRefused):
                    raise
                await self._wedge(item, error)
            except ParleyError as error:
                if error.transient:
                    await self._reschedule(item, error)
                    return
                await self._wedge(item, error)
            else:
                await self._store.remove_outbox(item.id)
                self._forget(item.id)

    async def _reschedule(self, item: OutboxItem, error: ParleyError) -> None:
        now = self._clock.now_ms()
        not_before = now + WAIT.wait_ms(item.attempts + 1, self._jitter)
        await self._store.reschedule_outbox(item.id, now=now, not_before=not_before, error=_reason(error))

    async def _wedge(self, item: OutboxItem, error: ParleyError) -> None:
        reason = _reason(error)
        _log.error("message %d for %s is wedged: %s", item.id, short(Fingerprint(item.peer)), reason)
        await self._store.wedge_outbox(item.id, reason=reason)
        self._forget(item.id)
        self._note_wedged(item, reason)

    def _drained(self, peer: Fingerprint, task: asyncio.Task[None]) -> None:
        self._draining.pop(peer, None)
        if task.cancelled():
            return
        if task.exception() is None:
            self._kicked.set()
        else:
            _log.error("the outbox cannot be drained now: %s", task.exception())

    def _note_wedged(self, item: OutboxItem, reason: str) -> None:
        if reason.startswith(NoSubscriber.code):
            self._unwanted.add(Fingerprint(item.peer))

    def _forget(self, outbox_id: int) -> None:
        for live in self._live.values():
            live.discard(outbox_id)

    async def _items(self) -> list[OutboxItem]:
        items: list[OutboxItem] = []
        while page := await self._store.list_outbox(after=items[-1].id if items else 0, limit=_PAGE):
            items += page
        return items

    def _wrapped(self, plain: bytes, message_id: bytes, recipient_key: bytes) -> bytes:
        if not self._sealing:
            return b"\0" + plain
        sealed = seal_payload(
            plain,
            user=self._trust.user,
            message_id=message_id,
            sender_seed=self._trust.seed,
            recipient_key=recipient_key,
            random=self._random,
        )
        return b"\1" + sealed


def _outgoing(item: OutboxItem) -> Outgoing:
    return Outgoing(item.message_id, (item.payload[1:],), sealed=item.payload[:1] == b"\1")


def _reason(error: ParleyError) -> str:
    return f"{error.code}: {error}"


async def _either(event: asyncio.Event, seconds: float) -> None:
    """Waits for the event, and no longer than this."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
