"""A hub, a daemon and a broker, each behind a real socket in this process, spoken to in bytes."""

import asyncio
import io
import json
import re
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

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
from parley.serve.security_headers import SECURITY_HEADERS
from parley.serve.server import HttpServer
from parley.serve.shell import Shell
from parley.wire.daemon_home import DaemonHome
from tests.daemon.desk import PORT, Desk
from tests.hub.hubs import serve_hub

SECONDS = 60.0
UPGRADE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
RATE = 20
"""Requests per second that each server lets a caller make, where a test is about that."""


@dataclass
class Served:
    """One server under test."""

    name: str
    port: int
    host: str
    token: str
    shell: Shell[Any]
    server: HttpServer
    health: str
    closed: tuple[str, str]
    """Method and path of something that needs the token."""
    posts: str
    """A path that takes a body."""

    def head(self, line: str, *headers: str) -> bytes:
        """The head of a request that this server takes for its own."""
        return "\r\n".join([f"{line} HTTP/1.1", f"Host: {self.host}", *headers, "", ""]).encode()

    @property
    def bearer(self) -> str:
        return f"Authorization: Bearer {self.token}"


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


@asynccontextmanager
async def line_to(served: Served) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to the server."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    try:
        async with asyncio.timeout(SECONDS):
            yield reader, writer
    finally:
        writer.close()


async def reply(reader: asyncio.StreamReader) -> Reply:
    """The next answer on a connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    is_json = headers.get("content-type", "").startswith("application/json")
    return Reply(int(status.split()[1]), headers, json.loads(body) if is_json and body else body)


async def until(condition: Callable[[], bool]) -> None:
    """Waits for what the server does by itself."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - its own sets
            await asyncio.sleep(0.001)


async def replies(reader: asyncio.StreamReader) -> list[Reply]:
    """All answers until the server ends the connection."""
    found: list[Reply] = []
    while True:
        try:
            found.append(await reply(reader))
        except ConnectionResetError:
            return found
        except asyncio.IncompleteReadError as ended:
            if ended.partial:
                raise
            return found


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
            opened.hub.app,
            opened.server,
            "/health",
            ("GET", "/api/v1/channels"),
            "/api/v1/channels",
        )


@asynccontextmanager
async def daemon_server(folder: Path, *, limited: bool = False) -> AsyncGenerator[Served]:
    home = DaemonHome(folder / "home")
    prepare_home(home)
    desk = Desk(home, parse_daemon_settings({"ipc": {"rate_per_second": RATE if limited else 100_000}}))
    try:
        async with _served(desk.api("tcp"), 64) as (server, port):
            yield Served(
                "daemon",
                port,
                f"127.0.0.1:{PORT}",
                desk.tokens.current,
                server.shell,
                server,
                "/v1/health",
                ("GET", "/v1/version"),
                "/v1/inbox/seen",
            )
    finally:
        await desk.close()


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
                server.shell,
                server,
                "/v1/health",
                ("GET", "/v1/meshes"),
                "/v1/meshes",
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


def assert_is_ours(answer: Reply) -> None:
    """An answer has the security headers, the request's id and the name of the process, whoever made it."""
    for name, value in SECURITY_HEADERS:
        assert answer.headers[name.decode()] == value.decode()
    assert re.fullmatch("[0-9a-f-]{36}", answer.headers["x-request-id"])
    assert answer.headers["x-instance-id"]


def assert_refused(answer: Reply, status: int, code: str) -> None:
    assert (answer.status, answer.body["code"]) == (status, code)
    assert_is_ours(answer)


Start = Callable[..., AbstractAsyncContextManager[Served]]
SERVERS: dict[str, Start] = {"hub": hub_server, "daemon": daemon_server, "broker": broker_server}
