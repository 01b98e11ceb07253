"""The life of a server on its event loop, from bound sockets to a clean end. What it is made of differs, the order does
not:

1. It begins its work, accepts connections, and says that it serves.
2. It goes on until somebody asks it to stop, or a part that must not end has ended.
3. It refuses new work, lets what is in flight finish, ends what it does by itself and closes its feeds, closes its
   connections, and then gives back what it holds.
"""

import asyncio
import signal
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from structlog.typing import FilteringBoundLogger

from parley.core.exits import Exit
from parley.serve.drain import InFlight
from parley.serve.redact import register_secret
from parley.serve.server import STOP_PATIENCE_SECONDS, HttpServer
from parley.serve.token import TokenStore


class Life(ABC):
    """One life. A server of ours says in a subclass what it does at each step."""

    def __init__(self, log: FilteringBoundLogger, tokens: TokenStore, *, drain_seconds: float) -> None:
        self.log = log
        self.tokens = tokens
        self.drain_seconds = drain_seconds
        self.in_flight = InFlight()
        self.reason = ""
        self._over = asyncio.Event()
        self._asked = False
        self._parts: list[asyncio.Task[None]] = []

    @property
    def asked_to_stop(self) -> bool:
        """Whether somebody wanted it to end."""
        return self._asked

    def stop(self, reason: str) -> None:
        """Ends the life in good order, because somebody asked for it."""
        self._asked = True
        self.end(reason)

    def end(self, reason: str) -> None:
        """Ends the life in good order, because it cannot go on."""
        self.reason = self.reason or reason
        self._over.set()

    def run_beside(self, work: Coroutine[Any, Any, None], *, needed: bool = False) -> None:
        """Runs a part until the connections close. One that is ``needed`` ends the life when it ends by itself."""
        part = asyncio.create_task(work)
        self._parts.append(part)
        part.add_done_callback(partial(self._part_ended, needed=needed))

    async def run(self) -> Exit:
        """All of it. Raises what prevents the start."""
        self.load_token()
        servers = self.make()
        try:
            await self.begin()
            for server in servers:
                await server.start()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.stop, signal.Signals(number).name)
            await self.announce()
            await self._over.wait()
        finally:
            await self._end(servers)
        return self.outcome()

    async def _end(self, servers: Sequence[HttpServer]) -> None:
        self.log.info("stopping", reason=self.reason)
        self.in_flight.close()
        if not await self._drain(servers):
            self.log.warning("drain_timed_out", in_flight=self.in_flight.count)
        await self.fall_silent()
        for part in self._parts:
            part.cancel()
        for server in servers:
            await server.stop(self.drain_seconds)
        await asyncio.gather(*self._parts, return_exceptions=True)
        await self.give_back()
        self.log.info("stopped", reason=self.reason)

    async def _drain(self, servers: Sequence[HttpServer]) -> bool:
        """Lets what is in flight finish; whether all of it did. A request that is not whole yet is soon given up."""
        patience = min(STOP_PATIENCE_SECONDS, self.drain_seconds / 2)
        if await self.in_flight.wait_empty(patience):
            return True
        for server in servers:
            server.give_up_callers()
        return await self.in_flight.wait_empty(self.drain_seconds - patience)

    def load_token(self) -> None:
        """Reads the token, or makes one."""
        for warning in self.tokens.load():
            self.log.warning("token", problem=warning)
        register_secret(self.tokens.current)

    def _part_ended(self, part: "asyncio.Task[None]", *, needed: bool) -> None:
        error = None if part.cancelled() else part.exception()
        if error is not None:
            self.log.error("part_failed", exc_info=error)
        if needed:
            self.end("failed")

    @abstractmethod
    def make(self) -> Sequence[HttpServer]:
        """Puts the server together; where it will be spoken to."""

    @abstractmethod
    async def begin(self) -> None:
        """Starts what must run before anybody connects."""

    @abstractmethod
    async def announce(self) -> None:
        """It accepts connections: says so, to whoever started it and to whoever looks for it."""

    @abstractmethod
    async def fall_silent(self) -> None:
        """Nothing is in flight any more: ends derived work, and closes the feeds."""

    @abstractmethod
    async def give_back(self) -> None:
        """All connections are closed: closes stores and files."""

    def outcome(self) -> Exit:
        """How it ended."""
        return Exit.OK if self._asked else Exit.ERROR
