"""Agents in trouble: no socket, and a long silence."""

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from mcp import Client as Tools
from mcp import StdioServerParameters

from parley.client import Client
from tests.cli.test_spool import WITHOUT_NETWORK
from tests.cli.test_spool import pytestmark as where_networks_can_be_taken_away
from tests.client.hubs import DEADLINE_SECONDS, HubProcess
from tests.mcp.agents import CALL_SECONDS, Agent, command
from tests.mcp.test_stdio import INITIALIZE, INITIALIZED, call, lines


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
        "[agents]\ngone_after_minutes = 0.2\nseen_flush_seconds = 0.1\n[leases]\nsweep_seconds = 0.1\n"
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
