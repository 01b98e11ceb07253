"""A hub, a log or a database newer than the tools: what was added is passed over, what nobody knows is named."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import apsw

from parley.client import Client
from parley.wire.server_file import PROTOCOL_VERSION
from tests.client.hubs import HubProcess, LossyProxy
from tests.mcp.agents import agent, text_of
from tests.mcp.driving import EFFECTS, NAME, TOOLS, arrange, call_all, effects, refusals

LATER_EVENT = (
    "INSERT INTO events (ts, name, entity_type, entity_id, data_json)"
    " VALUES ('2027-01-01T00:00:00.000Z', 'message.sung', 'message', 'msg_1', '{\"melody\": \"la\"}')"
)


def with_more(value: Any) -> Any:
    """The value with a member that nobody knows in every object."""
    if isinstance(value, list):
        return [with_more(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {**{name: with_more(each) for name, each in value.items()}, "added_later": {"of": ["a", "kind"]}}


def changed(answer: bytes, protocol: str) -> bytes:
    """An answer as a hub of a later year might give it."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"application/json" not in head:
        return answer
    later = json.dumps(with_more(json.loads(body))).replace(f'"{PROTOCOL_VERSION}"', f'"{protocol}"').encode()
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
    return b"\r\n".join([*lines, b"content-length: %d" % len(later), b"", later])


@contextmanager
def newer(hub: HubProcess, protocol: str = PROTOCOL_VERSION) -> Iterator[None]:
    """Lets the tools find the hub as one of a later year."""
    proxy = LossyProxy(hub.server.port, partial(changed, protocol=protocol))
    try:
        proxy.stand_before(hub)
        yield
    finally:
        proxy.close()


async def test_every_tool_passes_over_what_a_newer_hub_adds(hub: HubProcess) -> None:
    hub.stop()
    write(hub, LATER_EVENT)
    hub.start()
    calls, start = arrange(hub.root)
    with Client(hub.root, sender="ann") as ann:
        told = ann.send_message(calls["post"]["topic"], "A word").message.id
    with newer(hub):
        async with agent(hub.root, "--profile", "full", "--no-start", name=NAME) as client:
            assert refusals(await call_all(client, calls)) == {}
            for tool in ("inbox", "wait"):
                assert [each["id"] for each in (await client.call(tool, cursor=0))["news"]] == [told]
            assert effects(hub.root, start) == EFFECTS + Counter(["message.created"])


async def test_every_tool_names_a_protocol_that_it_does_not_speak_and_starts_no_second_hub(hub: HubProcess) -> None:
    calls, start = arrange(hub.root)
    with newer(hub, "v9"):
        async with agent(hub.root, "--profile", "full", name=NAME) as client:
            answers = await call_all(client, calls)
    refused = refusals(answers)
    assert set(refused.values()) == {"HUB_NOT_RUNNING"}
    assert {name for name, tool in TOOLS.items() if tool.writes} <= set(refused)
    for name in refused:
        assert "speaks protocol v9" in text_of(answers[name])
        assert "pip install -U parley-mesh" in text_of(answers[name])
    assert effects(hub.root, start) == {}


async def test_every_tool_refuses_a_database_of_a_newer_schema(hub: HubProcess) -> None:
    calls, start = arrange(hub.root)
    write(hub, "UPDATE meta SET value = '999' WHERE key = 'parley_schema'")
    async with agent(hub.root, "--profile", "full", name=NAME) as client:
        answers = await call_all(client, calls)
    assert refusals(answers) == dict.fromkeys(TOOLS, "SCHEMA_TOO_NEW")
    assert all("pip install -U parley-mesh" in text_of(answer) for answer in answers.values())
    assert effects(hub.root, start) == {}


def write(hub: HubProcess, statement: str) -> None:
    """Writes into the database behind the hub's back."""
    with apsw.Connection(str(hub.workspace.db)) as connection:
        connection.execute(statement)
    connection.close()
