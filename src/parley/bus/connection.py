"""One connection to a peer while it lasts: a link over a channel, with a deadline on everything.

Frames leave through one queue, so nobody who reads ever waits for the other side to read. The order of envelopes is
held from the sequence to that queue, and not to the acknowledgement: what is sent side by side arrives in the order of
its sequences, and is committed there together.

A connection ends with one error, for which everything fails that still waits for an acknowledgement.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Protocol

from parley.bus.blocks import Buffer
from parley.bus.deadlines import Deadlines
from parley.bus.envelope import Opened
from parley.bus.fingerprint import short
from parley.bus.link import (
    KEEPALIVE,
    Arrived,
    Learned,
    Link,
    Met,
    Refused,
    TopicsTold,
    Unacceptable,
    refusal_of,
)
from parley.bus.link_frames import Alive, Answer, Hello, Renewal, Statements, Topics, encode_frame
from parley.bus.transport import Channel, Frame
from parley.bus.watchdog import Watchdog
from parley.core import limits
from parley.core.bus_errors import (
    BusError,
    CertificateExpired,
    ChainInvalid,
    ChannelClosed,
    LinkInvalid,
    OtherUser,
    PeerUnreachable,
    Revoked,
)
from parley.core.clock import Clock

_log: Final = logging.getLogger(__name__)
_ABOUT_THE_PEER: Final = (ChainInvalid, OtherUser, Revoked, CertificateExpired)
"""Ends that say what will become of the next connection, too."""
_UNSENT_MAX: Final = 4 * limits.BUS_UNANSWERED_MAX
"""Frames that wait to be written: more than an honest peer ever leaves there, which reads what it is answered."""
_TOGETHER_BYTES_MAX: Final = 64 * 1024
"""Frames that wait go out together up to this, so that small ones share a record and a call of the system."""
_TURNS: Final = 3
"""Turns of the loop that an acknowledgement waits for company: in so many a handler that is quick has replied, and
whoever has its reply asks again."""


class Owner(Protocol):
    """Who is told what happens on a connection. None of these may wait for anything."""

    def met(self, connection: "Connection") -> None:
        """The peer is known and believed."""
        ...

    def arrived(self, connection: "Connection", opened: Opened) -> None:
        """An envelope came that is believed. Called in the order in which they came."""
        ...

    def topics_told(self, connection: "Connection") -> None:
        """The peer subscribes to other topics now."""
        ...

    def renewed(self, connection: "Connection", line: str) -> None:
        """The peer gave a grant for this agent, which nobody has looked at yet."""
        ...

    def learned(self) -> None:
        """More is known to be revoked than before."""
        ...


class _Outgoing(NamedTuple):
    frame: Frame
    waiting: "asyncio.Future[Answer] | None" = None
    """Of an envelope: the answer to it, which has to come in time once it is written."""
    can_wait: bool = False
    """Whether nobody minds if something else is waited for that may go with it."""
    last: BusError | None = None
    """With this the connection ends once the frame is written."""


class Connection:
    """``run`` is its life; the other methods are for whoever uses it meanwhile."""

    def __init__(self, channel: Channel, link: Link, hello: Hello, clock: Clock, *, dialled: bool) -> None:
        self.link = link
        self.peer = link.peer
        self.dialled = dialled
        self.number = hello.number
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the peer is known; fails with the reason for which it will not be."""
        self.ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())
        self._channel = channel
        self._clock = clock
        self._outgoing: deque[_Outgoing] = deque([_Outgoing(encode_frame(hello))])
        self._more = asyncio.Event()
        self._window = asyncio.Semaphore(limits.BUS_UNANSWERED_MAX)
        self._order = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._deadlines = Deadlines(limits.BUS_ACK_SECONDS)
        self._admitting = 0
        self._admitting_bytes = 0
        self._admitted = asyncio.Event()
        self._ended: asyncio.Future[BusError] = asyncio.get_running_loop().create_future()
        self._quiet = Watchdog(limits.BUS_ALIVE_SECONDS, self._say_something)
        self._stalled = self._watch("the peer takes nothing")
        self._silent = self._watch("the peer has gone quiet")

    @property
    def ended(self) -> bool:
        """Whether it is of no use any more."""
        return self._ended.done()

    async def run(self, owner: Owner) -> None:
        """Says hello, hears who the other side is, and reads until the end."""
        reader = asyncio.ensure_future(self._read(owner))
        writer = asyncio.ensure_future(self._write())
        try:
            await asyncio.wait({reader, writer, self._ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.end(ChannelClosed("the connection was closed"))
            reader.cancel()
            writer.cancel()
            for outcome in await asyncio.gather(reader, writer, return_exceptions=True):
                if isinstance(outcome, Exception):
                    _log.error("a connection to %s failed", short(self.peer), exc_info=outcome)
            for each in (self._quiet, self._stalled, self._silent, self._deadlines):
                each.stop()
            await self._channel.close()

    def end(self, error: BusError) -> None:
        """Ends it, for this reason unless there was one before."""
        if self._ended.done():
            return
        self._ended.set_result(error)
        if not self.ready.done():
            self.ready.set_exception(self._as_told(error))
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(self._as_told(error))

    def refuse(self, error: BusError) -> None:
        """Ends it once the peer was told why."""
        _log.warning("the connection to %s ends: %s", short(self.peer), error)
        if not self.ended:
            self._put(_Outgoing(encode_frame(refusal_of(error)), last=error))

    async def deliver(
        self,
        sequences: Callable[[], Awaitable[int]],
        sign: Callable[[int], Frame],
        told: "asyncio.Future[bytes] | None" = None,
    ) -> Answer:
        """Sends an envelope, signed once its sequence is known, and waits for the answer.

        ``told`` is what else would tell that the peer has it. Raises ``NotAcknowledged`` if no answer came in time, and
        the error with which the connection ended.
        """
        async with self._window:
            async with self._order:
                sequence = await sequences()
                self._require_open()
                waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
                self._put(_Outgoing(sign(sequence), waiting))
                self._waiting[sequence] = waiting
            if told is not None:
                told.add_done_callback(lambda _: waiting.done() or waiting.set_result(Answer(sequence, "accepted")))
            try:
                return await waiting
            finally:
                del self._waiting[sequence]

    def begin_admission(self, size: int) -> None:
        """An envelope of this connection is on its way into the store."""
        self._admitting += 1
        self._admitting_bytes += size

    def end_admission(self, size: int, answer: Answer) -> None:
        """The store has judged it."""
        self._admitting -= 1
        self._admitting_bytes -= size
        self._admitted.set()
        self.answer(answer)

    def answer(self, answer: Answer) -> None:
        """Tells what became of an envelope."""
        if len(self._outgoing) >= _UNSENT_MAX:
            self.end(ChannelClosed("the peer does not read what it is answered"))
        else:
            self._tell(encode_frame(answer), can_wait=True)

    def tell_topics(self, topics: tuple[str, ...]) -> None:
        """Tells what this side subscribes to now."""
        self._tell(encode_frame(Topics(topics)))

    def tell_statements(self, statements: tuple[bytes, ...]) -> None:
        """Tells what is known to be revoked now."""
        self._tell(encode_frame(Statements(statements)))

    def tell_renewal(self, line: str) -> None:
        """Gives the peer a grant in the place of the one that it has."""
        self._tell(encode_frame(Renewal(line)))

    def _watch(self, end: str) -> Watchdog:
        return Watchdog(limits.BUS_SILENCE_SECONDS, lambda: self.end(ChannelClosed(end)))

    def _tell(self, frame: bytes, *, can_wait: bool = False) -> None:
        if not self.ended:
            self._put(_Outgoing(frame, can_wait=can_wait))

    def _put(self, outgoing: _Outgoing) -> None:
        self._outgoing.append(outgoing)
        self._more.set()

    async def _write(self) -> None:
        try:
            self._quiet.feed()
            while True:
                together = await self._next()
                self._stalled.feed()
                await self._channel.send(*(each.frame for each in together))
                self._stalled.pause()
                self._quiet.feed()
                for each in together:
                    if each.waiting is not None:
                        self._deadlines.begin(each.waiting)
                    if each.last is not None:
                        self.end(each.last)
                        return
        except BusError as error:
            self.end(error)

    async def _next(self) -> "Sequence[_Outgoing]":
        """What is to be written now, a few frames of what waits, or one long one."""
        while not self._outgoing:
            self._more.clear()
            await self._more.wait()
        for _ in range(_TURNS):
            if not self._outgoing[0].can_wait or len(self._outgoing) > 1:
                break
            await asyncio.sleep(0)
        together = [self._outgoing.popleft()]
        size = _length(together[0].frame)
        while self._outgoing and (size := size + _length(self._outgoing[0].frame)) <= _TOGETHER_BYTES_MAX:
            together.append(self._outgoing.popleft())
        return together

    def _say_something(self) -> None:
        self._tell(KEEPALIVE)
        self._quiet.feed()

    async def _read(self, owner: Owner) -> None:
        try:
            async with asyncio.timeout(limits.BUS_HELLO_SECONDS):
                self._heed(owner, await self._channel.receive())
            while True:
                await self._room()
                self._silent.feed()
                frame = await self._channel.receive()
                self._silent.pause()
                self._heed(owner, frame)
        except ChannelClosed as error:
            self.end(error)
        except TimeoutError:
            self.end(PeerUnreachable("the peer does not say who it is"))
        except BusError as error:
            self.refuse(error)
            await asyncio.shield(self._ended)

    def _heed(self, owner: Owner, frame: Buffer) -> None:
        match self.link.receive(frame, self._clock.now_ms()):
            case Met(learned=learned):
                if learned:
                    owner.learned()
                if not self.ready.done():
                    self.ready.set_result(None)
                    owner.met(self)
            case Arrived(opened):
                owner.arrived(self, opened)
            case Unacceptable(sequence, error):
                _log.warning("an envelope of %s is refused: %s", short(self.peer), error)
                self.answer(Answer(sequence, "refused", refusal=refusal_of(error)))
            case Answer() as answer:
                waiting = self._waiting.get(answer.sequence)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
            case TopicsTold():
                owner.topics_told(self)
            case Learned(new):
                if new:
                    owner.learned()
            case Renewal(line):
                owner.renewed(self, line)
            case Refused(error):
                self.end(error)
            case Alive():
                pass

    async def _room(self) -> None:
        """Waits while as much is on its way into the store as may be. That depends on nobody but the store."""
        while self._admitting >= limits.BUS_UNANSWERED_MAX or self._admitting_bytes >= limits.BUS_ADMITTING_BYTES_MAX:
            self._admitted.clear()
            await self._admitted.wait()

    def _require_open(self) -> None:
        if self._ended.done():
            raise self._as_told(self._ended.result())

    def _as_told(self, error: BusError) -> BusError:
        """The end for whoever waits: what the peer is or said stays so; anything else the next connection may mend.

        Two that do not understand each other are of different versions, and one of them will be upgraded.
        """
        if not isinstance(error, LinkInvalid) and (isinstance(error, _ABOUT_THE_PEER) or "peer" in error.details):
            return error
        return error if isinstance(error, ChannelClosed) else ChannelClosed(f"the connection has ended: {error}")


def _length(frame: Frame) -> int:
    return sum(map(len, frame)) if isinstance(frame, tuple) else len(frame)
