"""Gate C on real sockets: replay and live together are exactly the events that match, in order."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from parley.core.clock import ManualClock
from parley.hub.replay import Filter, read_batch
from parley.sqlite import close_quietly, open_reader, open_writer
from parley.wire.events import EventEnvelope, HelloOk, decode_server_frame
from parley.workspace import queries
from tests.hub.conftest import MakeHub
from tests.hub.feed.clients import feed, post_many
from tests.hub.feed.frames import split_frames
from tests.hub.histories import History
from tests.hub.hubs import INSTANCE_ID, OpenHub, rows, workspace_in
from tests.workspace.databases import add_channel, prepared, writing

MATCHING = (
    "SELECT event_id FROM events WHERE event_id > ? AND (scope_channel_id IN (SELECT value FROM json_each(?))"
    " OR scope_channel_id IN (SELECT id FROM channels WHERE name IN (SELECT value FROM json_each(?))"
    " AND name NOT IN (SELECT id FROM channels))"
    " OR scope_topic_id IN (SELECT value FROM json_each(?)) OR scope_topic_id2 IN (SELECT value FROM json_each(?)))"
    " ORDER BY event_id"
)


def definition(hub: OpenHub, after: int, channels: list[str], topics: list[str]) -> list[int]:
    """What the plan says a subscription is, in SQL."""
    named, wanted = json.dumps(channels), json.dumps(topics)
    return [event_id for (event_id,) in rows(hub.workspace, MATCHING, after, named, named, wanted, wanted)]


@pytest.fixture
async def hub(make_server: MakeHub) -> OpenHub:
    return await make_server()


@pytest.fixture
async def busy_hub(make_server: MakeHub, tmp_path: Path) -> OpenHub:
    """A hub whose log has every kind of event."""
    workspace = workspace_in(tmp_path / "busy")
    writer = open_writer(workspace.db)
    try:
        prepared(writer, workspace)
        History(writer, 5, ManualClock()).run(300)
    finally:
        close_quietly(writer)
    return await make_server({"websocket": {"replay_batch": 7}}, folder=tmp_path / "busy")


async def test_gate_c_replay_with_any_filter_equals_the_sql_definition(busy_hub: OpenHub) -> None:
    """Channels by id and by name, topics as the place a message left or went to, unknown ids, any cursor."""
    channels = rows(busy_hub.workspace, "SELECT id, name FROM channels")
    known = [str(value) for row in channels for value in row]
    topics = [str(topic) for (topic,) in rows(busy_hub.workspace, "SELECT id FROM topics")]
    latest = busy_hub.hub.feed.latest
    moves = rows(busy_hub.workspace, "SELECT count(*) FROM events WHERE scope_topic_id2 IS NOT NULL")[0][0]
    assert moves > 10
    assert len(channels) > 2

    async def check(after: int, channels: list[str], topics: list[str]) -> None:
        expected = definition(busy_hub, after, channels, topics)
        async with feed(busy_hub) as client:
            await client.hello(after, {"channels": channels, "topics": topics})
            assert await client.ids(len(expected)) == expected

    loop = asyncio.get_running_loop()

    @settings(max_examples=30)
    @given(
        st.integers(0, latest + 3),
        st.lists(st.sampled_from([*known, "ch_unknown", ""]), max_size=3),
        st.lists(st.sampled_from([*topics, "topic_unknown"]), max_size=3),
    )
    def holds(after: int, channels: list[str], topics: list[str]) -> None:
        asyncio.run_coroutine_threadsafe(check(after, channels, topics), loop).result()

    await asyncio.to_thread(holds)


@settings(max_examples=30)
@given(seed=st.integers(0, 5), limit=st.integers(1, 9), bounds=st.tuples(st.integers(0, 90), st.integers(0, 90)))
def test_gate_c_reading_in_batches_of_any_size_gives_what_one_read_gives(
    logs: "Logs", seed: int, limit: int, bounds: tuple[int, int]
) -> None:
    connection, channels, topics = logs.log(seed)
    after, until = bounds[0], max(bounds)
    for wanted in (None, Filter(frozenset(channels[:1]), frozenset(topics[:2])), Filter(frozenset(), frozenset())):
        whole = read_batch(connection, after, until, wanted, 10_000)
        assert whole.cursor == until
        cursor, data, events = after, b"", 0
        while cursor < until:
            batch = read_batch(connection, cursor, until, wanted, limit)
            assert batch.events <= limit
            assert batch.cursor > cursor
            cursor, data, events = batch.cursor, data + batch.data, events + batch.events
        assert (data, events) == (whole.data, whole.events)
        ids = [json.loads(each.payload)["event_id"] for each in split_frames(data)]
        assert ids == sorted(set(ids))
        assert all(after < event_id <= until for event_id in ids)


class Logs:
    """Databases with random histories, made once each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[int, Any] = {}

    def log(self, seed: int) -> Any:
        if seed not in self._made:
            workspace = workspace_in(self._folder / str(seed))
            connection = open_writer(workspace.db, synchronous="normal")
            prepared(connection, workspace)
            History(connection, seed, ManualClock()).run(60)
            ids = [[str(each) for (each,) in connection.execute(f"SELECT id FROM {t}")] for t in ("channels", "topics")]
            self._made[seed] = (connection, *ids)
        return self._made[seed]

    def close(self) -> None:
        for connection, *_ in self._made.values():
            close_quietly(connection)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = Logs(tmp_path_factory.mktemp("logs"))
    yield made
    made.close()


def test_a_batch_of_large_events_is_cut_by_bytes_and_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    connection = open_writer(workspace.db)
    prepared(connection, workspace)
    history = History(connection, 1, ManualClock())
    for _ in range(40):
        history.message("a" * 60_000)
    latest = queries.latest_event_id(connection)
    first = read_batch(connection, 0, latest, None, 10_000)
    assert first.cursor < latest
    assert 1024 * 1024 <= len(first.data) < 1024 * 1024 + 70_000
    second = read_batch(connection, first.cursor, latest, None, 10_000)
    assert json.loads(next(split_frames(second.data)).payload)["event_id"] == first.cursor + 1
    connection.close()


async def test_hello_ok_names_the_newest_event_twice_and_the_instance(busy_hub: OpenHub) -> None:
    latest = busy_hub.hub.feed.latest
    async with feed(busy_hub) as client:
        assert await client.hello(latest) == {
            "type": "hello_ok",
            "replay_until": latest,
            "latest_event_id": latest,
            "instance_id": INSTANCE_ID,
        }


async def test_a_cursor_beyond_the_newest_event_is_answered_with_reset_and_the_feed_goes_on_from_now(
    hub: OpenHub,
) -> None:
    channel = await hub.api.channel()
    async with feed(hub) as beyond, feed(hub) as absurd:
        assert (await beyond.hello(2))["reset"] is True
        assert (await absurd.hello(10**30))["reset"] is True
        await hub.api.topic(channel)
        assert await beyond.ids(1) == [2]
        assert await absurd.ids(1) == [2]


async def test_omitted_subscriptions_mean_everything_and_empty_or_null_ones_nothing(hub: OpenHub) -> None:
    channel = await hub.api.channel()
    async with feed(hub) as everything:
        await everything.hello()
        for nothing in ({}, {"channels": []}, {"channels": [], "topics": []}, None):
            async with feed(hub) as silent:
                await silent.hello(0, nothing)
                topic = await hub.api.topic(channel, f"{nothing}")
                silent.send(0x9, b"marker")
                assert await silent.frame() == (0xA, b"marker"), "the answer to the ping comes before any event"
        assert await everything.ids(5) == [1, 2, 3, 4, 5]
    assert topic


async def test_a_hello_without_a_cursor_starts_at_the_oldest_event(hub: OpenHub) -> None:
    await hub.api.channel()
    async with feed(hub) as client:
        client.send(0x1, b'{"type":"hello"}')
        await client.frame()
        assert await client.ids(1) == [1]


async def test_a_channel_may_be_named_before_it_exists_and_matches_once_it_is_created(hub: OpenHub) -> None:
    general = await hub.api.channel("general")
    async with feed(hub) as by_name, feed(hub) as other:
        await by_name.hello(0, {"channels": ["later"]})
        await other.hello(0, {"channels": ["never"]})
        await hub.api.topic(general)
        later = await hub.api.channel("later")
        topic = await hub.api.topic(later)
        await hub.api.post(topic)
        assert [event["name"] for event in await by_name.events(until=5)] == [
            "channel.created",
            "topic.created",
            "message.created",
        ]
        other.send(0x9, b"")
        assert await other.frame() == (0xA, b"")


async def test_h6_a_subscription_to_an_id_does_not_match_a_channel_of_that_name(hub: OpenHub) -> None:
    first = await hub.api.channel("first")
    with writing(hub.workspace) as connection:
        second = add_channel(connection, "ch_second", name=first)
    async with feed(hub) as live:
        await live.hello(1, {"channels": [first]})
        await hub.api.topic(second)
        await hub.api.topic(first)
        assert await live.ids(1) == [3]
        async with feed(hub) as replayed:
            await replayed.hello(1, {"channels": [first]})
            assert await replayed.ids(1) == [3]
    async with feed(hub) as other:
        await other.hello(1, {"channels": [second]})
        assert await other.ids(1) == [2], "by its own id it is found"


async def test_gate_d_a_move_reaches_those_who_watch_either_topic_or_the_channel(hub: OpenHub) -> None:
    channel = await hub.api.channel()
    source, target, other = [await hub.api.topic(channel, title) for title in ("a", "b", "c")]
    message = await hub.api.post(source)
    for subscriptions in ({"topics": [source]}, {"topics": [target]}, {"channels": [channel]}):
        async with feed(hub) as live:
            start = hub.hub.feed.latest
            await live.hello(start, subscriptions)
            await hub.api.patch(message["id"], "move_topic", to_topic_id=target, mode="one")
            event = await live.event()
            assert event["data"]["old_topic_id"] == source
            assert event["data"]["new_topic_id"] == target
            assert event["data"]["mode"] == "one"
            async with feed(hub) as replayed:
                await replayed.hello(start, subscriptions)
                assert await replayed.event() == event
        await hub.api.patch(message["id"], "move_topic", to_topic_id=source, mode="one")
    async with feed(hub) as stranger:
        await stranger.hello(0, {"topics": [other]})
        assert (await stranger.event())["name"] == "topic.created"
        stranger.send(0x9, b"")
        assert await stranger.frame() == (0xA, b"")


async def test_events_committed_during_a_replay_follow_it_without_a_gap(make_server: MakeHub) -> None:
    hub = await make_server({"websocket": {"replay_batch": 10}})
    topic = await hub.api.topic(await hub.api.channel())
    await post_many(hub, topic, 500)
    async with feed(hub) as client:
        hello = await client.hello()
        posted = 0
        seen: list[int] = []
        while len(seen) < hello["replay_until"] + 40:
            event_id = (await client.event())["event_id"]
            seen.append(event_id)
            if event_id % 12 == 0 and posted < 40:
                posted += 1
                await hub.api.post(topic)
    assert seen == list(range(1, hello["replay_until"] + 41))


async def test_a_client_that_disconnects_mid_replay_resumes_from_its_cursor(make_server: MakeHub) -> None:
    hub = await make_server({"websocket": {"replay_batch": 50}})
    topic = await hub.api.topic(await hub.api.channel())
    latest = await post_many(hub, topic, 1_000)
    seen: list[int] = []
    while len(seen) < latest:
        async with feed(hub) as client:
            await client.hello(seen[-1] if seen else 0)
            seen += await client.ids(min(173, latest - len(seen)))
            client.reset()
    assert seen == list(range(1, latest + 1))


async def test_the_websockets_client_decodes_every_kind_of_event_into_its_type(busy_hub: OpenHub) -> None:
    latest = busy_hub.hub.feed.latest
    names: set[str] = set()
    async with connect(busy_hub.ws_url) as client:
        await client.send('{"type":"hello","after_event_id":0}')
        hello = decode_server_frame(await client.recv())
        assert isinstance(hello, HelloOk)
        for event_id in range(1, latest + 1):
            event = decode_server_frame(await client.recv())
            assert isinstance(event, EventEnvelope)
            assert event.event_id == event_id
            assert not isinstance(event.payload, dict), event.name
            names.add(event.name)
    assert len(names) >= 9


async def test_a_thousand_subscriptions_of_each_kind_are_served(busy_hub: OpenHub) -> None:
    topics = [str(topic) for (topic,) in rows(busy_hub.workspace, "SELECT id FROM topics")]
    wanted = topics + [f"topic_{number}" for number in range(1_000 - len(topics))]
    after = busy_hub.hub.feed.latest - 10
    expected = definition(busy_hub, after, [], topics)
    async with feed(busy_hub) as client:
        await client.hello(after, {"channels": [f"ch_{number}" for number in range(1_000)], "topics": wanted})
        assert await client.ids(len(expected)) == expected


def test_read_batch_of_an_empty_log_leads_to_its_end(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    writer = open_writer(workspace.db)
    prepared(writer, workspace)
    reader = open_reader(workspace.db)
    assert read_batch(reader, 0, 0, None, 10) == (b"", 0, 0)
    reader.close()
    writer.close()
