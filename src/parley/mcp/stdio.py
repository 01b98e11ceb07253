"""``parley mcp``: a server on standard input and output, for one agent.

It lives as long as the program that started it: it ends when its input ends, when it is told to, and when that program
is gone although something else still holds the other end of the pipe.
"""

import importlib.util
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, cast

import anyio
from mcp.server.context import CallNext, HandlerResult
from mcp.server.stdio import stdio_server

from parley.client.lineage import own_program
from parley.core.errors import ParleyError
from parley.core.limits import AGENT_TEXT_CHARS_MAX
from parley.mcp.context import AgentContext
from parley.mcp.link import Link
from parley.mcp.malformed_lines import Understood
from parley.mcp.profiles import tools_of
from parley.mcp.server import Context, build_server
from parley.mcp.wire import Incoming, Outgoing
from parley.mcp.wire_guard import Wire
from parley.workspace.config import load_settings

WAIT_SECONDS_MAX: Final = 300.0
"""The longest wait of one call; whoever wants to wait longer asks again."""
PARENT_LOOK_SECONDS: Final = 1.0
LIFE_SECONDS: Final = 60.0
"""Time between signs of life while the agent does nothing; shorter where a workspace calls agents gone sooner."""
LEAVE_SECONDS: Final = 2.0
MODEL_VARIABLE: Final = "PARLEY_MODEL"


def serve_stdio(wire: Wire, folder: Path | None, *, profile: str, program: str | None, start: bool) -> None:
    """Serves until the other side is gone. Raises ``InvalidInput`` for a profile that does not exist.

    ``program`` is the name under which the program's hooks know it, so that they and the tools are one agent; without
    it, it is what the program calls itself.
    """
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="parley mcp: %(levelname)s %(name)s %(message)s"
    )
    _look_once("sniffio")
    serving = _Serving(folder, profile, program, start)
    anyio.run(serving.run, wire)


def _look_once(module: str) -> None:
    """Lets a module that is not installed stay so: HTTP libraries look for this one several times in every request."""
    if importlib.util.find_spec(module) is None:
        cast("dict[str, object]", sys.modules)[module] = None


class _Serving:
    """One agent's server, from its first message to its last."""

    def __init__(self, folder: Path | None, profile: str, program: str | None, start: bool) -> None:
        self._tools = tools_of(profile)
        self._folder = folder
        self._program = program
        self._start = start
        self._context: AgentContext | None = None
        self._known = anyio.Event()

    async def run(self, wire: Wire) -> None:
        server = build_server(self._tools, self._context_for)
        server.middleware.append(self._meet)
        async with anyio.create_task_group() as tasks:
            for each in (self._end_with_parent, self._end_when_told, self._show_life):
                tasks.start_soon(each)
            outgoing = Outgoing(wire.outgoing.fileno())
            lines = Understood(Incoming(wire.incoming.fileno()), outgoing), outgoing
            # They do what the SDK asks of the files that it wraps.
            async with stdio_server(*cast("tuple[anyio.AsyncFile[str], anyio.AsyncFile[str]]", lines)) as (read, write):
                await server.run(read, write, server.create_initialization_options())
            await self._leave()
            tasks.cancel_scope.cancel()

    async def _meet(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Joins the workspace as soon as the program has said who it is, without being asked for anything."""
        if self._context is None and ctx.session.client_params is not None:
            with suppress(ParleyError):  # a call will say what is wrong
                self._sit_down(ctx)
        return await call_next(ctx)

    @asynccontextmanager
    async def _context_for(self, ctx: Context) -> AsyncGenerator[AgentContext]:
        yield self._sit_down(ctx)

    def _sit_down(self, ctx: Context) -> AgentContext:
        if self._context is None:
            client = ctx.session.client_params
            program = self._program or (None if client is None else client.client_info.name[:AGENT_TEXT_CHARS_MAX])
            model = os.environ.get(MODEL_VARIABLE)
            link = Link(self._folder, program=program, model=model, process=own_program(), start=self._start)
            settings = load_settings(link.workspace.config)
            self._context = AgentContext(link, settings.mcp.result_bytes_max, WAIT_SECONDS_MAX)
            self._life_seconds = min(LIFE_SECONDS, settings.agents.gone_after_minutes * 60 / 3)
            self._known.set()
        return self._context

    async def _show_life(self) -> None:
        await self._known.wait()
        while self._context is not None:
            await self._context.link.show_life()
            await anyio.sleep(self._life_seconds)

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
        context, self._context = self._context, None
        if context is not None:
            # Nothing is to keep this process from ending, and nobody waits for it for long.
            with suppress(Exception), anyio.move_on_after(LEAVE_SECONDS):
                await context.link.leave("its program has ended")
                await context.link.aclose()
