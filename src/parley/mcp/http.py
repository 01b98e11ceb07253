"""The tools over streamable HTTP, as a guest of the hub.

Every request stands alone: no session is kept, so there is none that a restart of the hub could lose. Who calls is told
by the header ``X-Parley-Agent``, which the program's configuration sets beside the token. What the tools do, they do
through the hub's own API, as any client; one call of a tool counts as one request, whatever it asks there.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from parley.client.call import check_agent
from parley.core.errors import InvalidInput
from parley.core.settings import Settings
from parley.mcp.context import AgentContext
from parley.mcp.link import Link
from parley.mcp.profiles import tools_of
from parley.mcp.server import Context, build_server

AGENT_HEADER: Final = "X-Parley-Agent"
PASS_HEADER: Final = "X-Parley-Guest-Pass"
"""Given by the hub with every request: what is asked with it was counted against the rate limits already."""
WAIT_SECONDS_MAX: Final = 50.0
"""Of one call: the hub closes a connection that has been silent for a minute or more."""
PATIENCE_SECONDS: Final = 1.0
"""The hub is this very process: when it does not answer, it is stopping, and must not be held up."""
IDLE_DESKS_MAX: Final = 64
"""Agents whose connection is kept between their calls."""


class HttpTools:
    """Both profiles for all agents of one workspace. Belongs to the hub's event loop."""

    def __init__(self, root: Path, settings: Settings, profiles: dict[str, str]) -> None:
        """``profiles`` maps a path to the profile that is offered there."""
        self._root = root
        self._settings = settings
        self._contexts: OrderedDict[str, _Kept] = OrderedDict()
        self._managers = {
            path: StreamableHTTPSessionManager(
                build_server(tools_of(profile), self._context_for),
                json_response=True,
                stateless=True,
                max_request_body_size=settings.limits.body_bytes_max,
            )
            for path, profile in profiles.items()
        }
        self._stopping = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when requests can be answered."""
        ready = asyncio.Event()
        self._serving = asyncio.create_task(self._serve(ready))
        await ready.wait()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        await self._managers[scope["path"]].handle_request(scope, receive, send)

    async def aclose(self) -> None:
        self._stopping.set()
        if self._serving is not None:
            await self._serving
        for kept in self._contexts.values():
            await kept.context.link.aclose()
        self._contexts.clear()

    async def _serve(self, ready: asyncio.Event) -> None:
        async with AsyncExitStack() as running:  # entered and left by one task, as the SDK needs it
            for manager in self._managers.values():
                await running.enter_async_context(manager.run())
            ready.set()
            await self._stopping.wait()

    @asynccontextmanager
    async def _context_for(self, ctx: Context) -> AsyncGenerator[AgentContext]:
        name = "" if ctx.request is None else str(ctx.request.headers.get(AGENT_HEADER, ""))
        if not name:
            raise InvalidInput(f"Who calls? Send the header {AGENT_HEADER} with the agent's name", field=AGENT_HEADER)
        check_agent(name, AGENT_HEADER)
        kept = self._contexts.get(name)
        if kept is None:
            kept = self._contexts[name] = _Kept(self._new_context(name, ctx))
        self._contexts.move_to_end(name)
        kept.users += 1
        try:
            yield kept.context
        finally:
            kept.users -= 1
            await self._clear_away()

    def _new_context(self, name: str, ctx: Context) -> AgentContext:
        client = ctx.session.client_params
        program = None if client is None else client.client_info.name
        link = Link(self._root, program=program, name=name, start=False, patience_seconds=PATIENCE_SECONDS)
        assert ctx.request is not None
        link.client.hub.headers[PASS_HEADER] = ctx.request.headers[PASS_HEADER]
        return AgentContext(link, self._settings.mcp.result_bytes_max, WAIT_SECONDS_MAX, hosted_by_hub=True)

    async def _clear_away(self) -> None:
        idle = [name for name, kept in self._contexts.items() if kept.users == 0]
        for name in idle[: max(0, len(idle) - IDLE_DESKS_MAX)]:
            await self._contexts.pop(name).context.link.aclose()


class _Kept:
    """An agent's context, and how many of its calls are under way."""

    def __init__(self, context: AgentContext) -> None:
        self.context = context
        self.users = 0
