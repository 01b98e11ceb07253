"""Connections that end at any moment leave nothing behind, and their clients lose nothing."""

import asyncio
import gc
import random
from typing import Any

import pytest

from parley.hub.ws import FeedConnection
from tests.hub.conftest import MakeHub
from tests.hub.feed.clients import feed, post_many, until, upgrade
from tests.hub.hubs import OpenHub, rows

LARGE = "a" * 60_000


@pytest.fixture
async def hub(make_server: MakeHub) -> OpenHub:
    return await make_server({"websocket": {"connections_max": 1_000, "replay_batch": 5}})


def connections_alive() -> list[FeedConnection]:
    """Connections that something still refers to: a timer, a task, a transport."""
    gc.collect()
    return [
        each for each in gc.get_objects() if issubclass(type(each), FeedConnection)
    ]  # of a weak proxy the type is safe


async def test_five_hundred_connects_and_disconnects_leave_no_feed_no_task_and_no_timer(hub: OpenHub) -> None:
    topic = await hub.api.topic(await hub.api.channel())
    await post_many(hub, topic, 50)
    tasks = len(asyncio.all_tasks())
    rng = random.Random(3)
    for _ in range(50):
        clients = await asyncio.gather(*(upgrade(hub) for _ in range(10)))
        for client in clients:
            how = rng.randrange(5)
            if how > 0:
                await client.hello(rng.randrange(60))
            if how == 1:
                client.send(0x8, b"\x03\xe8")
            elif how == 2:
                client.reset()
            elif how == 3:
                client.half_close()
            client.close()
    await until(lambda: hub.hub.feeds_open == 0)
    await until(lambda: len(asyncio.all_tasks()) <= tasks)
    assert hub.hub.feed._groups == {}
    assert hub.hub.feeds_peak >= 10
    await until(lambda: connections_alive() == [])


async def test_a_client_that_vanishes_mid_replay_is_forgotten_and_the_hub_goes_on(hub: OpenHub) -> None:
    topic = await hub.api.topic(await hub.api.channel())
    await post_many(hub, topic, 200, LARGE)
    for how in ("reset", "half_close", "close"):
        client = await upgrade(hub, receive_bytes=4_096)
        await client.hello()
        await client.ids(2)
        getattr(client, how)()
        if how == "half_close":
            await client.ended()
            client.close()
    await until(lambda: hub.hub.feeds_open == 0)
    assert hub.hub.feed._groups == {}
    assert not [entry for entry in hub.log.entries if entry["log_level"] in ("error", "critical")]
    await hub.api.post(topic)


async def test_a_transport_that_is_aborted_after_it_was_closed_raises_nothing(hub: OpenHub) -> None:
    problems: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    async with feed(hub) as client:
        await client.hello()
        (connection,) = hub.hub._feeds
        transport = connection._transport
        assert transport is not None
        connection.close(1001, "bye")
        await client.ended()
        await until(lambda: hub.hub.feeds_open == 0)
        transport.abort()
        connection.close(1001, "again")
        connection.write(b"late")
    await asyncio.sleep(0)
    assert problems == []


async def test_random_disconnects_at_any_frame_give_the_client_the_very_log_of_the_database(hub: OpenHub) -> None:
    """Cut after any number of frames, by close, by FIN or by RST, while others write."""
    rng = random.Random(11)
    channel = await hub.api.channel()
    topic = await hub.api.topic(channel)
    log: list[tuple[int, str]] = []

    async def write() -> None:
        for number in range(60):
            await hub.api.post(topic, f"message {number}")

    writing = asyncio.create_task(write())
    while not writing.done() or len(log) < hub.hub.feed.latest:
        async with feed(hub) as client:
            await client.hello(log[-1][0] if log else 0)
            for _ in range(min(rng.randrange(12), hub.hub.feed.latest - len(log))):
                event = await client.event()
                log.append((event["event_id"], event["name"]))
            getattr(client, rng.choice(("reset", "half_close", "close")))()
    await writing
    assert log == rows(hub.workspace, "SELECT event_id, name FROM events ORDER BY event_id")


async def test_a_stop_in_the_middle_of_a_replay_ends_the_feed_with_1001(hub: OpenHub) -> None:
    topic = await hub.api.topic(await hub.api.channel())
    latest = await post_many(hub, topic, 100, LARGE)
    async with feed(hub) as client:
        await client.hello()
        first = await client.ids(1)
        hub.hub.close_feeds(1001, "Server shutting down")
        assert (await client.closing()).close_code == 1001
        await client.ended()
    assert first == [1]
    assert latest > 100


async def test_a_subscriber_that_cannot_be_written_to_does_not_keep_events_from_others(hub: OpenHub) -> None:
    """A socket that the peer reset may refuse a write in the very moment of a publication."""
    topic = await hub.api.topic(await hub.api.channel())
    async with feed(hub) as other:
        await other.hello(hub.hub.feed.latest)
        for _ in range(20):
            gone = await upgrade(hub)
            await gone.hello(hub.hub.feed.latest)
            gone.reset()
            await hub.api.post(topic)
        assert await other.ids(20) == list(range(3, 23))
