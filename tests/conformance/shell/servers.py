"""A hub, a daemon and a broker, each behind a real socket in this process, spoken to in bytes."""

import asyncio
import io
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parley.broker.gate import SqliteGate
from parley.broker.http import Front, HttpSettings, broker_shell
from parley.broker.policy import DEFAULT_POLICY
from parley.broker.server import Broker
from parley.broker.session import Setting
from parley.broker.sqlite_store import open_sqlite_store
from parley.core import sealing
from parley.core.clock import SystemClock
from parley.core.metrics import BROKER_METRICS
from parley.daemon.config import parse_daemon_settings
from parley.daemon.home import prepare_home
from parley.serve import DiskWatch, InFlight, bind
from parley.serve.logs import configure
from parley.serve.metrics import Metrics
from parley.serve.server import HttpServer
from parley.serve.shell import Shell
from parley.wire.daemon_home import DaemonHome
from tests.conformance.shell.lines import Reply, Spoken, reply
from tests.daemon.served_daemon import PORT, ServedDaemon
from tests.hub.hubs import serve_hub

SECONDS = 60.0
RATE = 20
"""Requests per second that each server lets a caller make, where a test is about that."""


@dataclass
class Served(Spoken):
    """One server under test."""

    shell: Shell[Any]
    server: HttpServer


@asynccontextmanager
async def line_to(served: Served) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to the server."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    try:
        async with asyncio.timeout(SECONDS):
            yield reader, writer
    finally:
        writer.close()


async def until(condition: Callable[[], bool]) -> None:
    """Waits for what the server does by itself."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - its own sets
            await asyncio.sleep(0.001)


async def ask(served: Served, data: bytes) -> Reply:
    """The answer to what is said on a connection of its own."""
    async with line_to(served) as (reader, writer):
        writer.write(data)
        return await reply(reader)


@asynccontextmanager
async def hub_server(folder: Path, *, limited: bool = False) -> AsyncGenerator[Served]:
    limits = {"enabled": limited, "per_connection": RATE, "overall": RATE}
    async with serve_hub(folder, {"rate_limits": limits}, clock=SystemClock()) as opened:
        yield Served(
            "hub",
            opened.hub.port,
            f"127.0.0.1:{opened.hub.port}",
            opened.token,
            "/health",
            ("GET", "/api/v1/channels"),
            "/api/v1/channels",
            opened.hub.app,
            opened.server,
        )


@asynccontextmanager
async def daemon_server(folder: Path, *, limited: bool = False) -> AsyncGenerator[Served]:
    home = DaemonHome(folder / "home")
    prepare_home(home)
    served = ServedDaemon(home, parse_daemon_settings({"ipc": {"rate_per_second": RATE if limited else 100_000}}))
    try:
        async with _served(served.api("tcp"), 64) as (server, port):
            yield Served(
                "daemon",
                port,
                f"127.0.0.1:{PORT}",
                served.tokens.current,
                "/v1/health",
                ("GET", "/v1/version"),
                "/v1/inbox/seen",
                server.shell,
                server,
            )
    finally:
        await served.close()


@asynccontextmanager
async def broker_server(
    folder: Path, *, limited: bool = False, trusted_proxy: bool = False, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[Served]:
    clock = SystemClock()
    store = open_sqlite_store(folder / "broker.db", clock, synchronous="normal")
    logging = configure("info", io.BytesIO())
    gate = SqliteGate(store)
    rate = RATE if limited else 100_000
    policy = replace(DEFAULT_POLICY, http_per_address=rate, http_overall=rate)
    setting = Setting(store.broker_id, "inst", policy, sealing.verify, "0")
    broker = Broker(setting, gate, clock, Metrics(clock, BROKER_METRICS), logging.logger)
    watch = DiskWatch(folder, 0)
    settings = HttpSettings("creation", False, "ws://127.0.0.1", "0", watch, trusted_proxy=trusted_proxy)
    try:
        async with _served(broker_shell(Front(broker, settings), clock, InFlight()), 64, tls) as (server, port):
            yield Served(
                "broker",
                port,
                "broker.example",
                "creation",
                "/v1/health",
                ("GET", "/v1/meshes"),
                "/v1/meshes",
                server.shell,
                server,
            )
    finally:
        await broker.stop()
        await gate.stop()
        store.close()
        logging.close()


@asynccontextmanager
async def _served(
    shell: Shell[Any], connections_max: int, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[tuple[HttpServer, int]]:
    bound = bind("127.0.0.1", 0)
    server = HttpServer(shell, bound.socket, connections_max=connections_max, tls=tls)
    await server.start()
    try:
        yield server, bound.port
    finally:
        shell.door.in_flight.close()
        await server.stop(1)


Start = Callable[..., AbstractAsyncContextManager[Served]]
SERVERS: dict[str, Start] = {"hub": hub_server, "daemon": daemon_server, "broker": broker_server}
