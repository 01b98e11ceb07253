"""Several tools that serve one agent, in one program or in two: it leaves with the last of them."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from parley.client import connect
from parley.mcp.link import Link
from tests.client.hubs import HubProcess
from tests.mcp.agents import CALL_SECONDS, Agent, agent, command

STARTER = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"


@asynccontextmanager
async def program(root: Path) -> AsyncIterator[Agent]:
    """An agent's tools in a program of their own."""
    arguments = ["-c", STARTER, *command(root)]
    server = StdioServerParameters(command=sys.executable, args=arguments, env={"PARLEY_AGENT": "ann"})
    async with Client(server, read_timeout_seconds=CALL_SECONDS) as client:
        yield Agent(client)


@asynccontextmanager
async def unnamed_here(root: Path) -> AsyncIterator[Agent]:
    """More tools of this very program, which was given no name."""
    own, *arguments = command(root)
    server = StdioServerParameters(command=own, args=arguments, env={})
    async with Client(server, read_timeout_seconds=CALL_SECONDS) as client:
        yield Agent(client)


def named_here(root: Path) -> AbstractAsyncContextManager[Agent]:
    """More tools of this very program."""
    return agent(root, name="ann")


@pytest.mark.parametrize("tools", [program, named_here, unnamed_here])
async def test_what_one_of_them_holds_stays_held_until_the_last_ends(
    hub: HubProcess, tools: Callable[[Path], AbstractAsyncContextManager[Agent]]
) -> None:
    with connect(hub.root) as observer:
        async with tools(hub.root) as one:
            async with tools(hub.root) as other:
                await other.call("lease", paths=["src/**"])
                await one.call("lease", paths=["docs/**"])
            assert len(observer.list_leases().leases) == 2
            assert [agent.state for agent in observer.list_agents().agents] == ["active"]
            assert len((await one.call("release"))["leases"]) == 2, "they are one agent"
            await one.call("lease", paths=["docs/**"])
        assert observer.list_leases().leases == []
        assert [agent.state for agent in observer.list_agents().agents] == ["gone"]


async def test_a_goodbye_waits_for_the_registration_that_is_under_way(hub: HubProcess) -> None:
    link = Link(hub.root, program="tests", name="ann", start=False)
    registering = asyncio.create_task(link.show_life())
    await asyncio.sleep(0)
    await link.leave("it has ended")
    await registering
    await link.aclose()
    with connect(hub.root) as observer:
        assert [agent.state for agent in observer.list_agents().agents] == ["gone"]
