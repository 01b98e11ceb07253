"""Signs of life: open feeds are one, what cannot be written is kept, and nothing is written for nobody."""

import asyncio
from typing import Any

from websockets.asyncio.client import connect

from parley.core.errors import ServiceUnavailable
from parley.hub.hub import Hub
from parley.workspace import queries
from tests.hub.conftest import MakeHub
from tests.hub.coordination import Team
from tests.hub.hubs import DEADLINE_SECONDS


def last_seen(hub: Hub, name: str) -> str:
    agent = hub.store.read(lambda connection: queries.get_agent(connection, name))
    assert agent is not None
    return agent.last_seen_at


async def test_an_agent_that_listens_is_alive(make_server: MakeHub) -> None:
    server = await make_server()
    team = Team(server, await server.api.channel())
    await team.register("ann", session="s1")
    async with connect(server.ws_url, additional_headers={"X-Parley-Agent": "ann"}) as feed:
        await feed.send('{"type": "hello"}')
        async with asyncio.timeout(DEADLINE_SECONDS):
            await feed.recv()
        server.clock.advance(3600)
        await team.sweep()
        assert last_seen(server.hub, "ann") == "2026-01-01T01:00:00.000Z"
        assert (await server.api.get("/api/v1/agents/ann"))["agent"]["state"] == "active"


async def test_what_cannot_be_written_is_kept_and_said_once(team: Team) -> None:
    hub = team.hub.hub
    await team.register("ann", session="s1")
    await team.claim((await team.task())["id"], "ann", ttl_seconds=60)
    team.hub.clock.advance(60)
    hub.presence.saw("ann")
    hub.store.writer.refuse_with = ServiceUnavailable("The disk is full", reason="disk_low")
    for _ in range(3):
        await team.sweep()
    await hub.sweeper.stop()
    told = [entry for entry in team.hub.log.entries if entry["event"] in ("not_swept", "signs_of_life_not_written")]
    assert [entry["event"] for entry in told] == ["not_swept", "signs_of_life_not_written"]
    hub.store.writer.refuse_with = None
    await team.sweep()
    assert last_seen(hub, "ann") == "2026-01-01T00:01:00.000Z"
    assert (await team.told("task"))[-1][0] == "task.expired"


async def test_without_a_sign_of_life_nothing_is_written(team: Team) -> None:
    await team.register("ann", session="s1")
    await team.sweep()
    commits = count_commits(team)
    await team.sweep()
    assert count_commits(team) == commits


def count_commits(team: Team) -> float:
    measured: Any = team.hub.hub.metrics.snapshot()["parley_commit_seconds"]
    return measured["count"]


async def test_many_ends_are_written_down_in_one_look(team: Team) -> None:
    count = 120
    for number in range(count):
        await team.lease("ann", f"file-{number}", ttl_seconds=60)
    team.hub.clock.advance(60)
    await team.sweep()
    names = [name for name, _ in await team.told("lease")]
    assert names.count("lease.expired") == count
    assert team.hub.fold_problems() == []


async def test_the_sweeper_looks_by_itself(make_hub: MakeHub) -> None:
    hub = await make_hub({"leases": {"sweep_seconds": 0.05}, "agents": {"seen_flush_seconds": 0.05}})
    team = Team(hub, await hub.api.channel())
    await team.lease("ann", "src/**", ttl_seconds=60)
    hub.clock.advance(60)
    sweeping = asyncio.create_task(hub.hub.sweeper.run())
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while (await team.told("lease"))[-1][0] != "lease.expired":
                pass  # each look reads the log on a thread
    finally:
        sweeping.cancel()
