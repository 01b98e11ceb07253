"""The defects of the earlier hub that are about the feed and the life cycle, each shown to be gone.

Numbers are those of the study's list. Simultaneous starts (2) and a newer schema (19) need processes and are in
``lifecycle``; refused upgrades (12) are in ``feed/test_upgrade.py``.
"""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from parley.core.settings import Settings
from tests.hub.conftest import MakeHub
from tests.hub.feed.clients import RawFeed, Refused, feed, post_many, upgrade
from tests.hub.hubs import rows, serve_hub


async def test_defect_1_a_replay_of_12_000_events_is_complete_on_one_connection(make_server: MakeHub) -> None:
    hub = await make_server()
    topic = await hub.api.topic(await hub.api.channel())
    latest = await post_many(hub, topic, 12_000)
    async with feed(hub) as client:
        assert (await client.hello())["replay_until"] == latest
        await hub.api.post(topic)
        assert await client.ids(latest + 1) == list(range(1, latest + 2))


async def test_defect_10_a_thousand_events_of_60_kb_reach_a_prompt_reader_on_one_connection(
    make_server: MakeHub,
) -> None:
    hub = await make_server()
    topic = await hub.api.topic(await hub.api.channel())
    for _ in range(10):
        latest = await post_many(hub, topic, 100, "a" * 60_000)
    async with feed(hub) as client:
        await client.hello()
        assert await client.ids(latest) == list(range(1, latest + 1))
        assert hub.hub.feeds_open == 1


async def test_defect_11_a_restart_keeps_the_token_and_a_feed_resumes_where_it_was(tmp_path: Path) -> None:
    async with serve_hub(tmp_path) as first:
        token = first.token
        topic = await first.api.topic(await first.api.channel())
        async with feed(first) as client:
            await client.hello()
            seen = await client.ids(2)
            first.hub.close_feeds(1001, "Server shutting down")
            assert (await client.closing()).close_code == 1001
        await first.api.post(topic, "nobody listens")
    async with serve_hub(tmp_path) as second:
        assert second.token == token
        await second.api.post(topic, "after the restart")
        async with feed(second) as client:
            hello = await client.hello(seen[-1])
            assert "reset" not in hello
            seen += await client.ids(2)
    assert seen == [1, 2, 3, 4]


async def test_defect_16_of_300_feeds_at_a_limit_of_100_exactly_100_are_served(make_server: MakeHub) -> None:
    assert Settings().websocket.connections_max == 100
    hub = await make_server()
    channel = await hub.api.channel()
    results = await asyncio.gather(*(upgrade(hub) for _ in range(300)), return_exceptions=True)
    served = [result for result in results if isinstance(result, RawFeed)]
    refused = [result for result in results if isinstance(result, Refused)]
    assert (len(served), len(refused)) == (100, 200)
    assert {(each.status, each.body["code"]) for each in refused} == {(503, "SERVICE_UNAVAILABLE")}
    assert {each.body["details"]["reason"] for each in refused} == {"connection_limit"}
    async with AsyncExitStack() as stack:
        for each in served:
            stack.callback(each.close)
        await asyncio.gather(*(each.hello(hub.hub.feed.latest) for each in served))
        await hub.api.topic(channel)
        assert await asyncio.gather(*(each.ids(1) for each in served)) == [[2]] * 100


async def test_defect_17_while_20_000_messages_move_other_requests_are_answered_in_between(
    make_server: MakeHub,
) -> None:
    """Told by the order of completion: requests that begin after the move has begun end long before it does."""
    hub = await make_server()
    channel = await hub.api.channel()
    source, target, elsewhere = [await hub.api.topic(channel, title) for title in ("from", "to", "elsewhere")]
    count = 20_000
    await post_many(hub, source, count)
    anchor = rows(hub.workspace, "SELECT id FROM messages ORDER BY seq LIMIT 1")[0][0]
    start = hub.hub.feed.latest
    moving = asyncio.create_task(hub.api.patch(anchor, "move_topic", to_topic_id=target, mode="all"))
    answered_at: list[int] = []
    while not moving.done():
        await hub.api.post(elsewhere)
        await hub.api.get("/api/v1/messages", topic_id=elsewhere)
        answered_at.append(hub.hub.feed.latest - start)
    result = await moving
    assert result["affected_count"] == count
    in_between = [moved for moved in answered_at if 0 < moved < count]
    assert len(in_between) >= 10, answered_at
    assert rows(hub.workspace, "SELECT count(*) FROM messages WHERE topic_id = ?", target) == [(count,)]
    moves = rows(hub.workspace, "SELECT count(*) FROM events WHERE name = 'message.moved_topic'")
    assert moves == [(count,)]
