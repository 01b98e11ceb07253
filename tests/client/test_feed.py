"""Feeds against real hubs: replay, live, restarts, rotation, resets, slow consumers, threads."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import cast

import msgspec
import pytest
from websockets.asyncio.server import ServerConnection, serve

from parley.client import AsyncClient, Backoff, Client, Cursor, FileCursor, StateChange, connect, connect_async
from parley.client.cursor import CursorStore
from parley.client.feed import AsyncFeed
from parley.client.feed_machine import FeedMachine
from parley.client.steps import HubAddress
from parley.core import errors
from parley.core.clock import SystemClock, iso
from parley.sqlite import open_writer
from parley.wire.events import Entity, EventEnvelope, HelloOk, MessageCreated, Scope
from parley.workspace.log import Draft, append_event
from tests.client.hubs import DEADLINE_SECONDS, HubProcess, fresh_name, replace_database

SOON = Backoff(0.01, 0.1)
"""Tests do not wait as long between two tries as a feed in the field does."""


async def conversation(client: AsyncClient, name: str = "general") -> str:
    """Makes a channel and a topic, which is two events."""
    channel = (await client.create_channel(name)).channel
    return (await client.create_topic(channel.id, "Plans")).topic.id


async def end_of_log(client: AsyncClient) -> int:
    return (await client.read_events(tail=1)).replay_until


async def take(feed: AsyncFeed, count: int) -> list[EventEnvelope]:
    async with asyncio.timeout(DEADLINE_SECONDS):
        return [await anext(feed) for _ in range(count)]


async def test_history_comes_first_and_what_happens_follows(shared_hub: HubProcess) -> None:
    async with await connect_async(shared_hub.root, sender="alice") as client:
        start = await end_of_log(client)
        topic_id = await conversation(client, fresh_name("general"))
        await client.send_message(topic_id, "old")
        async with client.events(start) as feed:
            history = await take(feed, 3)
            assert [event.name for event in history] == ["channel.created", "topic.created", "message.created"]
            assert isinstance(history[2].payload, MessageCreated)
            assert history[2].payload.message.content_raw == "old"
            sent = await client.send_message(topic_id, "new")
            (event,) = await take(feed, 1)
            assert event.event_id == sent.event_id == feed.last_event_id


async def test_a_feed_that_begins_at_the_end_gets_only_what_is_to_come(shared_hub: HubProcess) -> None:
    async with await connect_async(shared_hub.root, sender="alice") as client:
        topic_id = await conversation(client, fresh_name("general"))
        async with client.events(await end_of_log(client)) as feed:
            sent = await client.send_message(topic_id, "new")
            assert [event.event_id for event in await take(feed, 1)] == [sent.event_id]


async def test_filters_choose_by_channel_name_and_by_topic(shared_hub: HubProcess) -> None:
    async with await connect_async(shared_hub.root, sender="alice") as client:
        start, name = await end_of_log(client), fresh_name("general")
        topic_id = await conversation(client, name)
        elsewhere = (await client.create_channel(fresh_name("elsewhere"))).channel
        strange = (await client.create_topic(elsewhere.id, "Strange")).topic
        await client.send_message(strange.id, "not for us")
        sent = await client.send_message(topic_id, "for us")
        async with client.events(channels=[name]) as by_channel, client.events(topics=[topic_id]) as by_topic:
            assert [event.event_id for event in await take(by_channel, 3)] == [start + 1, start + 2, sent.event_id]
            assert [event.event_id for event in await take(by_topic, 2)] == [start + 2, sent.event_id]


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_a_feed_goes_on_after_the_hub_was_restarted_on_another_port(hub: HubProcess, end: str) -> None:
    changes: list[StateChange] = []
    async with await connect_async(hub.root, sender="alice") as client:
        topic_id = await conversation(client)
        async with client.events(on_state=changes.append, backoff=SOON) as feed:
            await take(feed, 2)
            before = hub.server
            await asyncio.to_thread(getattr(hub, end))
            hub.workspace.token.unlink()
            hub.workspace.last_port.unlink()
            await asyncio.to_thread(hub.start)
            assert (hub.server.instance_id, hub.server.auth_token) != (before.instance_id, before.auth_token)
            sent = [await client.send_message(topic_id, f"after {number}") for number in range(3)]
            events = await take(feed, 3)
    assert [event.event_id for event in events] == [result.event_id for result in sent]
    assert [(change.name, change.after_event_id) for change in changes] == [
        ("connected", None),
        ("disconnected", 2),
        ("reconnected", 2),
    ]


async def test_handlers_are_called_by_name(hub: HubProcess) -> None:
    async with await connect_async(hub.root) as client:
        await conversation(client)
        seen: list[str] = []
        feed = client.events(backoff=SOON)
        feed.on("disconnected", lambda change: seen.append(f"lost after {change.after_event_id}"))
        feed.on("reconnected", lambda change: seen.append(f"back after {change.after_event_id}"))
        async with feed:
            await take(feed, 2)
            await asyncio.to_thread(hub.kill)
            await asyncio.to_thread(hub.start)
            await client.create_channel("more")
            await take(feed, 1)
        assert seen == ["lost after 2", "back after 2"]


async def test_a_feed_may_begin_before_its_hub(hub: HubProcess) -> None:
    hub.kill()
    waiting = asyncio.Event()
    async with AsyncClient(hub.root) as client, client.events(backoff=SOON) as feed:
        feed.on("disconnected", lambda _: waiting.set())
        first = asyncio.create_task(take(feed, 1))
        await asyncio.wait_for(waiting.wait(), DEADLINE_SECONDS)
        await asyncio.to_thread(hub.start)
        created = await client.create_channel("general")
        assert (await first)[0].event_id == created.event_id


async def test_a_rotated_token_ends_the_connection_and_not_the_feed(hub: HubProcess) -> None:
    hub.stop()
    (hub.root / "parley.toml").write_text("[hub]\ntoken_grace_seconds = 0.0\n")
    hub.start()
    changes: list[str] = []
    back = asyncio.Event()
    async with await connect_async(hub.root, sender="alice") as client:
        topic_id = await conversation(client)
        async with client.events(on_state=lambda change: changes.append(change.name), backoff=SOON) as feed:
            await take(feed, 2)
            feed.on("reconnected", lambda _: back.set())
            following = asyncio.create_task(take(feed, 1))
            await client.rotate_token()
            await asyncio.wait_for(back.wait(), DEADLINE_SECONDS)
            sent = await client.send_message(topic_id, "after the rotation")
            assert [event.event_id for event in await following] == [sent.event_id]
    assert changes == ["connected", "disconnected", "reconnected"]


async def test_a_wrong_token_ends_the_feed(shared_hub: HubProcess) -> None:
    async with AsyncClient(shared_hub.root, token="0" * 64) as client, client.events(backoff=SOON) as feed:
        for _ in range(2):
            with pytest.raises(errors.InvalidAuth):
                await take(feed, 1)
    with Client(shared_hub.root, token="0" * 64) as blocking, pytest.raises(errors.InvalidAuth):
        next(blocking.events(backoff=SOON))


async def test_a_hello_that_the_hub_refuses_ends_the_feed(shared_hub: HubProcess) -> None:
    async with (
        await connect_async(shared_hub.root) as client,
        client.events(topics=["t"] * 2_000, backoff=SOON) as feed,
    ):
        with pytest.raises(errors.InvalidInput, match="topic subscriptions"):
            await take(feed, 1)


async def test_a_consumer_resumes_from_its_cursor_file(shared_hub: HubProcess, tmp_path: Path) -> None:
    path = tmp_path / "feed.cursor"
    async with await connect_async(shared_hub.root, sender="alice") as client:
        start = await end_of_log(client)
        topic_id = await conversation(client, fresh_name("general"))
        async with client.events(start, cursor=FileCursor(path)) as feed:
            assert [event.event_id for event in await take(feed, 2)] == [start + 1, start + 2]
        assert FileCursor(path).load() == Cursor(start + 1, shared_hub.server.db_id), (
            "the consumer was still busy with the second"
        )
        async with client.events(cursor=FileCursor(path)) as feed:
            assert [event.event_id for event in await take(feed, 1)] == [start + 2]
            feed.commit()
        await client.send_message(topic_id, "while away")
        async with client.events(0, cursor=FileCursor(path)) as feed:
            assert [event.event_id for event in await take(feed, 1)] == [start + 3]


async def test_a_new_database_is_reported_as_a_reset_and_read_from_its_beginning(
    hub: HubProcess, tmp_path: Path
) -> None:
    path = tmp_path / "feed.cursor"
    changes: list[StateChange] = []
    async with await connect_async(hub.root) as client:
        await conversation(client)
        async with client.events(cursor=FileCursor(path), on_state=changes.append, backoff=SOON) as feed:
            await take(feed, 2)
            await asyncio.to_thread(hub.stop)
            for file in (*hub.workspace.state.glob("db.sqlite3*"), hub.workspace.last_port):
                file.unlink()
            await asyncio.to_thread(hub.start)
            await client.create_channel("fresh")
            (event,) = await take(feed, 1)
            assert (event.event_id, event.name) == (1, "channel.created")
            feed.commit()
    assert [change.name for change in changes] == ["connected", "disconnected", "reset", "reconnected"]
    assert FileCursor(path).load() == Cursor(1, hub.server.db_id)


async def test_a_restored_backup_that_is_shorter_than_the_cursor_is_reported_as_a_reset(
    hub: HubProcess, tmp_path: Path
) -> None:
    changes: list[str] = []
    async with await connect_async(hub.root, sender="alice") as client:
        topic_id = await conversation(client)
        await asyncio.to_thread(hub.stop)
        backup = tmp_path / "backup"
        backup.write_bytes(hub.workspace.db.read_bytes())
        await asyncio.to_thread(hub.start)
        await client.send_message(topic_id, "lost by the restore")
        async with client.events(on_state=lambda change: changes.append(change.name), backoff=SOON) as feed:
            await take(feed, 3)
            await asyncio.to_thread(hub.stop)
            replace_database(hub.workspace, backup)
            await asyncio.to_thread(hub.start)
            assert [event.event_id for event in await take(feed, 2)] == [1, 2]
    assert changes == ["connected", "disconnected", "reset", "reconnected"]


async def test_a_cursor_from_before_an_archive_is_expired_and_a_feed_without_one_begins_after_it(
    hub: HubProcess,
) -> None:
    async with await connect_async(hub.root) as client:
        await conversation(client)
        await asyncio.to_thread(hub.stop)
        argv = [sys.executable, "-m", "parley", "archive", "--before", "2999-01-01", "--workspace", str(hub.root)]
        await asyncio.to_thread(subprocess.run, argv, check=True, capture_output=True, timeout=DEADLINE_SECONDS)
        await asyncio.to_thread(hub.start)
        with pytest.raises(errors.CursorExpired) as from_file:
            await client.read_events(0)
        async with client.events(0) as feed:
            with pytest.raises(errors.CursorExpired) as over_feed:
                await take(feed, 1)
        for name in ("archive", "oldest_cursor"):
            assert over_feed.value.details[name] == from_file.value.details[name]
        async with client.events() as feed:
            (event,) = await take(feed, 1)
            assert event.event_id == cast(int, from_file.value.details["oldest_cursor"]) + 1


async def test_a_consumer_that_gives_up_waiting_misses_nothing(shared_hub: HubProcess) -> None:
    async with await connect_async(shared_hub.root, sender="alice") as client:
        start = await end_of_log(client)
        topic_id = await conversation(client, fresh_name("general"))
        async with client.events(start) as feed:
            numbers: list[int] = []
            for number in range(20):
                await client.send_message(topic_id, f"message {number}")
                for turns in range(12):
                    waiting = asyncio.create_task(anext(feed))
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    waiting.cancel()
                    outcome = (await asyncio.gather(waiting, return_exceptions=True))[0]
                    if isinstance(outcome, EventEnvelope):
                        numbers.append(outcome.event_id)
            numbers += [event.event_id for event in await take(feed, 22 - len(numbers))]
        assert numbers == list(range(start + 1, start + 23))


def test_a_blocking_feed_runs_in_a_thread_and_is_ended_from_another(hub: HubProcess) -> None:
    received: list[EventEnvelope] = []
    reached = threading.Event()
    with connect(hub.root, sender="alice") as client:
        channel = client.create_channel("general").channel
        feed = client.events(backoff=SOON)

        def listen() -> None:
            for event in feed:
                received.append(event)
                if event.name == "message.created":
                    reached.set()

        listener = threading.Thread(target=listen)
        listener.start()
        topic = client.create_topic(channel.id, "Plans").topic
        hub.kill()
        hub.start()
        client.send_message(topic.id, "after the restart")
        assert reached.wait(DEADLINE_SECONDS)
        feed.close()
        listener.join(DEADLINE_SECONDS)
        assert not listener.is_alive()
    assert [event.event_id for event in received] == [1, 2, 3]


def test_closing_a_blocking_client_ends_a_feed_that_waits_for_its_hub(hub: HubProcess) -> None:
    hub.kill()
    client = Client(hub.root)
    waiting = threading.Event()
    feed = client.events(on_state=lambda _: waiting.set(), backoff=Backoff(DEADLINE_SECONDS, DEADLINE_SECONDS))
    ended: list[list[EventEnvelope]] = []
    listener = threading.Thread(target=lambda: ended.append(list(feed)))
    listener.start()
    assert waiting.wait(DEADLINE_SECONDS)
    client.close()
    listener.join(DEADLINE_SECONDS)
    assert ended == [[]]


async def test_a_slow_consumer_makes_the_hub_wait() -> None:
    """The hub here is a bare WebSocket server that offers far more than may pile up on this side."""
    offered, frame_bytes, patience_seconds = 2_000, 64 * 1024, 2.0
    outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def offer(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.send(msgspec.json.encode(HelloOk(offered, offered, "instance")).decode())
        sent = 0
        try:
            for number in range(1, offered + 1):
                event = EventEnvelope(number, "", "x.y", Scope(), {"text": "x" * frame_bytes}, Entity("x", "1"))
                await asyncio.wait_for(socket.send(msgspec.json.encode(event).decode()), patience_seconds)
                sent = number
        except TimeoutError:
            pass
        outcome.set_result(sent)

    async with serve(offer, "127.0.0.1", 0, ping_interval=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        address = HubAddress(f"http://127.0.0.1:{port}", None, "db", "instance")

        async def reach() -> HubAddress:
            return address

        async with AsyncFeed(FeedMachine(random=lambda: 0.5), None, None, reach, 10.0) as feed:
            await take(feed, 1)
            sent = await asyncio.wait_for(outcome, DEADLINE_SECONDS)
    assert sent * frame_bytes < 32 * 1024 * 1024


class CountingStore(CursorStore):
    """Keeps the cursor in memory and counts how often it was saved."""

    def __init__(self) -> None:
        self.cursor: Cursor | None = None
        self.saves = 0
        self.closes = 0

    def load(self) -> Cursor | None:
        return self.cursor

    def save(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.saves += 1

    def close(self) -> None:
        self.closes += 1


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_replay_of_a_hundred_thousand_events_is_complete(stopped_hub: HubProcess) -> None:
    count = 100_000
    stopped_hub.start().stop()
    connection = open_writer(stopped_hub.workspace.db)
    ts = iso(SystemClock().now_ms())
    with connection:
        for number in range(count):
            append_event(connection, ts, Draft("plugin.failed", "p", {"plugin_name": "p", "reason": str(number)}))
    connection.close()
    stopped_hub.start()
    store = CountingStore()
    async with await connect_async(stopped_hub.root) as client, client.events(cursor=store) as feed:
        expected = 1
        async for event in feed:
            assert event.event_id == expected
            if expected == count:
                break
            expected += 1
    assert store.saves == count - 1
    assert store.closes == 1
    with connect(stopped_hub.root) as blocking, blocking.events() as feed:
        assert [next(feed).event_id for _ in range(count)] == list(range(1, count + 1))
