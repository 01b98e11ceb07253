"""A channel over TLS: frames on one connection, with bounds on what either side can make the other keep.

asyncio does the handshake and calls the channel when it is over. Whole frames wait here until they are taken. While
more than ``_WAITING_BYTES_MAX`` of them wait nothing is read, so a peer that sends faster than it is listened to is
slowed down by TCP, and holds at most one frame of the largest kind beyond that.

Between frames a peer may be silent for ever; the kernel asks whether its machine is there. Within a frame each silence
has an end, but not while it is we who do not read.
"""

import asyncio
import socket
import ssl
from collections import deque
from contextlib import suppress
from typing import Any, Final, cast

from parley.bus.blocks import Buffer
from parley.bus.fingerprint import Fingerprint
from parley.bus.frames import FrameReader, pieces_of
from parley.bus.tls_contexts import peer_of
from parley.bus.transport import Frame
from parley.core import limits
from parley.core.bus_errors import BusError, ChannelClosed, FrameTooLarge

_WAITING_BYTES_MAX: Final = 256 * 1024
"""Room for many small frames, so that a reader that is woken finds more than one."""
SCRATCH_BYTES: Final = 256 * 1024
"""As much as asyncio decrypts at once."""
_PROBE_AFTER_SECONDS: Final = 30
_PROBE_EVERY_SECONDS: Final = 10
_PROBES: Final = 3
_UNACKNOWLEDGED_MS_MAX: Final = 60_000
"""A machine that lost its power says no goodbye; after a minute without a sign of it the kernel ends the connection."""


class TlsChannel(asyncio.BufferedProtocol):
    """A ``Channel``. ``prove`` comes first, once the handshake is over."""

    def __init__(
        self,
        *,
        frame_gap_seconds: float = limits.BUS_FRAME_GAP_SECONDS,
        farewell_seconds: float = limits.BUS_FAREWELL_SECONDS,
        scratch: bytearray | None = None,
    ) -> None:
        """``scratch`` may be shared by all channels of a loop: what is read there is taken out at once."""
        self._loop = asyncio.get_running_loop()
        self._frame_gap_seconds = frame_gap_seconds
        self._farewell_seconds = farewell_seconds
        self._peer: Fingerprint | None = None
        self._transport: asyncio.Transport | None = None
        self._failure: BusError | None = None
        self._reader = FrameReader()
        self._scratch = memoryview(scratch or bytearray(SCRATCH_BYTES))
        self._frames: deque[Buffer] = deque()
        self._waiting_bytes = 0
        self._is_reading = True
        self._heard_at = 0.0
        self._gap_timer: asyncio.TimerHandle | None = None
        self._may_receive = asyncio.Event()
        self._may_send = asyncio.Event()
        self._may_send.set()
        self._lost = asyncio.Event()

    @property
    def peer(self) -> Fingerprint:
        """The fingerprint of the other side's agent key."""
        assert self._peer is not None, "the key of the other side has not been proven"
        return self._peer

    def prove(self) -> Fingerprint:
        """Takes the peer from its certificate. Raises ``ChainInvalid``, or ``ChannelClosed``."""
        if self._transport is None:
            raise self._failed()
        self._peer = peer_of(cast(ssl.SSLObject, self._transport.get_extra_info("ssl_object")))
        return self._peer

    async def send(self, *frames: Frame) -> None:
        """Hands frames over; waits while the other side takes nothing. Raises ``ChannelClosed``, ``FrameTooLarge``."""
        pieces = pieces_of(frames)
        if self._failure is not None or self._transport is None:
            raise self._failed()
        self._transport.writelines(pieces)
        await self._may_send.wait()
        if self._failure is not None:
            raise self._failed()

    async def receive(self) -> Buffer:
        """The next frame. Raises ``ChannelClosed`` at the end, ``FrameTooLarge`` before it has read such a frame."""
        while not self._frames:
            if self._failure is not None:
                raise self._failed()
            self._may_receive.clear()
            await self._may_receive.wait()
        frame = self._frames.popleft()
        self._waiting_bytes -= len(frame)
        if not self._frames:
            self._read_on()
        return frame

    async def close(self) -> None:
        """Lets go of the connection. What is on its way has a moment to get there."""
        self._fail(ChannelClosed("the channel was closed on this side"))
        self._frames.clear()
        if self._transport is None:
            return
        self._transport.close()
        try:
            async with asyncio.timeout(self._farewell_seconds):
                await self._lost.wait()
        except TimeoutError:
            pass
        finally:
            self.abort()

    def abort(self) -> None:
        """Lets go at once."""
        self._fail(ChannelClosed("the channel was closed on this side"))
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._failure is not None:  # whoever dialled has given up meanwhile
            self._transport.abort()
            return
        with suppress(OSError):  # the other side is gone, which the transport is about to tell
            _set_options(transport.get_extra_info("socket"))

    def connection_lost(self, exc: Exception | None) -> None:
        reason = "the other side closed the channel" if exc is None else f"the connection was lost: {exc}"
        self._fail(ChannelClosed(reason))
        self._transport = None
        self._lost.set()

    def data_received(self, data: memoryview | bytes) -> None:
        if self._failure is not None:
            return
        self._heard_at = self._loop.time()
        self._reader.feed(data)
        try:
            while (frame := self._reader.take()) is not None:
                self._frames.append(frame)
                self._waiting_bytes += len(frame)
        except FrameTooLarge as error:
            self._fail(error)
            self.abort()
        if self._frames:
            self._may_receive.set()
        if self._waiting_bytes > _WAITING_BYTES_MAX and self._transport is not None:
            self._is_reading = False
            self._transport.pause_reading()
        self._watch_gap()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(self._scratch[:nbytes])

    def eof_received(self) -> None:
        self._fail(ChannelClosed("the other side closed the channel"))

    def pause_writing(self) -> None:
        self._may_send.clear()

    def resume_writing(self) -> None:
        self._may_send.set()

    def _read_on(self) -> None:
        if self._is_reading or self._transport is None:
            return
        self._is_reading = True
        self._heard_at = self._loop.time()
        self._transport.resume_reading()
        self._watch_gap()

    def _watch_gap(self) -> None:
        """One timer at a time, which looks when the last byte came: most frames are whole long before it fires."""
        if self._gap_timer is None and self._reader.is_within_frame and self._failure is None:
            self._gap_timer = self._loop.call_at(self._heard_at + self._frame_gap_seconds, self._gap_over)

    def _gap_over(self) -> None:
        self._gap_timer = None
        if not self._is_reading:
            return
        if self._reader.is_within_frame and self._loop.time() >= self._heard_at + self._frame_gap_seconds:
            self._fail(ChannelClosed("the other side fell silent within a frame"))
            self.abort()
            return
        self._watch_gap()

    def _fail(self, failure: BusError) -> None:
        """From now on nothing is sent, and nothing received but what is there. The first reason is told."""
        if self._failure is None:
            self._failure = failure
        if self._gap_timer is not None:
            self._gap_timer.cancel()
            self._gap_timer = None
        self._may_receive.set()
        self._may_send.set()

    def _failed(self) -> BusError:
        """A new one each time, as each gathers a traceback of its own."""
        failure = self._failure or ChannelClosed("the channel is not open yet")
        return type(failure)(failure.message, **failure.details)


def _set_options(connection: Any) -> None:
    """Has the kernel send small frames at once, and notice a machine that is gone without a word, as far as it can.

    asyncio does the first for sockets that it opens, and not for those that it is given: an answer behind an
    acknowledgement would wait 40 milliseconds.
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wanted = {
        "TCP_KEEPIDLE": _PROBE_AFTER_SECONDS,
        "TCP_KEEPINTVL": _PROBE_EVERY_SECONDS,
        "TCP_KEEPCNT": _PROBES,
        "TCP_USER_TIMEOUT": _UNACKNOWLEDGED_MS_MAX,
    }
    for name, value in wanted.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
