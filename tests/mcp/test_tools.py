"""Every tool of both profiles, by the official client: with a hub, without one, cut off in mid-call, asked twice."""

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from parley.client import AsyncClient
from parley.mcp.profiles import tools_of
from parley.mcp.tools import sdk
from tests.client.hubs import HubProcess, LossyProxy
from tests.mcp.agents import Agent, agent, agent_over_http, text_of
from tests.mcp.driving import EFFECTS, NAME, TOOLS, arrange, call_all, effects, refusals, story

CONNECTION = {"aclose", "connect", "events", "join", "perform"}
"""Methods that make or carry a client, and are no calls of the hub; ``wait`` is what ``events`` is for."""
ASKING = {"wait", "hub_health", "hub_ping", "hub_status", "hub_list_plugins", "hub_move_preview"}
"""What writes nothing, and yet only the hub can tell."""
WRITING = {name for name, tool in TOOLS.items() if tool.writes}
over_each_transport = pytest.mark.parametrize("transport", ["stdio", "http"])


@asynccontextmanager
async def connected(
    hub: HubProcess, transport: str, profile: str = "full", url: str | None = None
) -> AsyncIterator[Agent]:
    if transport == "stdio":
        async with agent(hub.root, "--profile", profile, name=NAME) as client:
            yield client
        return
    path = "/mcp" if profile == "default" else "/mcp/full"
    async with agent_over_http(hub, path, name=NAME, url=url) as client:
        yield client


@over_each_transport
async def test_the_tools_of_the_default_profile_work_together(hub: HubProcess, transport: str) -> None:
    async with connected(hub, transport, "default") as client:
        listed = {tool.name for tool in (await client.client.list_tools()).tools}
        assert listed == {tool.name for tool in tools_of("default")}
        await story(client)


@over_each_transport
async def test_every_tool_works_and_repeating_its_call_has_no_second_effect(hub: HubProcess, transport: str) -> None:
    calls, start = arrange(hub.root)
    async with connected(hub, transport) as client:
        assert {tool.name for tool in (await client.client.list_tools()).tools} == set(TOOLS)
        for _ in range(2):
            assert refusals(await call_all(client, calls)) == {}
            assert effects(hub.root, start) == EFFECTS


async def test_every_write_whose_answer_is_lost_is_repeated_with_one_effect(hub: HubProcess) -> None:
    calls, start = arrange(hub.root)
    proxy = LossyProxy(hub.server.port)
    try:
        proxy.stand_before(hub)
        async with connected(hub, "stdio") as client:
            await client.call("hub_ping")
            proxy.loses_each_write_once = True
            for name, arguments in calls.items():
                before = proxy.answers_lost
                assert refusals({name: await client.raw(name, **arguments)}) == {}
                assert proxy.answers_lost > before or name not in WRITING, f"no answer to {name} was lost"
            assert effects(hub.root, start) == EFFECTS
    finally:
        proxy.close()


async def test_a_post_whose_every_answer_is_lost_once_makes_one_channel_and_one_topic(hub: HubProcess) -> None:
    proxy = LossyProxy(hub.server.port)
    try:
        proxy.stand_before(hub)
        proxy.loses_each_write_once = True
        async with connected(hub, "stdio", "default") as client:
            await client.call("post", channel="new", title="New", content="Hello")
            await client.call("add_task", channel="newer", title="Do it")
        assert proxy.answers_lost >= 5
    finally:
        proxy.close()
    made = {"channel.created": 2, "topic.created": 2, "message.created": 1, "task.created": 1}
    assert effects(hub.root, 0) == made


async def test_over_stdio_what_a_crash_of_the_hub_cut_off_is_repeated_with_one_effect(hub: HubProcess) -> None:
    calls, start = arrange(hub.root)
    proxy = LossyProxy(hub.server.port)
    try:
        proxy.stand_before(hub)
        async with connected(hub, "stdio") as client:
            await client.call("hub_heartbeat", name=NAME)  # is known to the hub from here on
            proxy.keeps_back = True
            answers = asyncio.create_task(call_all(client, calls))
            await asyncio.to_thread(proxy.wait_until_kept_back, len(WRITING | ASKING))
            hub.kill()  # and the tools start another one
            assert refusals(await answers) == {}
            assert effects(hub.root, start) == EFFECTS
    finally:
        proxy.close()


async def test_over_http_what_a_crash_of_the_hub_cut_off_can_be_repeated_with_one_effect(hub: HubProcess) -> None:
    calls, start = arrange(hub.root)
    proxy = LossyProxy(hub.server.port)
    try:
        with suppress(ExceptionGroup):  # so the official client ends, together with its connection
            async with connected(hub, "http", url=proxy.url) as client:
                await client.call("hub_heartbeat", name=NAME)
                proxy.keeps_back = True
                cut_off = asyncio.create_task(call_all(client, calls))
                await asyncio.to_thread(proxy.wait_until_kept_back, len(calls))
                hub.kill()
                pytest.fail(f"a call was answered: {await cut_off}")
    finally:
        proxy.close()
    assert effects(hub.root, start) == EFFECTS, "all of it was done, and nobody heard so"
    hub.start()
    async with connected(hub, "http") as client:
        assert refusals(await call_all(client, calls)) == {}
    assert effects(hub.root, start) == EFFECTS


async def test_without_a_hub_every_tool_answers_from_the_file_or_says_what_to_do(hub: HubProcess) -> None:
    calls, start = arrange(hub.root)
    hub.kill()
    async with agent(hub.root, "--profile", "full", "--no-start", name=NAME) as client:
        answers = await call_all(client, calls)
    assert refusals(answers) == dict.fromkeys(WRITING | ASKING, "HUB_NOT_RUNNING")
    for name in WRITING | ASKING:
        assert "`parley up`" in text_of(answers[name])
    assert effects(hub.root, start) == {}


def test_every_method_of_the_client_has_a_tool() -> None:
    public = {name for name, member in inspect.getmembers(AsyncClient, inspect.isroutine) if not name.startswith("_")}
    assert public - CONNECTION == {tool.name.removeprefix(sdk.PREFIX) for tool in sdk.TOOLS}
