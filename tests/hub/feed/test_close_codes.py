"""Every close code of the registry, with the reason that a client sees."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError

from parley.core.clock import SystemClock
from parley.core.registry import CLOSE_CODES
from parley.hub.archive import ArchiveReport, archive_before
from tests.hub.conftest import MakeHub
from tests.hub.damage import damage_file
from tests.hub.feed.clients import feed, post_many, until
from tests.hub.feed.frames import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT
from tests.hub.feed.test_slow_readers import connection_of
from tests.hub.hubs import OpenHub, open_hub, workspace_in
from tests.workspace.databases import writing

HELLO = b'{"type":"hello","after_event_id":0}'
REASONS = (
    (b"no json", "Invalid JSON"),
    (b"", "Invalid JSON"),
    (b"[" * 10_000, "Invalid JSON"),
    (b'"\\ud800"', "Invalid JSON"),
    (b"null", "Expected hello message"),
    (b"[]", "Expected hello message"),
    (b"{}", "Expected hello message"),
    (b'{"type":"hallo"}', "Expected hello message"),
    (b'{"type":["hello"]}', "Expected hello message"),
    (b'{"type":"hello","after_event_id":-1}', "Invalid after_event_id"),
    (b'{"type":"hello","after_event_id":"1"}', "Invalid after_event_id"),
    (b'{"type":"hello","after_event_id":true}', "Invalid after_event_id"),
    (b'{"type":"hello","after_event_id":1.5}', "Invalid after_event_id"),
    (b'{"type":"hello","after_event_id":0,"subscriptions":5}', "Invalid channel subscriptions"),
    (b'{"type":"hello","after_event_id":0,"subscriptions":{"channels":"a"}}', "Invalid channel subscriptions"),
    (b'{"type":"hello","after_event_id":0,"subscriptions":{"channels":[1]}}', "Invalid channel subscriptions"),
    (b'{"type":"hello","after_event_id":0,"subscriptions":{"topics":[null]}}', "Invalid topic subscriptions"),
    (b'{"type":"hello","after_event_id":0,"subscriptions":{"topics":{}}}', "Invalid topic subscriptions"),
    (
        json.dumps({"type": "hello", "subscriptions": {"channels": [f"c{n}" for n in range(1_001)]}}).encode(),
        "Invalid channel subscriptions",
    ),
    (
        json.dumps({"type": "hello", "subscriptions": {"topics": [f"t{n}" for n in range(1_001)]}}).encode(),
        "Invalid topic subscriptions",
    ),
)


@pytest.fixture
async def hub(make_server: MakeHub) -> OpenHub:
    return await make_server()


def closed(hub: OpenHub, code: int) -> int:
    """How many feeds the metrics say were closed with this code."""
    entry: Any = hub.hub.metrics.snapshot()["parley_ws_closed_total"]
    return entry.get("by_labels", {}).get(str(code), 0)


def test_every_close_code_of_the_registry_has_a_test_here() -> None:
    tested = {int(word) for name in globals() if name.startswith("test_code_") for word in name.split("_")[2:3]}
    assert tested == {entry.code for entry in CLOSE_CODES}


async def test_code_1000_answers_a_client_that_says_goodbye(hub: OpenHub) -> None:
    async with feed(hub) as client:
        await client.hello()
        client.send(CLOSE, struct.pack("!H", 1000) + b"done")
        closing = await client.closing()
        assert closing.close_code == 1000
        await client.ended()
    await until(lambda: hub.hub.feeds_open == 0)
    assert closed(hub, 1000) == 1


async def test_code_1001_tells_of_a_stop(hub: OpenHub) -> None:
    async with feed(hub) as greeted, feed(hub) as silent:
        await greeted.hello()
        hub.hub.close_feeds(1001, "Server shutting down")
        for client in (greeted, silent):
            closing = await client.closing()
            assert (closing.close_code, closing.close_reason) == (1001, "Server shutting down")
            await client.ended()


async def test_code_1003_names_what_is_wrong_with_the_hello(hub: OpenHub) -> None:
    for message, reason in REASONS:
        async with feed(hub) as client:
            client.send(TEXT, message)
            closing = await client.closing()
            assert (closing.close_code, closing.close_reason) == (1003, reason), message[:80]
            await client.ended()


async def test_code_1003_ends_a_feed_whose_client_says_anything_after_the_hello(hub: OpenHub) -> None:
    async with feed(hub) as client:
        await client.hello()
        client.send(TEXT, HELLO)
        closing = await client.closing()
        assert (closing.close_code, closing.close_reason) == (1003, "Unexpected message after handshake")


async def test_code_1007_ends_a_feed_whose_client_sends_text_that_is_not_utf_8(hub: OpenHub) -> None:
    async with feed(hub) as client:
        client.send(TEXT, b'{"type":"hello","x":"\xff"}')
        assert (await client.closing()).close_code == 1007
        await client.ended()


async def test_code_1007_also_when_the_bad_bytes_are_split_over_fragments(hub: OpenHub) -> None:
    async with feed(hub) as client:
        client.send(TEXT, b'{"type":"hello","x":"\xc3', fin=False)
        client.send(CONTINUATION, b'("}')
        assert (await client.closing()).close_code == 1007


async def test_a_binary_message_that_is_not_utf_8_is_merely_no_json(hub: OpenHub) -> None:
    async with feed(hub) as client:
        client.send(BINARY, b'{"type":"hello","x":"\xff"}')
        assert (await client.closing()).close_code == 1003


async def test_code_1008_ends_a_feed_that_says_no_hello_in_time(make_server: MakeHub) -> None:
    hub = await make_server({"websocket": {"hello_seconds": 0.1}})
    async with feed(hub) as client:
        closing = await client.closing()
        assert (closing.close_code, closing.close_reason) == (1008, "No hello in time")
        await client.ended()


async def test_a_feed_that_said_hello_is_not_closed_for_saying_none(hub: OpenHub) -> None:
    async with feed(hub) as client:
        connection = connection_of(hub, client)
        deadline = connection._timer
        assert deadline is not None
        await client.hello()
        assert deadline.cancelled()
        assert connection._timer is None


async def test_code_1009_ends_a_feed_whose_client_sends_a_message_above_the_limit(make_server: MakeHub) -> None:
    hub = await make_server({"websocket": {"message_bytes_max": 1_024}})
    async with feed(hub) as client:
        client.send(TEXT, b" " * 1_025)
        closing = await client.closing()
        assert (closing.close_code, closing.close_reason) == (1009, "Message too large")
        await client.ended()
    async with feed(hub) as in_fragments:
        in_fragments.send(TEXT, b" " * 600, fin=False)
        in_fragments.send(CONTINUATION, b" " * 600)
        closing = await in_fragments.closing()
        assert (closing.close_code, closing.close_reason) == (1009, "Message too large")
    async with feed(hub) as at_the_limit:
        at_the_limit.send(TEXT, HELLO.ljust(1_024))
        assert json.loads((await at_the_limit.frame()).payload)["type"] == "hello_ok"
    await until(lambda: hub.hub.feeds_open == 0)
    assert closed(hub, 1009) == 2


async def test_code_1011_ends_a_feed_that_answers_no_ping(make_server: MakeHub) -> None:
    hub = await make_server({"websocket": {"ping_seconds": 0.1}})
    async with feed(hub) as client:
        client.send(TEXT, HELLO)
        received = [await client.frame()]
        while received[-1].opcode != CLOSE:
            received.append(await client.frame())
        # On a machine that stops for a moment the first ping is due before the hello was read.
        assert sorted(each.opcode for each in received[:-1]) == [TEXT, PING]
        assert (received[-1].close_code, received[-1].close_reason) == (1011, "Ping unanswered")


async def test_a_feed_that_answers_its_pings_stays_open(hub: OpenHub) -> None:
    async with feed(hub) as client:
        await client.hello()
        connection = connection_of(hub, client)
        for _ in range(4):
            connection._ping()  # as its timer does, which on a busy machine may be due before any answer can be read
            ping = await client.frame()
            assert ping.opcode == PING
            client.send(PONG, ping.payload)
            await until(lambda: not connection._pong_due)
        assert hub.hub.feeds_open == 1


async def test_a_ping_of_the_client_is_answered_before_and_after_the_hello(hub: OpenHub) -> None:
    async with feed(hub) as client:
        client.send(PING, b"early")
        assert await client.frame() == (PONG, b"early")
        await client.hello()
        client.send(PING, b"late")
        assert await client.frame() == (PONG, b"late")
        client.send(PONG, b"nobody asked")
        client.send(PING, b"")
        assert await client.frame() == (PONG, b"")


async def test_code_1011_ends_a_feed_when_the_log_cannot_be_read(hub: OpenHub) -> None:
    topic = await hub.api.topic(await hub.api.channel())
    await post_many(hub, topic, 3_000, "a" * 500)
    damage_file(hub.workspace.db)
    async with feed(hub) as client:
        await client.hello()
        closing = await client.closing()
        assert (closing.close_code, closing.close_reason) == (1011, "Internal error during replay")
    assert hub.stops == ["corrupt"]


async def test_code_4401_ends_a_feed_after_the_grace_period_of_a_rotated_token(make_server: MakeHub) -> None:
    hub = await make_server({"hub": {"token_grace_seconds": 0.1}}, clock=SystemClock())
    old = hub.token
    async with feed(hub) as outdated:
        await outdated.hello()
        await hub.api.call("POST", "/api/v1/token/rotate")
        assert hub.token != old
        async with feed(hub) as renewed:
            await renewed.hello()
            closing = await outdated.closing()
            assert closing.close_code == 4401
            await outdated.ended()
            renewed.send(PING, b"still here")
            assert await renewed.frame() == (PONG, b"still here")


async def test_code_4410_ends_a_feed_whose_cursor_was_archived_and_says_where_to_go_on(
    make_server: MakeHub, tmp_path: Path
) -> None:
    archived = await archived_workspace(tmp_path / "old")
    hub = await make_server(folder=tmp_path / "old")
    async with feed(hub) as client:
        client.send(TEXT, HELLO)
        closing = await client.closing()
        assert closing.close_code == 4410
        assert archived.path is not None
        assert closing.close_reason == f"CURSOR_EXPIRED: {archived.path.name} {archived.up_to_event_id}"
    async with feed(hub) as at_the_floor:
        assert (await at_the_floor.hello(archived.up_to_event_id))["latest_event_id"] == hub.hub.feed.latest
    async with feed(hub) as from_the_oldest:
        await from_the_oldest.hello(None)
        assert (await from_the_oldest.event())["event_id"] == archived.up_to_event_id + 1


async def test_a_close_reason_is_cut_to_what_a_close_frame_holds(make_server: MakeHub, tmp_path: Path) -> None:
    archived = await archived_workspace(tmp_path / "old")
    with writing(workspace_in(tmp_path / "old")) as connection:
        connection.execute(
            "INSERT INTO archives (name, sha256, up_to_event_id, events, messages, created_at)"
            " VALUES (?, ?, ?, 0, 0, '2026-11-16T00:00:00.000Z')",
            ("\u00e9" * 200, "0" * 64, archived.up_to_event_id + 1),
        )
    hub = await make_server(folder=tmp_path / "old")
    async with feed(hub) as client:
        client.send(TEXT, HELLO)
        closing = await client.closing()
        assert (closing.close_code, closing.close_reason) == (4410, "CURSOR_EXPIRED: " + "\u00e9" * 53)


async def test_the_websockets_client_sees_the_same_codes(hub: OpenHub) -> None:
    async with connect(hub.ws_url) as client:
        await client.send(b"no json")
        with pytest.raises(ConnectionClosedError) as ended:
            await client.recv()
    assert ended.value.rcvd is not None
    assert (ended.value.rcvd.code, ended.value.rcvd.reason) == (1003, "Invalid JSON")


async def test_a_hello_may_come_in_fragments_with_a_ping_between_them_and_as_text_or_binary(hub: OpenHub) -> None:
    for opcode in (TEXT, BINARY):
        async with feed(hub) as client:
            client.send(opcode, HELLO[:10], fin=False)
            client.send(PING, b"between")
            client.send(CONTINUATION, HELLO[10:20], fin=False)
            client.send(CONTINUATION, HELLO[20:])
            answers = {received.opcode: received.payload for received in (await client.frame(), await client.frame())}
            assert answers[PONG] == b"between"
            assert json.loads(answers[TEXT])["type"] == "hello_ok"


async def test_code_1002_ends_what_is_not_of_the_protocol_and_h12_is_listed(hub: OpenHub) -> None:
    for opcode, payload in (
        (CONTINUATION, b"of nothing"),
        (0x3, b"a reserved opcode"),
        (CLOSE, b"\x03"),
        (PING, b"a long ping".ljust(126)),
    ):
        async with feed(hub) as client:
            client.send(opcode, payload)
            assert (await client.closing()).close_code == 1002, payload
            await client.ended()
    await until(lambda: hub.hub.feeds_open == 0)
    assert 1002 in [each.code for each in CLOSE_CODES]


async def archived_workspace(folder: Path) -> ArchiveReport:
    """A workspace of which everything up to now was archived, and which was used again afterwards."""
    async with open_hub(folder) as old:
        topic = await old.api.topic(await old.api.channel())
        await old.api.post(topic)
        workspace, now_ms = old.workspace, old.clock.now_ms()
    with writing(workspace) as connection:
        report = archive_before(connection, workspace, before_ms=now_ms + 1, now_ms=now_ms)
    async with open_hub(folder) as again:
        await again.api.post(topic)
    return report
