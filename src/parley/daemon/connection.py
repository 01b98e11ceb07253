"""One socket to a broker: a task that opens it and waits for its end, and callbacks for all that is said on it.

What is said is handled where it is parsed and written where it is asked for, without a task or a queue in between: a
message crosses a daemon in four frames, and each would be waited for twice.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.frames import Frame, Opcode
from websockets.protocol import Event, State
from websockets.typing import BytesLike

from parley.core.limits import BROKER_FRAME_BYTES_MAX

OPEN_SECONDS: Final = 10.0
LEAVE_SECONDS: Final = 10.0
"""How long a connection that was left may take to end; a broker that reads no more would keep it for ever."""
_NO_CONNECTION: Final = (OSError, TimeoutError, InvalidHandshake, InvalidURI, EOFError)


class Listener(Protocol):
    """Whom a connection tells of itself."""

    url: str

    def opened(self, connection: "Connection") -> None: ...

    def heard(self, connection: "Connection", data: bytes | str) -> None: ...

    def lost(self, connection: "Connection", code: int | None, reason: str) -> None: ...


class BrokerSocket(ClientConnection):
    """A WebSocket that hands on what it hears at once."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._on_text: Callable[[BytesLike], None] | None = None

    def hand_on(self, on_text: Callable[[BytesLike], None]) -> None:
        """From now on. What came before is read as from any WebSocket."""
        self._on_text = on_text

    def write(self, data: bytes) -> None:
        """Sends a text. On a socket that is not open it goes nowhere: its end is told of by itself."""
        if self.protocol.state is State.OPEN:
            self.protocol.send_text(data)
            self.send_data()

    def process_event(self, event: Event) -> None:
        if self._on_text is None or not isinstance(event, Frame) or event.opcode is not Opcode.TEXT:
            super().process_event(event)
        elif event.fin:
            self._on_text(event.data)
        else:
            self._on_text = None  # put together with what follows it, and so is all that comes after
            super().process_event(event)


class Connection:
    """From the first try to open it until its end. Belongs to the loop's thread."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._left: tuple[int, str] | None = None
        self._socket: BrokerSocket | None = None
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._live())
        self._leaving: asyncio.Task[None] | None = None

    def send(self, data: bytes) -> None:
        """Writes a frame. What is unanswered is bounded by the window, so what waits to be sent is, too."""
        if self._socket is not None and self._left is None:
            self._socket.write(data)

    def leave(self, code: int, reason: str) -> None:
        """Closes after what was written; nothing more is told."""
        self._left = (code, reason)
        if self._socket is None:
            self._task.cancel()
        else:
            self._leaving = self._loop.create_task(self._socket.close(code, reason))
            self._loop.call_later(LEAVE_SECONDS, self._socket.transport.abort)

    async def closed(self) -> None:
        """Waits for the end."""
        ends = [self._task] if self._leaving is None else [self._task, self._leaving]
        await asyncio.gather(*ends, return_exceptions=True)

    async def _live(self) -> None:
        code: int | None = None
        reason = ""
        try:
            async with connect(
                self._listener.url,
                open_timeout=OPEN_SECONDS,
                ping_interval=None,
                compression=None,
                max_size=BROKER_FRAME_BYTES_MAX,
                proxy=None,
                create_connection=BrokerSocket,
            ) as socket:
                assert isinstance(socket, BrokerSocket)
                self._socket = socket
                self._listener.opened(self)
                socket.hand_on(self._hear)
                async for data in socket:
                    self._hear(data)
                code, reason = socket.close_code, socket.close_reason or ""
        except ConnectionClosed as error:
            code = error.rcvd.code if error.rcvd else 1006
            reason = error.rcvd.reason if error.rcvd else "the connection broke"
        except _NO_CONNECTION as error:
            reason = f"{type(error).__name__}: {error}"
        if self._left is None:
            self._listener.lost(self, code, reason)

    def _hear(self, data: BytesLike | str) -> None:
        self._listener.heard(self, data if isinstance(data, str) else bytes(data))
