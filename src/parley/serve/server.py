"""A socket that listens, and the connections that it has accepted: a shell put on a network.

uvicorn's protocol classes do the parsing; its own server is not used, since signals, start and stop are the life
cycle's.
"""

import asyncio
import resource
import socket
import ssl
from contextlib import suppress
from typing import Any, Final

import uvicorn

from parley.serve.connections import Connections
from parley.serve.http import HttpConnection
from parley.serve.shell import Shell
from parley.serve.tls import TlsListener

BACKLOG: Final = 2_048
"""Connections that may wait to be accepted; the system lowers it to its own limit."""
CONNECTIONS_MAX: Final = 2_048
"""Connections of a server for one machine; more than its agents, people and pages ever open."""
STOP_PATIENCE_SECONDS: Final = 2.0
"""How long a stop waits for callers: for the rest of a request, and for those who do not take their answer."""
_FILES_BESIDE: Final = 512
"""Open files besides connections: databases, logs, plugins."""
_ENDED_LOOK_SECONDS: Final = 0.01


class HttpServer:
    """Serves a shell on a socket from ``start`` to ``stop``."""

    def __init__(
        self,
        shell: Shell[Any],
        listening: socket.socket,
        *,
        tls: ssl.SSLContext | None = None,
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        self.shell = shell
        self._listening = listening
        self._tls = tls
        self.connections = Connections(_open_files(connections_max))
        self.config = uvicorn.Config(
            shell,  # pyright: ignore[reportArgumentType]
            http=HttpConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
        )
        self.config.load()
        self._server: asyncio.Server | TlsListener | None = None

    async def start(self) -> None:
        """Accepts connections from now on."""
        if self._tls is not None:
            self._server = TlsListener(self._listening, self._tls, self.connections, self._connection)
            self._server.start(BACKLOG)
            return
        self._server = await asyncio.get_running_loop().create_server(
            self._connection, sock=self._listening, backlog=BACKLOG
        )

    async def listen_on(self, listening: socket.socket) -> None:
        """Accepts connections on another socket from now on. Those that are open go on."""
        before, self._listening = self._server, listening
        await self.start()
        if before is not None:
            before.close()

    async def stop(self, seconds: float) -> None:
        """Accepts nothing more, and ends the connections once they are answered, or after a time in any case.

        Whoever keeps the server waiting gets less of that time than a request that is being answered.
        """
        if self._server is None:
            return
        self._server.close()
        for connection in list(self.connections.connections):
            connection.shutdown()
        await self._until_idle(min(seconds, STOP_PATIENCE_SECONDS))
        self.give_up_callers()
        await self._until_idle(seconds - STOP_PATIENCE_SECONDS)
        for task in self.connections.tasks:
            task.cancel()
        await asyncio.gather(*self.connections.tasks, return_exceptions=True)

    def give_up_callers(self) -> None:
        """Closes the connections whose request is not whole, or whose answer is not taken."""
        for connection in list(self.connections.waiting):
            connection.abort()

    async def _until_idle(self, seconds: float) -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        while self.connections.busy and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110  a set of uvicorn's
            await asyncio.sleep(_ENDED_LOOK_SECONDS)

    def _connection(self) -> HttpConnection:
        return HttpConnection(self.config, self.connections, {})


def _open_files(connections: int) -> int:
    """How many of these connections the system allows, once it was asked for all that it may give."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _FILES_BESIDE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return connections if soft == resource.RLIM_INFINITY else max(1, min(connections, soft - _FILES_BESIDE))
