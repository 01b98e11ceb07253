"""A slow reader costs only itself: bounded memory, nobody else waits, nothing is lost, and a stalled one is let go."""

import gc
import socket
from typing import Any

from parley.hub.replay import BATCH_BYTES_MAX
from parley.hub.ws import WRITE_BUFFER_BYTES, FeedConnection
from tests.hub.conftest import MakeHub
from tests.hub.feed.clients import RawFeed, feed, post_many, until
from tests.hub.feed.frames import CLOSE, PING
from tests.hub.hubs import OpenHub

LARGE = "a" * 60_000
SMALL_WINDOW = 4_096
ENOUGH = 4
"""So many large events do not fit between the hub's own buffer and the reader."""


def connection_of(hub: OpenHub, client: RawFeed) -> FeedConnection:
    """The hub's end of a feed."""
    (found,) = (
        each
        for each in hub.hub._feeds
        if each._transport is not None and each._transport.get_extra_info("peername")[1] == client.local_port
    )
    return found


def held(connection: FeedConnection) -> int:
    """Bytes that the hub keeps in memory for one feed."""
    assert connection._transport is not None
    waiting = sum(map(len, connection._subscriber._waiting))
    return connection._transport.get_write_buffer_size() + waiting


def narrow(connection: FeedConnection) -> None:
    """Keeps the kernel from taking megabytes off the hub's hands."""
    assert connection._transport is not None
    end: socket.socket = connection._transport.get_extra_info("socket")
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_WINDOW)


async def test_a_slow_reader_is_sent_back_to_replay_while_others_get_everything_and_then_gets_everything(
    make_server: MakeHub,
) -> None:
    hub = await make_server({"websocket": {"queue_max": 20}})
    topic = await hub.api.topic(await hub.api.channel())
    async with feed(hub, receive_bytes=SMALL_WINDOW) as slow, feed(hub) as prompt:
        start = hub.hub.feed.latest
        await slow.hello(start)
        await prompt.hello(start)
        connection = connection_of(hub, slow)
        narrow(connection)
        most = 0
        for number in range(60):
            await hub.api.post(topic, LARGE)
            assert await prompt.ids(1) == [start + 1 + number], "others are not held up"
            most = max(most, held(connection))
        assert connection._subscriber.phase == "behind"
        assert connection._subscriber._waiting_count == 0
        assert most < WRITE_BUFFER_BYTES + 21 * 61_000, "what is held is bounded by the queue, not by the backlog"
        assert held(connection) < WRITE_BUFFER_BYTES + 61_000
        assert hub.hub.feed.backlog() > 20
        assert await slow.ids(60) == list(range(start + 1, start + 61))
        await hub.api.post(topic)
        assert await slow.ids(1) == [start + 61]
        await until(lambda: connection._subscriber.phase == "live")
        assert hub.hub.feed.backlog() == 0


async def test_a_replay_to_a_slow_reader_holds_one_batch_and_never_the_log(make_server: MakeHub) -> None:
    hub = await make_server()
    topic = await hub.api.topic(await hub.api.channel())
    latest = await post_many(hub, topic, 60, LARGE)
    async with feed(hub, receive_bytes=SMALL_WINDOW) as slow:
        narrow(connection_of(hub, slow))
        await slow.hello()
        connection, most, seen = connection_of(hub, slow), 0, 0
        while seen < latest:
            (seen,) = await slow.ids(1)
            most = max(most, held(connection))
        assert most <= BATCH_BYTES_MAX + WRITE_BUFFER_BYTES + 61_000


async def test_a_stalled_reader_is_closed_with_1008_backpressure(make_server: MakeHub) -> None:
    hub = await make_server({"websocket": {"stall_seconds": 0.1}})
    topic = await hub.api.topic(await hub.api.channel())
    latest = await post_many(hub, topic, 100, LARGE)
    async with feed(hub, receive_bytes=SMALL_WINDOW) as stalled:
        connection = connection_of(hub, stalled)
        narrow(connection)
        await stalled.hello()
        await until(lambda: connection._subscriber.phase == "closed")
        closing, seen = None, 0
        while closing is None:
            received = await stalled.frame()
            closing = received if received.opcode == CLOSE else None
            seen += closing is None
        assert (closing.close_code, closing.close_reason) == (1008, "backpressure")
        assert seen < latest
        await stalled.ended()
    await until(lambda: hub.hub.feeds_open == 0)


async def test_a_reader_that_takes_no_answers_to_its_pings_is_owed_the_newest_alone(make_server: MakeHub) -> None:
    hub = await make_server()
    async with feed(hub, receive_bytes=SMALL_WINDOW) as stalled:
        connection = connection_of(hub, stalled)
        narrow(connection)
        await stalled.hello()
        for _ in range(40):
            for _ in range(1_000):
                stalled.send(PING, bytes(125))
            await stalled.sent()
        stalled.send(PING, b"the newest")
        await stalled.sent()
        assert held(connection) < 4 * WRITE_BUFFER_BYTES
        while (await stalled.frame()).payload != b"the newest":
            pass


async def test_a_stalled_reader_that_never_reads_again_is_dropped_without_its_buffer(
    make_server: MakeHub, monkeypatch: Any
) -> None:
    monkeypatch.setattr("parley.serve.websocket.CLOSE_SECONDS", 0.1)
    hub = await make_server({"websocket": {"stall_seconds": 0.1}})
    topic = await hub.api.topic(await hub.api.channel())
    await post_many(hub, topic, 100, LARGE)
    async with feed(hub, receive_bytes=SMALL_WINDOW) as stalled:
        narrow(connection_of(hub, stalled))
        await stalled.hello()
        await until(lambda: hub.hub.feeds_open == 0)
    gc.collect()
    assert not [each for each in gc.get_objects() if issubclass(type(each), FeedConnection) and each.is_open]


async def test_a_reader_that_takes_a_little_now_and_then_is_not_stalled(make_server: MakeHub) -> None:
    """Its progress is looked at by hand: a machine that stops for a moment would let the reader look stalled."""
    hub = await make_server({"websocket": {"stall_seconds": 600.0}})
    topic = await hub.api.topic(await hub.api.channel())
    latest = await post_many(hub, topic, 60, LARGE)
    checks: list[str] = []
    async with feed(hub, receive_bytes=SMALL_WINDOW) as slow:
        connection = connection_of(hub, slow)
        narrow(connection)
        await slow.hello()
        seen = 0
        while seen < latest:
            stalls = connection._timer
            seen = (await slow.ids(min(ENOUGH, latest - seen)))[-1]
            if stalls is not None and connection._timer is stalls:  # full all the time, and yet something went out
                stalls.cancel()
                connection._check_progress()
                checks.append(connection._subscriber.phase)
        assert "closed" not in checks
    assert len(checks) >= 3


async def test_a_reader_that_was_full_before_its_hello_still_owes_it(make_server: MakeHub) -> None:
    hub = await make_server()
    async with feed(hub) as client:
        connection = connection_of(hub, client)
        deadline = connection._timer
        connection.pause_writing()
        connection.resume_writing()
        assert deadline is not None
        assert connection._timer is deadline
        assert not deadline.cancelled()
