"""A daemon in this process, without sockets of its own."""

import asyncio
import io
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import httpx

from parley.core import sealing
from parley.core.clock import SystemClock
from parley.core.daemon_settings import DaemonSettings
from parley.daemon.daemon import Daemon
from parley.daemon.http.door import DaemonDoor, Transport
from parley.daemon.inbox.reading import Filter, page
from parley.daemon.lifecycle import daemon_shell
from parley.daemon.memberships import Membership, MeshKey
from parley.serve import InFlight, RateLimiter, TokenStore
from parley.serve.logs import configure
from parley.serve.shell import Shell
from parley.wire.daemon_home import DaemonHome

PORT = 47_823
BOB = sealing.public_key(b"\x0b" * 32).hex()
EVE = sealing.public_key(b"\x0e" * 32).hex()


def member(slug: str, seed: bytes = b"\1" * 32) -> Membership:
    return Membership(
        mesh_id=f"mesh_{slug}",
        slug=slug,
        broker_url="http://127.0.0.1:9",
        member_id=f"mem_{slug}",
        display_name="alice",
        seed=seed.hex(),
        joined_at="2026-01-01T00:00:00.000Z",
        mesh_keys=[MeshKey(1, "aa" * 32)],
    )


class ServedDaemon:
    """A running daemon and a client for each transport."""

    def __init__(self, home: DaemonHome, settings: DaemonSettings) -> None:
        self.home = home
        self.clock = SystemClock()
        self.log = io.BytesIO()
        self._logging = configure("info", self.log)
        self.daemon = Daemon(
            home, settings, clock=self.clock, log=self._logging.logger, host_fingerprint="host", instance_id="inst"
        )
        self.tokens = TokenStore(home.token, self.clock, 60)
        self.tokens.load()
        self.in_flight = InFlight()
        self._closed = False
        self.unix = self._client("unix")
        self.tcp = self._client("tcp")

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.tokens.current}"}

    def api(self, transport: Transport) -> Shell[Daemon]:
        """The daemon's API, as this transport shows it."""
        rate = self.daemon.settings.ipc.rate_per_second
        door = DaemonDoor(
            self.daemon,
            transport,
            self.tokens,
            in_flight=self.in_flight,
            limiter=RateLimiter(rate, rate, self.clock),
            strangers=RateLimiter(rate, rate, self.clock),
            port=PORT,
        )
        return daemon_shell(self.daemon, door)

    def _client(self, transport: Transport) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self.api(transport)), base_url=f"http://127.0.0.1:{PORT}"
        )

    async def send(self, to: str = BOB, message: str = "hello", **more: Any) -> httpx.Response:
        return await self.unix.post("/v1/send", json={"to": to, "message": message, **more})

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until something is so, looking at each event of the daemon's log."""
        follower = self.daemon.feed.follow()
        try:
            async with asyncio.timeout(60):
                while not condition():
                    follower.caught_up()
                    with suppress(TimeoutError):
                        await follower.wait(0.1)
        finally:
            self.daemon.feed.leave(follower)

    def bodies(self) -> list[str | None]:
        """What arrived, in the order of its arrival."""
        return [each.body for each in reversed(self.daemon.store.read_inbox(lambda db: page(db, Filter(), 1000)))]

    def states(self) -> dict[str, int]:
        """How many rows of the outbox are in which state."""
        rows = self.daemon.store.read_outbox(
            lambda db: db.execute("SELECT status, count(*) FROM outbox GROUP BY status").fetchall()
        )
        return {str(status): int(str(number)) for status, number in rows}

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self.unix.aclose()
        await self.tcp.aclose()
        await self.daemon.stop()
        self._logging.close()


MakeServed = Callable[..., Awaitable[ServedDaemon]]
