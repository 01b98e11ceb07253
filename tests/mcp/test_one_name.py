"""Two programs that were given one name are one agent, which leaves with the last of them."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mcp import Client, StdioServerParameters

from parley.client import connect
from tests.client.hubs import HubProcess
from tests.mcp.agents import CALL_SECONDS, Agent, command

STARTER = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"


@asynccontextmanager
async def program(root: Path) -> AsyncIterator[Agent]:
    """An agent's tools in a program of their own."""
    arguments = ["-c", STARTER, *command(root)]
    server = StdioServerParameters(command=sys.executable, args=arguments, env={"PARLEY_AGENT": "ann"})
    async with Client(server, read_timeout_seconds=CALL_SECONDS) as client:
        yield Agent(client)


async def test_what_one_of_them_holds_stays_held_until_the_last_ends(hub: HubProcess) -> None:
    with connect(hub.root) as observer:
        async with program(hub.root) as one:
            async with program(hub.root) as other:
                await other.call("lease", paths=["src/**"])
                await one.call("lease", paths=["docs/**"])
            assert len(observer.list_leases().leases) == 2
            assert [agent.state for agent in observer.list_agents().agents] == ["active"]
            assert len((await one.call("release"))["leases"]) == 2, "they are one agent"
            await one.call("lease", paths=["docs/**"])
        assert observer.list_leases().leases == []
        assert [agent.state for agent in observer.list_agents().agents] == ["gone"]
