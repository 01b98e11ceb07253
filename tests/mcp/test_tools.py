"""Every tool of both profiles, by the official client."""

import inspect

import pytest

from parley.client import AsyncClient
from parley.mcp.tools import sdk
from tests.client.hubs import HubProcess
from tests.mcp.agents import agent
from tests.mcp.driving import drive

CONNECTION = {"aclose", "connect", "events", "join", "perform"}
"""Methods that make or carry a client, and are no calls of the hub; ``wait`` is what ``events`` is for."""


@pytest.mark.parametrize("profile", ["default", "full"])
async def test_every_tool_works_over_stdio(hub: HubProcess, profile: str) -> None:
    async with agent(hub.root, "--profile", profile, name="driver") as client:
        await drive(client, profile)


def test_every_method_of_the_client_has_a_tool() -> None:
    public = {name for name, member in inspect.getmembers(AsyncClient, inspect.isroutine) if not name.startswith("_")}
    assert public - CONNECTION == {tool.name.removeprefix(sdk.PREFIX) for tool in sdk.TOOLS}
