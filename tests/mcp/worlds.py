"""A workspace with a hub, and a context at it without a process between: for what is about results alone."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from parley.mcp.context import AgentContext
from parley.mcp.link import Link
from parley.mcp.profiles import tools_of
from parley.mcp.results import Result
from tests.client.hubs import HubProcess

TOOLS = {tool.name: tool for tool in tools_of("full")}


class World:
    """Calls tools as somebody, and keeps to the same bounds as a server."""

    def __init__(self, context: AgentContext) -> None:
        self.context = context

    async def call(self, tool: str, **arguments: Any) -> Result:
        return await TOOLS[tool].call(self.context, arguments)


@asynccontextmanager
async def sitting(hub: HubProcess, name: str, *, bytes_max: int = 24_000) -> AsyncGenerator[World]:
    """A context at the hub for an agent with this name."""
    link = Link(hub.root, program="tests", name=name, start=False)
    try:
        yield World(AgentContext(link, bytes_max, 60.0))
    finally:
        await link.aclose()
