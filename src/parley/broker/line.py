"""One connection of a broker: a socket, its session, and what waits to be sent on it.

What the daemon says is decoded and given to the session; what the session replies is written, or waits until the
daemon has taken what was written before, so that a slow one holds nobody up. One that takes nothing while much is said
is closed: its deliveries are on disk, and it finds them when it comes back. Since it may not even take that it is
closed, it is left alone after a while, whatever was still to be said.
"""

import asyncio
import secrets
from collections import deque
from typing import TYPE_CHECKING, Final

from parley.broker.session import Ask, Close, Effect, Reply, Session
from parley.core.errors import ParleyError
from parley.core.ids import new_uuid
from parley.serve.connections import Connections
from parley.serve.door import Visit
from parley.serve.security_headers import HeaderList
from parley.serve.websocket import CLOSE_SECONDS, WebSocket, text_frame
from parley.wire.broker import (
    NONCE_BYTES,
    Accepted,
    DeliveryAck,
    FromBroker,
    Push,
    RefusedSend,
    decode_from_daemon,
    encode_frame,
)

if TYPE_CHECKING:
    from parley.broker.server import Broker

FRAME_BYTES_MAX: Final = 256 * 1024
"""Room for the largest body in base64, and what is around it."""
_TOO_SLOW: Final = 1008


class Line(WebSocket):
    """A daemon's connection."""

    def __init__(self, broker: "Broker", visit: Visit, connections: Connections, headers: HeaderList) -> None:
        super().__init__(visit, connections, headers, broker.log, message_bytes_max=FRAME_BYTES_MAX)
        self.session = Session(broker.setting, new_uuid(), secrets.token_hex(NONCE_BYTES), broker.now)
        self.close_code: int | None = None
        """Why the broker closes it, if it does."""
        self._broker = broker
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._ending: Close | None = None
        self._patience: asyncio.TimerHandle | None = None

    def perform(self, effects: list[Effect]) -> None:
        """Carries out what the session wants."""
        for effect in effects:
            match effect:
                case Reply(frame):
                    self._put(frame)
                case Close():
                    self._close_after(effect)
                case Ask():
                    self._broker.ask(self, effect)
                case _:
                    self._broker.carry_out(self, effect)

    def opened(self) -> None:
        self._broker.opened(self)
        self.perform(self.session.on_stopping() if self._broker.stopping else self.session.open())

    def heard(self, message: bytes) -> None:
        broker = self._broker
        try:
            frame = decode_from_daemon(message)
        except ParleyError as error:
            self.perform(self.session.on_unreadable(error, broker.now))
            return
        if isinstance(frame, DeliveryAck):
            broker.metrics.inc("parley_broker_acknowledged_total", len(frame.deliveries))
        self.perform(self.session.on_frame(frame, broker.now))

    def drained(self) -> None:
        self._send()

    def ended(self, code: int) -> None:
        self._forget()
        if self._patience is not None:
            self._patience.cancel()
        self._loop.call_soon(self._broker.ended, self)  # it may just be performing what a session wants

    def _put(self, frame: FromBroker) -> None:
        if self._ending is not None:
            return
        self._count(frame)
        data = text_frame(encode_frame(frame))
        self._frames.append(data)
        self._bytes += len(data)
        self._send()
        policy = self._broker.policy
        if len(self._frames) > policy.queue_frames_max or self._bytes > policy.queue_bytes_max:
            self._forget()
            self._close_after(Close(_TOO_SLOW, "SLOW"))

    def _count(self, frame: FromBroker) -> None:
        metrics = self._broker.metrics
        match frame:
            case Push():
                metrics.inc("parley_broker_pushed_total")
            case Accepted():
                metrics.inc("parley_broker_accepted_total", 1, str(frame.status))
            case RefusedSend():
                metrics.inc("parley_broker_refused_total", 1, frame.problem.code)
            case _:
                pass

    def _send(self) -> None:
        """Writes what waits until the socket is full, and then the end if there is to be one."""
        while self._frames and not self.is_full:
            data = self._frames.popleft()
            self._bytes -= len(data)
            self.write(data)
        if self._ending is not None and not self.is_full:
            self.close(self._ending.code, self._ending.reason)

    def _forget(self) -> None:
        """Drops what was to be sent."""
        self._frames.clear()
        self._bytes = 0

    def _close_after(self, close: Close) -> None:
        """Closes it once all that waits is sent, or after a while in any case."""
        if self._ending is None:
            self._ending, self.close_code = close, close.code
            self._patience = self._loop.call_later(CLOSE_SECONDS, self.abort)
        self._send()
