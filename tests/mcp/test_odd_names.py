"""Names and keys that no request can carry: the tools say so at once, and go on."""

import pytest

from parley.core.errors import InvalidInput
from parley.mcp.link import Link
from tests.client.hubs import HubProcess
from tests.mcp.agents import agent, agent_over_http
from tests.mcp.worlds import sitting
from tests.workspace.databases import add_channel, writing


async def test_an_agent_whose_name_is_no_ascii_is_told_which_variable_to_set(hub: HubProcess) -> None:
    async with agent(hub.root, name="josé") as client:
        for tool, arguments in (("post", {"channel": "general", "title": "T", "content": "C"}), ("read", {})):
            refusal = await client.refused(tool, **arguments)
            assert refusal["code"] == "INVALID_INPUT"
            assert "PARLEY_AGENT" in refusal["error"]


async def test_over_http_it_is_told_which_header(hub: HubProcess) -> None:
    async with agent_over_http(hub, name="josé") as client:
        refusal = await client.refused("post", channel="general", title="T", content="C")
        assert refusal["code"] == "INVALID_INPUT"
        assert "X-Parley-Agent" in refusal["error"]


def test_bytes_that_are_no_text_are_no_name(hub: HubProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLEY_AGENT", "jos\udce9")
    with pytest.raises(InvalidInput, match="PARLEY_AGENT"):
        Link(hub.root, program="tests", start=False)


@pytest.mark.parametrize("key", ["réponse-1", "a\nb", " lead", "\x7f", "\ud800"])
async def test_an_odd_key_is_refused_by_its_name_before_anything_is_written(hub: HubProcess, key: str) -> None:
    async with sitting(hub, "ann") as ann:
        for tool, arguments in (("post", {"channel": "new", "title": "T", "content": "C"}), ("release", {})):
            with pytest.raises(InvalidInput, match="idempotency_key"):
                await ann.call(tool, **arguments, idempotency_key=key)
        assert (await ann.call("read")).data["channels"] == []


async def test_h6_the_tools_take_an_id_for_the_channel_that_has_it(hub: HubProcess) -> None:
    async with sitting(hub, "ann") as ann:
        await ann.call("post", channel="first", title="T", content="C")
        [first] = [channel["id"] for channel in (await ann.call("read")).data["channels"]]
        with writing(hub.workspace) as connection:
            add_channel(connection, "ch_second", name=first)
        assert (await ann.call("read", channel=first)).data["channel_id"] == first
        assert (await ann.call("read", channel="ch_second")).data["channel_id"] == "ch_second"
