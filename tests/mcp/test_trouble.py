"""Agents in trouble: answers that are lost, a hub that is killed under their calls, no socket, and a long silence."""

import asyncio
import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from mcp import Client as Tools
from mcp import StdioServerParameters

from parley.client import Client
from tests.cli.test_spool import WITHOUT_NETWORK
from tests.cli.test_spool import pytestmark as where_networks_can_be_taken_away
from tests.client.hubs import DEADLINE_SECONDS, HubProcess, LossyProxy
from tests.mcp.agents import CALL_SECONDS, Agent, agent, command
from tests.mcp.test_stdio import INITIALIZE, INITIALIZED, call, lines


async def test_a_write_whose_answer_is_lost_has_one_effect_and_succeeds(hub: HubProcess) -> None:
    proxy = LossyProxy(hub.server.port)
    through_proxy = msgspec.structs.replace(hub.server, port=proxy.port)
    hub.workspace.server_file.write_bytes(msgspec.json.encode(through_proxy))
    writes = [
        ("add_task", {"channel": "general", "title": "Do it"}),
        ("claim_task", {}),
        ("lease", {"paths": ["src/**"]}),
        ("release", {}),
        ("post", {"channel": "general", "title": "Hello", "content": "two"}),
    ]
    try:
        async with agent(hub.root, "--no-start", name="ann") as ann:
            await ann.call("post", channel="general", title="Hello", content="one")
            for tool, arguments in writes:
                proxy.answers_to_lose = 1
                await ann.call(tool, **arguments)
        assert proxy.answers_lost == len(writes)
    finally:
        proxy.close()
    with Client(hub.root) as client:
        happened = Counter(event.name for event in client.read_events(0).events)
    assert happened["message.created"] == 2
    for once in ("channel.created", "task.created", "task.claimed", "lease.acquired", "lease.released"):
        assert happened[once] == 1, once


async def test_calls_during_which_the_hub_is_killed_succeed_and_have_one_effect_each(hub: HubProcess) -> None:
    contents = [f"number {number}" for number in range(24)]
    async with agent(hub.root, name="ann") as ann:
        topic = (await ann.call("post", channel="general", title="Hello", content="first"))["topic_id"]
        posts = [asyncio.create_task(ann.call("post", topic=topic, content=content)) for content in contents]
        await asyncio.wait(posts, return_when=asyncio.FIRST_COMPLETED)
        hub.kill()
        await asyncio.gather(*posts)
    with Client(hub.root) as client:
        kept = Counter(each.content_raw for each in client.tail_messages(topic, limit=100).messages)
    assert kept == Counter(["first", *contents])


@where_networks_can_be_taken_away
async def test_without_a_socket_the_tools_reach_the_hub_through_its_spool(hub: HubProcess) -> None:
    program, *arguments = [*WITHOUT_NETWORK, *command(hub.root)]
    server = StdioServerParameters(command=program, args=arguments, env={"PARLEY_AGENT": "ann"})
    async with Tools(server, read_timeout_seconds=CALL_SECONDS) as client:
        ann = Agent(client)
        await ann.call("post", channel="general", title="Hello", content="from inside")
        await ann.call("add_task", channel="general", title="Do it")
        (task,) = (await ann.call("claim_task"))["tasks"]
        (lease,) = (await ann.call("lease", paths=["src/**"]))["leases"]
        assert (task["holder"], lease["holder"]) == ("ann", "ann")
        start = await ann.call("inbox")
        assert start["news"] == []
        waiting = asyncio.create_task(ann.call("wait", cursor=start["cursor"], seconds=DEADLINE_SECONDS))
        with Client(hub.root, sender="bob") as bob:
            topic = bob.list_topics(bob.list_channels().channels[0].id).topics[0]
            bob.send_message(topic.id, "from outside")
        assert [each["preview"] for each in (await waiting)["news"]] == ["from outside"]


@where_networks_can_be_taken_away
def test_without_a_socket_too_every_line_of_its_output_is_json_rpc(hub: HubProcess) -> None:
    posting = call(2, "post", channel="general", title="Hello", content="hi")
    argv = [*WITHOUT_NETWORK, *command(hub.root)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(lines(INITIALIZE, INITIALIZED, posting))
        process.stdin.flush()
        heard = [json.loads(process.stdout.readline()) for _ in range(2)]
        rest, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert [each["id"] for each in heard] == [1, 2]
    assert rest == b""
    assert not heard[1]["result"]["isError"]


@pytest.fixture
def short_silences(root: Path) -> None:
    """An agent is gone after a moment, long enough for one that shows life."""
    (root / "parley.toml").write_text(
        "[agents]\ngone_after_minutes = 0.1\nseen_flush_seconds = 0.1\n[leases]\nsweep_seconds = 0.1\n"
    )


@pytest.mark.usefixtures("short_silences")
def test_an_agent_is_known_by_its_program_swept_when_silent_back_with_the_next_sign_and_left_at_its_end(
    hub: HubProcess,
) -> None:
    argv = command(hub.root, "--program", "claude-code")
    environment = os.environ | {"PARLEY_AGENT": "ann"}
    with (
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process,
        Client(hub.root) as client,
        client.events(0) as feed,
    ):
        assert process.stdin is not None
        process.stdin.write(lines(INITIALIZE, INITIALIZED))
        process.stdin.flush()
        happened: list[str] = []
        for event in feed:
            assert event.data["agent"]["program"] == "claude-code"
            happened.append(event.name)
            if event.name == "agent.registered":
                process.send_signal(signal.SIGSTOP)
            elif event.name == "agent.swept":
                process.send_signal(signal.SIGCONT)
            elif event.name == "agent.changed":
                assert (event.data["agent"]["state"], event.data["reason"]) == ("active", "returned")
                process.stdin.close()
            else:
                break
        process.wait(DEADLINE_SECONDS)
    assert happened == ["agent.registered", "agent.swept", "agent.changed", "agent.left"]
