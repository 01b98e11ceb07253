"""TLS before HTTP: a connection counts from its first moment, not from when both sides have agreed.

A server that the event loop makes for TLS shows a connection only after the handshake. Until then nobody could count it
or close it to make room, and whoever opens connections and says nothing would use up all descriptors.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from parley.serve.connections import Connections

HANDSHAKE_SECONDS: Final = 10.0
"""How long a caller may take to agree on TLS."""
FAREWELL_SECONDS: Final = 30.0
"""How long a caller may take to receive the end of its last answer and to agree that this was it."""
_PAUSE_SECONDS: Final = 0.1
"""Between two tries to accept where the system has no descriptor left."""


class TlsListener:
    """Accepts connections, each of which becomes a protocol of its own once TLS is agreed on."""

    def __init__(
        self,
        listening: socket.socket,
        context: ssl.SSLContext,
        connections: Connections,
        made: Callable[[], asyncio.Protocol],
    ) -> None:
        self._listening = listening
        self._context = context
        self._connections = connections
        self._made = made
        self._accepting: asyncio.Task[None] | None = None

    def start(self, backlog: int) -> None:
        """Accepts connections from now on."""
        self._listening.listen(backlog)
        self._listening.setblocking(False)
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """Accepts nothing more."""
        assert self._accepting is not None
        self._accepting.add_done_callback(lambda _: self._listening.close())
        self._accepting.cancel()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listening)
            except OSError:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            task = loop.create_task(self._agree(accepted))
            self._connections.tasks.add(task)
            task.add_done_callback(self._connections.tasks.discard)
            handshake = _Handshake(task)
            self._connections.enter(handshake)
            task.add_done_callback(lambda _, ended=handshake: self._connections.leave(ended))

    async def _agree(self, accepted: socket.socket) -> None:
        with suppress(OSError):  # it hung up, took too long, or does not speak TLS
            await asyncio.get_running_loop().connect_accepted_socket(
                self._made,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=FAREWELL_SECONDS,
            )


class _Handshake:
    """A connection that is on its way to TLS."""

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self._task = task

    def abort(self) -> None:
        self._task.cancel()

    shutdown = abort
