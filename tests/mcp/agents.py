"""Agents for the tests: the official client, connected to ``parley mcp`` or to a hub as an agent's program would be."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from tests.client.hubs import HubProcess

CALL_SECONDS = 60.0


def command(root: Path, *flags: str) -> list[str]:
    return [sys.executable, "-m", "parley", "mcp", "--workspace", str(root), *flags]


@asynccontextmanager
async def agent(root: Path, *flags: str, name: str = "tester", mode: str = "auto") -> AsyncIterator["Agent"]:
    """An agent that speaks over stdio."""
    program, *arguments = command(root, *flags)
    server = StdioServerParameters(command=program, args=arguments, env={"PARLEY_AGENT": name})
    async with Client(server, mode=mode, read_timeout_seconds=CALL_SECONDS) as client:
        yield Agent(client)


@asynccontextmanager
async def agent_over_http(
    hub: HubProcess, path: str = "/mcp", *, name: str | None = "tester", mode: str = "auto", url: str | None = None
) -> AsyncIterator["Agent"]:
    """An agent that speaks over HTTP, to the hub itself or to what stands before it at ``url``."""
    headers = {"Authorization": f"Bearer {hub.server.auth_token}"}
    if name is not None:
        headers["X-Parley-Agent"] = name
    async with httpx2.AsyncClient(headers=httpx2.Headers(headers, encoding="utf-8"), timeout=CALL_SECONDS) as http:
        transport = streamable_http_client((url or hub.server.base_url) + path, http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=CALL_SECONDS) as client:
            yield Agent(client)


class Agent:
    """Calls tools, and looks at what comes back."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Any:
        """The structured content of a call that works."""
        result = await self.raw(tool, **arguments)
        assert not result.is_error, text_of(result)
        return result.structured_content

    async def refused(self, tool: str, **arguments: Any) -> Any:
        """The structured content of a call that does not."""
        result = await self.raw(tool, **arguments)
        assert result.is_error, text_of(result)
        return result.structured_content

    async def raw(self, tool: str, **arguments: Any) -> CallToolResult:
        return await self.client.call_tool(tool, arguments)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text
