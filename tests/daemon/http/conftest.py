"""A daemon in this process, without sockets of its own, whose broker cannot be reached."""

import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from parley.core import sealing
from parley.core.clock import SystemClock
from parley.core.daemon_metrics import DAEMON_METRICS
from parley.core.daemon_settings import DaemonSettings
from parley.daemon.config import parse_daemon_settings
from parley.daemon.daemon import Daemon
from parley.daemon.home import prepare_home
from parley.daemon.http.about import metrics_route
from parley.daemon.http.shell import Api, Endpoint, Transport
from parley.daemon.http.table import ENDPOINTS, METRICS_PATH
from parley.daemon.memberships import Membership, Memberships, MeshKey
from parley.serve import InFlight, RateLimiter, TokenStore
from parley.serve.logs import configure
from parley.serve.metrics import Metrics
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


class Desk:
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
        self.metrics = Metrics(self.clock, DAEMON_METRICS)
        self.unix = self._client("unix")
        self.tcp = self._client("tcp")

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.tokens.current}"}

    def _client(self, transport: Transport) -> httpx.AsyncClient:
        shown = Endpoint("GET", METRICS_PATH, metrics_route(self.metrics), "metrics")
        rate = self.daemon.settings.ipc.rate_per_second
        api = Api(
            self.daemon,
            (*ENDPOINTS, shown),
            transport=transport,
            tokens=self.tokens,
            in_flight=self.in_flight,
            limiter=RateLimiter(rate, rate, self.clock),
            metrics=self.metrics,
            port=PORT,
        )
        return httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url=f"http://127.0.0.1:{PORT}")

    async def send(self, to: str = BOB, message: str = "hello", **more: Any) -> httpx.Response:
        return await self.unix.post("/v1/send", json={"to": to, "message": message, **more})

    async def close(self) -> None:
        await self.unix.aclose()
        await self.tcp.aclose()
        await self.daemon.stop()
        self._logging.close()


MakeDesk = Callable[..., Awaitable[Desk]]


@pytest.fixture
async def make_desk(tmp_path: Path) -> AsyncIterator[MakeDesk]:
    async with AsyncExitStack() as open_desks:

        async def make(*meshes: str, name: str = "home", start: bool = True, **tables: Any) -> Desk:
            home = DaemonHome(tmp_path / name)
            prepare_home(home)
            memberships = Memberships(home.memberships)
            memberships.load()
            for number, slug in enumerate(meshes or ("team",)):
                memberships.put(member(slug, sealing.new_key(lambda count, number=number: bytes([number + 1]) * count)))
            desk = Desk(home, parse_daemon_settings(tables))
            open_desks.push_async_callback(desk.close)
            if start:
                await desk.daemon.start()
            return desk

        yield make


@pytest.fixture
async def desk(make_desk: MakeDesk) -> Desk:
    return await make_desk()
