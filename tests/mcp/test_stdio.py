"""``parley mcp`` on standard input and output, driven by the official client and by hand."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from parley.client import Client
from tests.client.hubs import HubProcess
from tests.mcp.agents import agent, command, text_of

DEADLINE_SECONDS = 60
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "by-hand", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def call(number: int, tool: str, **arguments: object) -> dict[str, object]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def lines(*messages: Mapping[str, object]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def test_every_line_of_its_output_is_json_rpc_also_when_the_hub_is_started(root: Path) -> None:
    process = subprocess.Popen(command(root), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    posting = call(2, "post", channel="general", title="Hello", content="hi")
    process.stdin.write(lines(INITIALIZE, INITIALIZED, posting) + b"no json\n" + lines(call(3, "no_such_tool")))
    process.stdin.flush()
    heard = [json.loads(process.stdout.readline()) for _ in range(4)]
    assert {each["id"] for each in heard} == {1, 2, 3, None}
    rest, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0
    for line in [*heard, *map(json.loads, rest.splitlines())]:
        assert line["jsonrpc"] == "2.0"
    assert Client(root).list_channels().channels[0].name == "general"


def test_what_a_library_prints_does_not_reach_the_wire(root: Path) -> None:
    code = (
        "import os, subprocess, sys\n"
        "from parley.mcp.wire_guard import take_wire\n"
        "wire = take_wire()\n"
        "print('stray'); sys.stdout.flush(); os.write(1, b'straight\\n')\n"
        "subprocess.run(['echo', 'child'], check=True)\n"
        "assert sys.stdin.read() == ''\n"
        "wire.outgoing.write(wire.incoming.readline()); wire.outgoing.flush()\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], input=b"{}\n", capture_output=True, timeout=60, check=True)
    assert ended.stdout == b"{}\n"
    assert set(ended.stderr.split()) == {b"stray", b"straight", b"child"}


def test_it_ends_with_its_input(hub: HubProcess) -> None:
    ended = subprocess.run(command(hub.root), input=b"", capture_output=True, timeout=DEADLINE_SECONDS, check=False)
    assert (ended.returncode, ended.stdout) == (0, b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_it_is_told_to_although_its_input_is_open(hub: HubProcess, number: signal.Signals) -> None:
    with subprocess.Popen(command(hub.root), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(lines(INITIALIZE))
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(number)
        assert process.wait(DEADLINE_SECONDS) == 0


def test_it_ends_with_the_program_that_started_it_although_its_input_stays_open(hub: HubProcess) -> None:
    read_end, write_end = os.pipe()
    code = (
        "import subprocess, sys, os\n"
        "child = subprocess.Popen(sys.argv[2:], stdin=int(sys.argv[1]), stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    os.write(write_end, lines(INITIALIZE))
    argv = [sys.executable, "-c", code, str(read_end), *command(hub.root)]
    parent = subprocess.Popen(argv, stdout=subprocess.PIPE, pass_fds=(read_end,))
    assert parent.stdout is not None
    child = os.pidfd_open(int(parent.stdout.readline()))
    parent.wait(DEADLINE_SECONDS)
    parent.stdout.close()
    wait_for_end(child)
    for each in (read_end, write_end, child):
        os.close(each)


def wait_for_end(process: int) -> None:
    assert select.select([process], [], [], DEADLINE_SECONDS)[0], "the process lives on"


async def test_without_a_hub_it_says_which_command_starts_one(root: Path) -> None:
    async with agent(root, "--no-start") as client:
        refusal = await client.refused("post", channel="general", title="Hello", content="hi")
        assert (refusal["code"], refusal["transient"]) == ("HUB_NOT_RUNNING", True)
        assert "`parley up`" in refusal["hint"]
        assert (await client.call("read"))["channels"] == []


async def test_without_a_workspace_it_says_which_command_makes_one(tmp_path: Path) -> None:
    async with agent(tmp_path) as client:
        result = await client.raw("read")
        assert result.is_error
        assert "`parley init`" in text_of(result)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_two_agents_talk_and_wait_for_each_other(hub: HubProcess, mode: str) -> None:
    async with agent(hub.root, name="ann", mode=mode) as ann, agent(hub.root, name="bob", mode=mode) as bob:
        start = await bob.call("inbox")
        assert start["news"] == []
        waiting = asyncio.create_task(bob.call("wait", cursor=start["cursor"], seconds=DEADLINE_SECONDS))
        posted = await ann.call("post", channel="general", title="Hello", content="hi @bob")
        news = await waiting
        assert [(each["id"], each["sender"], each["preview"]) for each in news["news"]] == [
            (posted["message_id"], "ann", "hi @bob")
        ]
        assert len((await bob.call("inbox"))["news"]) == 1, "looking consumes nothing"
        await bob.call("post", reply_to=posted["message_id"], content="hello")
        assert (await bob.call("inbox", cursor=news["cursor"]))["news"] == [], "own messages are no news"
        assert (await bob.call("inbox"))["news"] == [], "the cursor that was handed in is kept"
        page = await ann.call("read", topic=posted["topic_id"])
        assert [each["content"] for each in page["messages"]] == ["hi @bob", "hello"]


async def test_a_call_outlives_a_restart_of_the_hub_with_one_effect(hub: HubProcess) -> None:
    async with agent(hub.root, name="ann") as ann:
        first = await ann.call("post", channel="general", title="Hello", content="one")
        hub.kill()
        second = await ann.call("post", topic=first["topic_id"], content="two", idempotency_key="second")
        again = await ann.call("post", topic=first["topic_id"], content="two", idempotency_key="second")
        assert (again["message_id"], again["duplicate"]) == (second["message_id"], True)
        page = await ann.call("read", topic=first["topic_id"], detail="ids")
        assert len(page["messages"]) == 2
