"""A team of agents that share tasks and paths through tools, with agents killed at random moments.

Each agent is the official client of the Model Context Protocol, with a ``parley mcp`` of its own or with a connection
to the hub. It takes tasks, reserves paths, gives them back and says that the tasks are done. Now and then its process
is killed, or its connection cut, in the middle of whatever it does; it comes back under its name and goes on, or under
another one, so that what it held has to end by itself. At the end the log must tell that nobody ever held what somebody
else held, and that every task was done once.
"""

import asyncio
import os
import random
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from parley.sqlite import close_quietly, open_reader
from parley.workspace import queries
from tests.campaign.holds import hold_problems
from tests.campaign.judge import judge
from tests.campaign.report import Report
from tests.campaign.team import control
from tests.client.hubs import HubProcess
from tests.mcp.agents import Agent, command

TTL_SECONDS = 5
LIFE_SECONDS = (0.5, 6.0)
"""How long an agent that is to be killed works before it is."""
DOOMED_SHARE = 0.7
OTHER_NAME_SHARE = 0.5
IDLE_SECONDS = 0.1
CALL_SECONDS = 120.0
CONFIG = "[leases]\nsweep_seconds = 0.1\n"
STARTED = 'echo $$ > "$0"; exec "$@"'
"""Lets a test know which process it is that it may kill."""


@dataclass
class World:
    """What the agents share besides the hub: how much is left to do, and what they were told."""

    hub: HubProcess
    rng: random.Random
    tasks: int
    leases: int
    kills: int
    completed: set[str] = field(default_factory=set)
    leased: set[str] = field(default_factory=set)
    over: bool = False
    refused: int = 0
    killed: int = 0


async def tool_team(folder: Path, *, agents: int, tasks: int, leases: int, kills: int, seed: int) -> Report:
    """Control: the log with a second holder of a task, a second end of it, and a second lease of the same paths."""
    report = Report("tool_team", seed)
    hub = _hub(folder)
    try:
        world = World(hub, random.Random(seed), tasks, leases, kills)
        await _make_tasks(world)
        async with asyncio.TaskGroup() as group:
            for number in range(agents):
                group.create_task(_agent(world, number))
    finally:
        hub.stop()
    database = open_reader(hub.workspace.db)
    try:
        log = list(queries.logged_events(database))
        report.violations += judge(database, [])
    finally:
        close_quietly(database)
    done = [event.data["task"]["id"] for event in log if event.name == "task.completed"]
    report.violations += hold_problems(log)
    leased = {event.data["lease"]["id"] for event in log if event.name == "lease.acquired"}
    report.violations += [f"{task_id} was said to be done, and is not" for task_id in world.completed - set(done)]
    report.violations += [f"{lease_id} was said to be given, and was not" for lease_id in world.leased - leased]
    if len(done) != tasks:
        report.violations.append(f"{len(done)} of {tasks} tasks were done")
    report.control = control(log)
    report.runs = tasks
    report.facts = {
        "agents": agents,
        "tasks": len(world.completed),
        "leases": len(world.leased),
        "conflicts": world.refused,
        "killed": world.killed,
        "events": len(log),
    }
    return report


def _hub(folder: Path) -> HubProcess:
    (folder / "parley.toml").write_text(CONFIG)
    return HubProcess(folder).start()


async def _make_tasks(world: World) -> None:
    async with _connected(world, "lead", stdio=False) as (lead, _):
        for number in range(world.tasks):
            await lead.call("add_task", channel="work", title=f"Task {number}")


async def _agent(world: World, number: int) -> None:
    """One agent from its first life to its last."""
    name, life = f"agent-{number}", 0
    while True:
        doomed, killed = world.killed < world.kills and world.rng.random() < DOOMED_SHARE, False
        try:
            async with _connected(world, name, stdio=number % 2 == 0) as (agent, kill):
                working = asyncio.create_task(_work(world, agent, name))
                if doomed:
                    await asyncio.wait({working}, timeout=world.rng.uniform(*LIFE_SECONDS))
                    if not working.done() and world.killed < world.kills:
                        world.killed += 1
                        killed = True
                        kill(working)
                await working
            return
        except (Exception, asyncio.CancelledError):
            if not killed:
                raise
        life += 1
        if world.rng.random() < OTHER_NAME_SHARE:
            name = f"agent-{number}-life-{life}"


@asynccontextmanager
async def _connected(world: World, name: str, *, stdio: bool) -> AsyncGenerator[tuple[Agent, Any]]:
    """An agent, and what kills it: the end of its process, or of its connection in mid-call."""
    if stdio:
        note = world.hub.root / f"{name}.pid"
        arguments = ["-c", STARTED, str(note), *command(world.hub.root)]
        server = StdioServerParameters(command="sh", args=arguments, env={"PARLEY_AGENT": name})
        async with Client(server, read_timeout_seconds=CALL_SECONDS) as client:
            pid = int(note.read_text())
            yield Agent(client), lambda _: os.kill(pid, signal.SIGKILL)
        return
    headers = {"Authorization": f"Bearer {world.hub.server.auth_token}", "X-Parley-Agent": name}
    async with httpx2.AsyncClient(headers=headers, timeout=CALL_SECONDS) as http:
        transport = streamable_http_client(f"{world.hub.server.base_url}/mcp", http_client=http)
        async with Client(transport, read_timeout_seconds=CALL_SECONDS) as client:
            yield Agent(client), lambda working: working.cancel()


async def _work(world: World, agent: Agent, name: str) -> None:
    for held in (await agent.call("tasks", mine=True, limit=200))["tasks"]:
        if held["status"] == "claimed":  # from a life before this one
            await _complete(world, agent, held)
    while not world.over or len(world.leased) < world.leases:
        rows = (await agent.call("claim_task", ttl_seconds=TTL_SECONDS))["tasks"]
        for _ in range(world.rng.randint(1, 4)):
            await _lease(world, agent)
        if rows:
            await _complete(world, agent, rows[0])
        else:
            await _look_for_the_end(world, agent)


async def _look_for_the_end(world: World, agent: Agent) -> None:
    """What an agent was killed at may be done although nobody has heard so; the hub knows.

    One question, of what never goes back: a claim that ends by its time between two would be seen by neither.
    """
    last = await agent.call("tasks", status="completed", cursor=f"o.{world.tasks - 1}", limit=1)
    world.over = bool(last["tasks"])
    if not world.over:
        await asyncio.sleep(IDLE_SECONDS)


async def _complete(world: World, agent: Agent, task: dict[str, Any]) -> None:
    result = await agent.raw(
        "complete_task", task=task["id"], generation=task["generation"], result=f"{task['id']} done"
    )
    if result.is_error:
        assert result.structured_content["code"] in ("TASK_NOT_HELD", "TASK_CLOSED"), result.structured_content
        return
    world.completed.add(task["id"])


async def _lease(world: World, agent: Agent) -> None:
    mode = "exclusive" if world.rng.random() < 0.7 else "shared"
    result = await agent.raw("lease", paths=[_pattern(world.rng)], mode=mode, ttl_seconds=TTL_SECONDS)
    if result.is_error:
        assert result.structured_content["code"] == "LEASE_CONFLICT", result.structured_content
        world.refused += 1
        return
    (lease,) = result.structured_content["leases"]
    world.leased.add(lease["id"])
    released = await agent.raw("release", lease=lease["id"], generation=lease["generation"])
    if released.is_error:
        assert released.structured_content["code"] == "LEASE_LOST", released.structured_content


def _pattern(rng: random.Random) -> str:
    folder, file = rng.choice("abc"), rng.choice(("one.py", "two.py", "three.md"))
    return rng.choice((f"src/{folder}/{file}", f"src/{folder}/*.py", f"src/{folder}/**", f"src/*/{file}"))
