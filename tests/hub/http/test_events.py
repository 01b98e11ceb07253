"""``GET /api/v1/events``: the log after a cursor, its tail, and its filters."""

import random
from typing import Any

import pytest

from parley.client import Client
from parley.core.clock import parse_iso
from parley.core.events import EVENTS
from parley.hub.archive import archive_before
from parley.sqlite import open_writer
from tests.hub.conftest import MakeHub
from tests.hub.hubs import Api, OpenHub, open_hub, workspace_in


async def page(api: Api, **params: Any) -> Any:
    return await api.get("/api/v1/events", **params)


async def ids(api: Api, **params: Any) -> list[int]:
    return [event["event_id"] for event in (await page(api, **params))["events"]]


async def fill(hub: OpenHub) -> dict[str, str]:
    """Two channels with two topics each, messages and a move; some names by which the tests find them."""
    api = hub.api
    names: dict[str, str] = {}
    for letter in "ab":
        names[letter] = await api.channel(letter)
        for number in "12":
            names[letter + number] = await api.topic(names[letter], number)
    for topic in ("a1", "a2", "b1", "b2", "a1"):
        names[f"message in {topic}"] = (await api.post(names[topic]))["id"]
    await api.patch(names["message in a1"], "move_topic", to_topic_id=names["a2"], mode="one")
    return names


async def test_an_empty_log_is_an_empty_page(api: Api) -> None:
    assert await page(api) == {"replay_until": 0, "events": [], "has_more": False, "cursor": 0, "reset": False}


async def test_a_cursor_leads_through_the_whole_log(hub: OpenHub) -> None:
    await fill(hub)
    seen: list[int] = []
    cursor = 0
    while True:
        answer = await page(hub.api, after=cursor, limit=5)
        assert answer["replay_until"] == 12
        seen += [event["event_id"] for event in answer["events"]]
        cursor = answer["cursor"]
        if not answer["has_more"]:
            break
    assert seen == list(range(1, 13))
    assert cursor == 12
    assert await ids(hub.api, after=12) == []


@pytest.mark.parametrize("after", [13, 10**9, 2**53])
async def test_h12_a_cursor_beyond_the_newest_event_gets_the_end_of_the_log_and_is_told(
    hub: OpenHub, after: int
) -> None:
    """Defect 13 of the study: it was answered with 500."""
    await fill(hub)
    assert (await page(hub.api, after=12)).get("reset") is False
    beyond = await page(hub.api, after=after)
    assert beyond == {"replay_until": 12, "events": [], "has_more": False, "cursor": 12, "reset": True}
    with Client(hub.workspace.root) as client:  # straight from the file
        read = client.read_events(after)
    assert (read.cursor, read.reset) == (12, True)


@pytest.mark.parametrize(
    ("tail", "expected"),
    [("1", [12]), ("3", [10, 11, 12]), ("99999999", list(range(1, 13))), ("0", [12]), ("-5", [12])],
)
async def test_the_tail_is_clamped_and_ascending(hub: OpenHub, tail: str, expected: list[int]) -> None:
    await fill(hub)
    assert await ids(hub.api, tail=tail) == expected


@pytest.mark.parametrize(
    "query",
    [
        "tail=5&after=1",
        "tail=x",
        "after=-1",
        "after=x",
        "after=9007199254740993",
        "limit=0",
        "channel_id=a b",
        "topic_id=",
    ],
)
async def test_bad_parameters_are_400(api: Api, query: str) -> None:
    assert (await api.get(f"/api/v1/events?{query}", status=400))["code"] == "INVALID_INPUT"


async def test_too_many_filters_are_400(api: Api) -> None:
    query = "&".join(f"topic_id=t{number}" for number in range(1001))
    assert (await api.get(f"/api/v1/events?{query}", status=400))["details"] == {"field": "topic_id"}


async def test_filters_are_repeatable_and_any_of_them_matches(hub: OpenHub) -> None:
    """Against the definition: the channel, the topic a message is in or leaves, or the topic it goes to."""
    names = await fill(hub)
    events = await hub.api.events()
    rng = random.Random(3)
    for _ in range(60):
        channels = rng.sample([names["a"], names["b"], "ch_none"], rng.randint(0, 2))
        topics = rng.sample([names[each] for each in ("a1", "a2", "b1", "b2")], rng.randint(0, 3))
        expected = [
            event["event_id"]
            for event in events
            if (not channels and not topics)
            or event["scope"]["channel_id"] in channels
            or {event["scope"]["topic_id"], event["scope"]["topic_id2"]} & set(topics)
        ]
        after, limit = rng.randint(0, 12), rng.randint(1, 8)
        found = await ids(hub.api, after=after, limit=limit, channel_id=channels, topic_id=topics)
        assert found == [each for each in expected if each > after][:limit]
        assert await ids(hub.api, tail=limit, channel_id=channels, topic_id=topics) == expected[-limit:]


async def test_gate_d_a_move_is_seen_from_both_topics_and_the_channel(hub: OpenHub) -> None:
    names = await fill(hub)
    for scope in ({"topic_id": names["a1"]}, {"topic_id": names["a2"]}, {"channel_id": names["a"]}):
        assert 12 in await ids(hub.api, **scope)
    assert 12 not in await ids(hub.api, topic_id=names["b1"])
    assert 12 not in await ids(hub.api, channel_id=names["b"])


async def test_a_filtered_page_says_how_far_it_looked(hub: OpenHub) -> None:
    names = await fill(hub)
    answer = await page(hub.api, topic_id=names["b1"])
    assert (answer["has_more"], answer["cursor"]) == (False, 12)
    assert len(answer["events"]) == 2


async def test_part_x_scopes_of_every_event_are_those_of_the_catalogue(hub: OpenHub) -> None:
    names = await fill(hub)
    message = names["message in b1"]
    await hub.api.patch(message, "edit", content_raw="see https://example.org/x")
    await hub.api.patch(message, "delete", actor="ann")
    await hub.api.call("PATCH", f"/api/v1/topics/{names['b1']}", {"title": "renamed"})
    events = await hub.api.events()
    assert {event["name"] for event in events} == {
        "channel.created",
        "topic.created",
        "topic.renamed",
        "message.created",
        "message.edited",
        "message.deleted",
        "message.moved_topic",
        "topic.attachment_added",
    }
    for event in events:
        filled = {scope for scope, value in event["scope"].items() if value is not None}
        assert set(event["scope"]) == {"channel_id", "topic_id", "topic_id2"}
        assert filled == EVENTS[event["name"]].scopes
        assert event["entity"]["type"] == EVENTS[event["name"]].entity
        assert set(event["data_json"]) == set(EVENTS[event["name"]].fields)


async def test_part_x_clock_skew_leaves_event_ids_in_order(hub: OpenHub) -> None:
    channel = await hub.api.channel()
    for number, jump in enumerate((-3_600_000, 3_600_000, 7_200_000, -86_400_000)):
        hub.clock.jump(jump)
        await hub.api.topic(channel, f"t{number}")
    events = await hub.api.events()
    assert [event["event_id"] for event in events] == [1, 2, 3, 4, 5]
    times = [parse_iso(event["ts"]) for event in events]
    assert times != sorted(times)
    topics = [event["entity"]["id"] for event in events[1:]]
    assert topics == sorted(topics)
    assert hub.fold_problems() == []


async def test_a_cursor_into_an_archive_is_410_and_names_it(make_hub: MakeHub) -> None:
    hub = await make_hub()
    folder = hub.workspace.root.parent / "archived"
    async with open_hub(folder) as first:
        names = await fill(first)
        first.clock.advance(100)
        await first.api.post(names["b1"])
        now_ms = first.clock.now_ms()
    workspace = workspace_in(folder)
    connection = open_writer(workspace.db)
    report = archive_before(connection, workspace, before_ms=now_ms - 1, now_ms=now_ms)
    connection.close()
    assert report.path is not None
    second = await make_hub(folder=folder)
    body = await second.api.get("/api/v1/events", after=3, status=410)
    assert body == {
        "error": "These events were archived",
        "code": "CURSOR_EXPIRED",
        "details": {"archive": report.path.name, "oldest_cursor": 12},
    }
    assert await ids(second.api, after=12) == [13, 14]
    assert await ids(second.api) == [13, 14]
    assert await ids(second.api, tail=50) == [13, 14]
