"""What goes out: tried at once, and kept for later where the spool's policy says so.

A message that finds others waiting for its peer waits behind them, so that none is overtaken. What fails for good, or
for a reason of our own store, the caller is told and nothing is kept.
"""

import asyncio
import itertools
import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from parley.bus.consumer import Arrival
from parley.bus.envelope import MESSAGE_ID_BYTES, room
from parley.bus.fingerprint import Fingerprint, short
from parley.bus.message import Publish, Reply, Request, message_parts
from parley.bus.options import BusOptions, Delivery, SpoolPolicy
from parley.bus.replies import Replies
from parley.bus.sending import Outgoing, Sender
from parley.bus.spool import WAIT, Spool
from parley.bus.trust import Trust
from parley.bus.untaken import Untaken
from parley.core import limits
from parley.core.bus_errors import BusError, FrameTooLarge, NoReply, NotAcknowledged, PeerUnreachable, StoreError
from parley.core.clock import Clock
from parley.core.errors import InvalidInput

_log: Final = logging.getLogger(__name__)


class Outbound:
    """Requests, replies and what is published, on their way to peers."""

    def __init__(
        self,
        trust: Trust,
        sender: Sender,
        spool: Spool,
        replies: Replies,
        clock: Clock,
        options: BusOptions,
        *,
        policy: SpoolPolicy,
    ) -> None:
        self._trust = trust
        self._sender = sender
        self._spool = spool
        self._replies = replies
        self._clock = clock
        self._random = options.random_bytes
        self._jitter = options.jitter
        self._spool_ms = options.spool_ms
        self._policy = policy
        self._untaken = Untaken()
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def check_size(self, message: Request | Reply | Publish) -> None:
        """Raises ``FrameTooLarge`` for a message that fits into no envelope."""
        if sum(map(len, message_parts(message))) > room(self._trust.chain):
            raise FrameTooLarge(
                f"a body of {len(message.body)} bytes does not fit into an envelope",
                bytes_max=limits.BUS_FRAME_BYTES_MAX,
            )

    def new_message_id(self, given: bytes | None = None) -> bytes:
        """The id that a caller gave for a message, or one that nobody can guess. Raises ``InvalidInput``."""
        if given is None:
            return self._random(MESSAGE_ID_BYTES)
        if len(given) != MESSAGE_ID_BYTES:
            raise InvalidInput(f"a message id has {MESSAGE_ID_BYTES} bytes, not {len(given)}", field="message_id")
        return given

    async def request(self, peer: Fingerprint, message_id: bytes, message: Request, timeout: float) -> bytes:
        """As ``Bus.request``."""
        answer = self._replies.expect(message_id, peer, message.topic)
        is_taken = False
        with self._busy():
            try:
                async with asyncio.timeout(timeout):
                    await self._send_request(peer, message_id, message, timeout, answer)
                    is_taken = True
                    return await answer
            except TimeoutError as error:
                if is_taken:
                    raise NoReply(f"{short(peer)} did not answer in time", topic=message.topic) from error
                raise NotAcknowledged(f"{short(peer)} did not take it in time", topic=message.topic) from error
            finally:
                self._replies.forget(message_id)

    async def publish(
        self, peer: Fingerprint, message_id: bytes, message: Publish, *, patience_seconds: float = 0.0
    ) -> Delivery:
        """To one peer. Raises the ``BusError`` for which it was neither delivered nor spooled."""
        spools = self._policy != "off"
        with self._busy():
            if spools and self._spool.has_backlog(peer):
                return await self._put(peer, message_id, message, None)
            outgoing = Outgoing(message_id, message_parts(message), topic=message.topic)
            try:
                await self._sender.send(peer, outgoing, patience_seconds=0.0 if spools else patience_seconds)
            except BusError as error:
                if not spools or not _may_be_spooled(error):
                    raise
                return await self._put(peer, message_id, message, error)
        return Delivery(peer, "delivered", message_id)

    async def reply(self, arrival: Arrival, reply: Reply) -> None:
        """Answers a request, for as long as somebody waits for that; a reply is never spooled.

        One too many for a peer that takes none is given up, and whoever asked waits for it in vain.
        """
        assert isinstance(arrival.message, Request)
        with self._untaken.keep(arrival.peer, len(arrival.message.body) + len(reply.body)) as has_room:
            if has_room:
                await self._answer(arrival, arrival.message, reply)
            else:
                _log.warning("an answer for %s is given up: it takes none of those before it", short(arrival.peer))

    async def _answer(self, arrival: Arrival, request: Request, reply: Reply) -> None:
        left = (arrival.admitted_at + request.timeout_ms - self._clock.now_ms()) / 1000
        if left <= 0:
            return
        outgoing = Outgoing(self.new_message_id(), message_parts(reply), topic=request.topic)
        try:
            async with asyncio.timeout(left):
                await self._send_until_taken(arrival.peer, outgoing)
        except (BusError, TimeoutError) as error:
            _log.warning("an answer for %s was not taken: %s", short(arrival.peer), error)

    async def _send_until_taken(self, peer: Fingerprint, outgoing: Outgoing) -> None:
        for failures in itertools.count(1):
            try:
                await self._sender.send(peer, outgoing)
            except BusError as error:
                if not error.transient:
                    raise
                await asyncio.sleep(WAIT.wait_ms(failures, self._jitter) / 1000)
            else:
                return

    async def idle(self) -> None:
        """Waits until no call is under way."""
        await self._idle.wait()

    async def _put(self, peer: Fingerprint, message_id: bytes, message: Publish, failure: BusError | None) -> Delivery:
        try:
            outbox_id = await self._spool.put(peer, message_id, message, lives_ms=self._spool_ms)
        except PeerUnreachable as never_met:
            if failure is None or isinstance(failure, PeerUnreachable):
                raise
            raise failure from never_met  # which can be mended, and is why it was not met now either
        return Delivery(peer, "spooled", message_id, outbox_id, failure)

    async def _send_request(
        self, peer: Fingerprint, message_id: bytes, message: Request, timeout: float, answer: "asyncio.Future[bytes]"
    ) -> None:
        outgoing = Outgoing(message_id, message_parts(message), topic=message.topic)
        spools = self._policy == "all"
        until = asyncio.get_running_loop().time() + timeout
        try:
            patience_seconds = 0.0 if spools else limits.BUS_RESOLVE_SECONDS
            await self._sender.send(peer, outgoing, patience_seconds=patience_seconds, answer=answer)
        except BusError as error:
            if answer.done():
                return  # it came by another connection than the one that failed
            left_ms = round((until - asyncio.get_running_loop().time()) * 1000)
            if not spools or not _may_be_spooled(error) or left_ms <= 0:
                raise
            await self._spool.put(peer, message_id, message, lives_ms=left_ms)

    @contextmanager
    def _busy(self) -> Generator[None]:
        self._under_way += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()


def _may_be_spooled(error: BusError) -> bool:
    """Whether the same message may be taken later, for no fault of our own store."""
    return error.transient and not isinstance(error, StoreError)
