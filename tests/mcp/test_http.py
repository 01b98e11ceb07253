"""The tools over streamable HTTP, mounted in the hub."""

import asyncio
from pathlib import Path

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import JSONRPCError, jsonrpc_message_adapter

from bench.load.ports import lasting_port
from tests.client.hubs import HubProcess
from tests.mcp.agents import CALL_SECONDS
from tests.mcp.agents import agent_over_http as agent

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


async def test_an_agent_outlives_a_restart_of_the_hub(hub: HubProcess) -> None:
    hub.stop()
    hub.start("--port", str(lasting_port()))
    async with agent(hub, mode="legacy") as client:
        posted = await client.call("post", channel="general", title="Hello", content="one")
        hub.stop()
        hub.start()
        again = await client.call("post", topic=posted["topic_id"], content="two")
        page = await client.call("read", topic=again["topic_id"])
        assert [each["content"] for each in page["messages"]] == ["one", "two"]


async def test_a_wait_ends_with_the_hub_and_does_not_hold_it_up(hub: HubProcess) -> None:
    async with agent(hub, name="ann") as ann:
        await ann.call("post", channel="general", title="Hello", content="one")
        start = await ann.call("inbox")
        waiting = asyncio.create_task(ann.call("wait", cursor=start["cursor"], seconds=50))
        await feed_open(hub)
        await asyncio.to_thread(hub.stop)
        assert (await waiting)["news"] == []
    assert "drain_timed_out" not in (hub.root / "hub.stderr").read_text()


async def test_two_agents_wait_for_each_other(hub: HubProcess) -> None:
    async with agent(hub, name="ann") as ann, agent(hub, name="bob") as bob:
        start = await bob.call("inbox")
        waiting = asyncio.create_task(bob.call("wait", cursor=start["cursor"], seconds=50))
        posted = await ann.call("post", channel="general", title="Hello", content="hi")
        assert [(each["id"], each["sender"]) for each in (await waiting)["news"]] == [(posted["message_id"], "ann")]


async def test_without_a_name_it_says_which_header_tells_it(hub: HubProcess) -> None:
    async with agent(hub, name=None) as client:
        refusal = await client.refused("read")
        assert refusal["code"] == "INVALID_INPUT"
        assert "X-Parley-Agent" in refusal["error"]


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 401, "MISSING_AUTH"),
        ({"Authorization": "Bearer wrong"}, 401, "INVALID_AUTH"),
        ({"Host": "evil.example"}, 403, "HOST_FORBIDDEN"),
        ({"Origin": "http://evil.example"}, 403, "ORIGIN_FORBIDDEN"),
    ],
)
async def test_it_stands_behind_what_guards_the_hub(
    hub: HubProcess, headers: dict[str, str], status: int, code: str
) -> None:
    async with caller(hub) as http:
        answer = await http.post("/mcp", json=PING, headers=ACCEPT | headers)
        assert (answer.status_code, answer.json()["error"]["data"]["code"]) == (status, code)


async def test_a_refusal_of_the_hub_is_told_by_the_official_client_in_words(hub: HubProcess) -> None:
    headers = {"Authorization": f"Bearer {hub.server.auth_token}", "X-Parley-Agent": "ann"}
    async with httpx2.AsyncClient(headers=headers, timeout=CALL_SECONDS) as http:
        transport = streamable_http_client(hub.server.base_url + "/mcp", http_client=http)
        async with Client(transport, read_timeout_seconds=CALL_SECONDS) as client:
            await client.call_tool("read")
            http.headers["Authorization"] = "Bearer rotated"
            with pytest.raises(MCPError, match="INVALID_AUTH: Unauthorized") as refused:
                await client.call_tool("read")
            assert refused.value.error.data["code"] == "INVALID_AUTH"
            http.headers["Authorization"] = headers["Authorization"]
            assert not (await client.call_tool("read")).is_error, "a refusal does not end the conversation"


async def test_too_many_requests_are_refused_in_the_protocol_with_the_time_to_wait(root: Path) -> None:
    (root / "parley.toml").write_text("[rate_limits]\nper_connection = 1\n")
    hub = HubProcess(root).start(limited=True)
    headers = ACCEPT | {"Authorization": f"Bearer {hub.server.auth_token}", "X-Parley-Agent": "ann"}
    try:
        async with asyncio.timeout(CALL_SECONDS), caller(hub) as http:
            while (answer := await http.post("/mcp", json=PING, headers=headers)).status_code != 429:
                pass
        assert int(answer.headers["retry-after"]) >= 1
        told = jsonrpc_message_adapter.validate_json(answer.content, by_name=False)
        assert isinstance(told, JSONRPCError)
        assert told.error.message.startswith("RATE_LIMITED: ")
        assert told.error.data["details"]["retry_after"] > 0
    finally:
        hub.kill()


async def test_a_call_of_a_tool_counts_as_one_request_whatever_it_asks_the_hub(root: Path) -> None:
    (root / "parley.toml").write_text("[rate_limits]\nper_connection = 4\n")
    hub = HubProcess(root).start(limited=True)
    try:
        async with agent(hub, mode="legacy") as client:
            posted = await client.call("post", channel="general", title="Hello", content="one")
            assert posted["message_id"], "a registration, a channel, a topic and a message"
        forged = {"Authorization": f"Bearer {hub.server.auth_token}", "X-Parley-Guest-Pass": "made up"}
        async with asyncio.timeout(CALL_SECONDS), caller(hub) as http:
            headers = forged | {"X-Parley-Agent": "mallory"}
            while (await http.get("/api/v1/channels", headers=headers)).status_code != 429:
                pass
    finally:
        hub.kill()


async def test_a_body_beyond_the_limit_and_other_methods_are_refused(hub: HubProcess) -> None:
    headers = ACCEPT | {"Authorization": f"Bearer {hub.server.auth_token}"}
    async with caller(hub, headers=headers) as http:
        large = await http.post("/mcp", content=b" " * (512 * 1024 + 1))
        assert (large.status_code, large.json()["error"]["data"]["code"]) == (413, "PAYLOAD_TOO_LARGE")
        assert (await http.get("/mcp")).status_code == 405
        assert (await http.delete("/mcp")).status_code == 405
        assert (await http.post("/mcp/other", json=PING)).status_code == 404


async def test_a_hub_loads_the_sdk_with_the_first_request_for_the_tools(hub: HubProcess) -> None:
    assert "pydantic_core" not in mapped(hub)
    async with agent(hub) as client:
        await client.call("read")
    assert "pydantic_core" in mapped(hub)


def mapped(hub: HubProcess) -> str:
    """The libraries that a hub's process has loaded."""
    return Path(f"/proc/{hub.server.pid}/maps").read_text()


def caller(hub: HubProcess, headers: dict[str, str] | None = None) -> httpx.AsyncClient:
    """Whoever asks by hand, and waits as long as a hub may take that loads the SDK on a busy machine."""
    return httpx.AsyncClient(base_url=hub.server.base_url, headers=headers, timeout=CALL_SECONDS)


async def feed_open(hub: HubProcess) -> None:
    """Returns when somebody follows the hub's events."""
    headers = {"Authorization": f"Bearer {hub.server.auth_token}"}
    async with asyncio.timeout(CALL_SECONDS), caller(hub, headers=headers) as http:
        while True:
            if (await http.get("/api/v1/status")).json()["ws_connections"]:
                return
            await asyncio.sleep(0.02)
