"""``parley mcp``: a server on standard input and output, for one agent.

It lives as long as the program that started it: it ends when its input ends, when it is told to, and when that program
is gone although something else still holds the other end of the pipe.
"""

import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import mcp_types as types
from mcp.server.stdio import stdio_server

from parley.mcp.desk import Desk
from parley.mcp.link import Link
from parley.mcp.profiles import tools_of
from parley.mcp.server import Context, build_server
from parley.mcp.wire_guard import Wire
from parley.workspace.config import load_settings

WAIT_SECONDS_MAX: Final = 300.0
"""The longest wait of one call; whoever wants to wait longer asks again."""
PARENT_LOOK_SECONDS: Final = 1.0


def serve_stdio(wire: Wire, folder: Path | None, *, profile: str, start: bool) -> None:
    """Serves until the other side is gone. Raises ``InvalidInput`` for a profile that does not exist."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="parley mcp: %(levelname)s %(name)s %(message)s"
    )
    serving = _Serving(folder, profile, start)
    anyio.run(serving.run, wire)


class _Serving:
    def __init__(self, folder: Path | None, profile: str, start: bool) -> None:
        self._tools = tools_of(profile)
        self._folder = folder
        self._start = start
        self._desk: Desk | None = None

    async def run(self, wire: Wire) -> None:
        server = build_server(self._tools, self._desk_for)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_with_parent)
            tasks.start_soon(self._end_when_told)
            async with stdio_server(anyio.wrap_file(wire.incoming), anyio.wrap_file(wire.outgoing)) as (read, write):
                await server.run(read, write, server.create_initialization_options())
            await self._leave()
            tasks.cancel_scope.cancel()

    async def _desk_for(self, ctx: Context) -> Desk:
        if self._desk is None:
            link = Link(self._folder, _agent_name(ctx.session.client_params), start=self._start)
            workspace = link.client.workspace
            assert workspace is not None
            settings = load_settings(workspace.config)
            self._desk = Desk(link, settings.mcp.result_bytes_max, WAIT_SECONDS_MAX)
        return self._desk

    async def _end_with_parent(self) -> None:
        parent = os.getppid()
        while True:
            await anyio.sleep(PARENT_LOOK_SECONDS)
            if os.getppid() != parent:
                await self._end_now()

    async def _end_when_told(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for _ in signals:
                await self._end_now()

    async def _end_now(self) -> None:
        """Ends although a thread is still reading from the wire, which nothing but its other side can interrupt."""
        await self._leave()
        os._exit(0)

    async def _leave(self) -> None:
        desk, self._desk = self._desk, None
        if desk is not None:
            with suppress(Exception):  # nothing is to keep this process from ending
                await desk.link.aclose()


def _agent_name(client: types.InitializeRequestParams | None) -> str:
    known = os.environ.get("PARLEY_AGENT")
    return known or (client.client_info.name if client is not None else "agent")
