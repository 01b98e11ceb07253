"""Hubs for tests: one that is called in this process without a socket, and one that serves a real socket.

Both are the real ``Hub`` on a real database file, driven by a clock that the test moves. ``OpenHub.api`` speaks to it
over HTTP (ASGI or TCP) and has the few calls that nearly every test needs.
"""

import functools
import socket
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import structlog
from structlog.testing import LogCapture

from parley.core.clock import Clock, ManualClock
from parley.core.fold import Difference, differences, fold
from parley.core.settings import Settings
from parley.hub.derived.loading import PluginSource
from parley.hub.hub import Hub
from parley.hub.lifecycle import prepare_database
from parley.serve import InFlight, TokenStore
from parley.serve.server import HttpServer
from parley.sqlite import close_quietly, open_reader
from parley.workspace import discovery, queries
from parley.workspace.config import parse_settings
from parley.workspace.layout import Workspace

PORT = 7337
"""What a hub without a socket believes to listen on."""
DEADLINE_SECONDS = 60.0
PATIENCE = {"ping_seconds": 600.0, "hello_seconds": 60.0, "stall_seconds": 600.0}
"""A feed is neither pinged nor given up by a machine that is busy, unless that is what a test is about."""
INSTANCE_ID = "00000000-0000-4000-8000-000000000001"
Tables = Mapping[str, Any]
"""Tables of ``parley.toml``; ``plugins`` is a list of them."""
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {"rate_limits": {"enabled": False}, "trouble": {"disk_free_bytes_min": 0}}


def settings_of(tables: Tables | None = None) -> Settings:
    """The settings of a ``parley.toml`` with these tables, with limits that do not depend on the machine."""
    merged: dict[str, Any] = dict(_DEFAULTS)
    for name, table in (tables or {}).items():
        merged[name] = {**_DEFAULTS[name], **table} if name in _DEFAULTS else table
    return parse_settings(merged)


class Api:
    """A caller with the token. Each helper checks the status and returns the decoded body."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def call(self, method: str, path: str, body: Any = None, *, status: int = 200, **options: Any) -> Any:
        """Sends a request and returns the decoded body."""
        if body is not None:
            options["json"] = body
        answer = await self.client.request(method, path, **options)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text[:400]}"
        return answer.json()

    async def get(self, path: str, *, status: int = 200, **params: Any) -> Any:
        return await self.call("GET", path, status=status, params=params or None)

    async def channel(self, name: str = "general", **fields: Any) -> str:
        """Creates a channel; its id."""
        body = await self.call("POST", "/api/v1/channels", {"name": name, **fields}, status=201)
        return body["channel"]["id"]

    async def topic(self, channel_id: str, title: str = "topic") -> str:
        """Creates a topic; its id."""
        body = await self.call("POST", "/api/v1/topics", {"channel_id": channel_id, "title": title}, status=201)
        return body["topic"]["id"]

    async def post(self, topic_id: str, content: str = "hello", sender: str = "ann", **fields: Any) -> dict[str, Any]:
        """Posts a message; the message."""
        body = {"topic_id": topic_id, "sender": sender, "content_raw": content, **fields}
        return (await self.call("POST", "/api/v1/messages", body, status=201))["message"]

    async def patch(self, message_id: str, op: str, *, status: int = 200, **fields: Any) -> Any:
        """``edit``, ``delete`` or ``move_topic``."""
        return await self.call("PATCH", f"/api/v1/messages/{message_id}", {"op": op, **fields}, status=status)

    async def events(self, after: int = 0, **params: Any) -> list[dict[str, Any]]:
        """Events after a cursor, at most one page."""
        return (await self.get("/api/v1/events", after=after, limit=1000, **params))["events"]


@dataclass
class OpenHub:
    """A hub that is running in this process."""

    hub: Hub
    api: Api
    clock: Any
    log: LogCapture
    stops: list[str] = field(default_factory=list)
    """The reasons with which the hub asked to be stopped."""
    listening: HttpServer | None = None
    """Where it listens, if it does."""

    @property
    def server(self) -> HttpServer:
        assert self.listening is not None
        return self.listening

    @property
    def token(self) -> str:
        return self.hub.tokens.current

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.hub.port}"

    @property
    def ws_url(self) -> str:
        return f"ws://127.0.0.1:{self.hub.port}/ws?token={self.token}"

    @property
    def workspace(self) -> Workspace:
        return self.hub.workspace

    def fold_problems(self) -> list[Difference]:
        """Where the folded log and the tables disagree; the promise is: nowhere."""
        return fold_problems(self.workspace)


def fold_problems(workspace: Workspace) -> list[Difference]:
    """Where a database's folded log and its tables disagree, both of one moment."""
    connection = open_reader(workspace.db)
    try:
        connection.execute("BEGIN")
        return differences(fold(queries.logged_events(connection)), queries.stored_state(connection))
    finally:
        close_quietly(connection)


def rows(workspace: Workspace, sql: str, *parameters: Any) -> list[Any]:
    """What is in the file, read past the hub."""
    connection = open_reader(workspace.db)
    try:
        return connection.execute(sql, parameters).fetchall()
    finally:
        close_quietly(connection)


def workspace_in(folder: Path) -> Workspace:
    """The workspace in this folder; a new one where there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    return discovery.create(folder)


@functools.cache
def _new_database(fts: bool) -> bytes:
    """A prepared, empty database; made once, because most tests need one and its syncs to disk take longest."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = workspace_in(Path(folder))
        prepare_database(workspace, settings_of({"search": {"fts": fts}}), ManualClock())
        return workspace.db.read_bytes()


PluginsOf = Callable[[Workspace, Settings], PluginSource]
"""Which plugins a hub is started with."""


@asynccontextmanager
async def open_hub(
    folder: Path,
    tables: Tables | None = None,
    *,
    clock: Clock | None = None,
    port: int = PORT,
    plugins: PluginsOf | None = None,
) -> AsyncGenerator[OpenHub]:
    """A hub without a socket. Leaving the context stops it as cleanly as a stop does, short of ``server.json``."""
    clock = clock if clock is not None else ManualClock()
    workspace, settings = workspace_in(folder), settings_of(tables)
    if not workspace.db.exists():
        workspace.db.write_bytes(_new_database(settings.search.fts))
    prepared = prepare_database(workspace, settings, clock)
    log = LogCapture()
    tokens = TokenStore(workspace.token, clock, settings.hub.token_grace_seconds)
    tokens.load()
    stops: list[str] = []
    hub = Hub(
        workspace,
        settings,
        clock=clock,
        log=structlog.wrap_logger(None, processors=[log], wrapper_class=structlog.make_filtering_bound_logger(0)),
        tokens=tokens,
        in_flight=InFlight(),
        instance_id=INSTANCE_ID,
        db_id=prepared.db_id,
        port=port,
        plugins=None if plugins is None else plugins(workspace, settings),
        stop=stops.append,
        token_changed=lambda: None,
        has_folder=lambda: True,
    )
    headers = {"Authorization": f"Bearer {tokens.current}"}
    transport = httpx.ASGITransport(app=hub.app)
    await hub.derived.start()
    try:
        async with httpx.AsyncClient(
            transport=transport, base_url=f"http://127.0.0.1:{port}", headers=headers
        ) as client:
            yield OpenHub(hub, Api(client), clock, log, stops)
    finally:
        hub.in_flight.close()
        await hub.derived.stop()
        await hub.store.close(DEADLINE_SECONDS)
        hub.checkpointer.stop(timeout=DEADLINE_SECONDS)


@asynccontextmanager
async def serve_hub(
    folder: Path, tables: Tables | None = None, *, clock: Clock | None = None, plugins: PluginsOf | None = None
) -> AsyncGenerator[OpenHub]:
    """A hub behind a real socket on a free port of 127.0.0.1, served by this test's own event loop."""
    tables = {**(tables or {}), "websocket": {**PATIENCE, **(tables or {}).get("websocket", {})}}
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    async with open_hub(folder, tables, clock=clock, port=port, plugins=plugins) as opened:
        server = HttpServer(opened.hub.app, listener)
        await server.start()
        try:
            headers = dict(opened.api.client.headers)
            async with httpx.AsyncClient(base_url=opened.url, headers=headers, timeout=DEADLINE_SECONDS) as client:
                yield OpenHub(opened.hub, Api(client), opened.clock, opened.log, opened.stops, server)
        finally:
            opened.hub.in_flight.close()
            opened.hub.close_feeds(1001, "Server shutting down")
            await server.stop(1)
