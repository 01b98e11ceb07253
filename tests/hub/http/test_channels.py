"""Channels and topics over HTTP."""

import re

import pytest

from tests.hub.hubs import Api, OpenHub
from tests.workspace.databases import add_channel, writing

NOW = "2026-01-01T00:00:00.000Z"


async def test_a_channel_is_created_with_201_and_an_event(api: Api) -> None:
    body = await api.call("POST", "/api/v1/channels", {"name": "general", "description": "all"}, status=201)
    channel = body["channel"]
    assert re.fullmatch("ch_[0-9a-z]{16}", channel["id"])
    assert channel == {"id": channel["id"], "name": "general", "description": "all", "created_at": NOW}
    assert body == {"channel": channel, "event_id": 1}
    (event,) = await api.events()
    assert event == {
        "event_id": 1,
        "ts": NOW,
        "name": "channel.created",
        "data_json": {"channel": channel},
        "scope": {"channel_id": channel["id"], "topic_id": None, "topic_id2": None},
        "entity": {"type": "channel", "id": channel["id"]},
    }


async def test_channels_are_listed_by_name(api: Api) -> None:
    for name in ("zeta", "alpha", "Beta"):
        await api.channel(name)
    listed = await api.get("/api/v1/channels")
    assert [channel["name"] for channel in listed["channels"]] == ["Beta", "alpha", "zeta"]
    assert listed["cursor"] is None


async def test_a_name_that_is_taken_is_400(api: Api) -> None:
    await api.channel("general")
    body = await api.call("POST", "/api/v1/channels", {"name": "general"}, status=400)
    assert body == {"error": "Channel name already exists", "code": "INVALID_INPUT", "details": {"field": "name"}}
    assert len(await api.events()) == 1


async def test_h6_a_channel_cannot_be_named_like_an_id(hub: OpenHub, api: Api) -> None:
    given = await api.channel("general")
    with writing(hub.workspace) as connection:
        odd = add_channel(connection, "odd-id", name="odd")
    for name in (given, given[:-1] + "z", odd):
        body = await api.call("POST", "/api/v1/channels", {"name": name}, status=400)
        assert (body["code"], body["details"]) == ("INVALID_INPUT", {"field": "name"})
    for name in ("ch_design", "ch_", f"{given}!", "chapter"):
        await api.channel(name)


async def test_search_takes_an_id_for_the_channel_that_has_it(hub: OpenHub, api: Api) -> None:
    first = await api.channel("first")
    with writing(hub.workspace) as connection:
        second = add_channel(connection, "ch_second", name=first)
    message = await api.post(await api.topic(first), "needle")
    await api.post(await api.topic(second), "needle")
    found = await api.get("/api/v1/search", query="needle", channel=first)
    assert [each["id"] for each in found["messages"]] == [message["id"]]


async def test_a_name_is_stored_as_it_was_sent(api: Api) -> None:
    body = await api.call("POST", "/api/v1/channels", {"name": "  spaced  "}, status=201)
    assert body["channel"]["name"] == "  spaced  "
    assert body["channel"]["description"] is None


@pytest.mark.parametrize(
    "fields", [{}, {"name": ""}, {"name": " "}, {"name": "x" * 101}, {"name": 5}, {"name": "a", "description": 5}]
)
async def test_a_bad_channel_is_400_and_nothing_happens(api: Api, fields: dict[str, object]) -> None:
    body = await api.call("POST", "/api/v1/channels", fields, status=400)
    assert body["code"] == "INVALID_INPUT"
    assert await api.events() == []


async def test_a_topic_is_created_with_201_and_an_event(api: Api) -> None:
    channel = await api.channel()
    body = await api.call("POST", "/api/v1/topics", {"channel_id": channel, "title": "plans"}, status=201)
    topic = body["topic"]
    assert re.fullmatch("topic_[0-9a-z]{16}", topic["id"])
    assert topic == {"id": topic["id"], "channel_id": channel, "title": "plans", "created_at": NOW, "updated_at": NOW}
    event = (await api.events(after=1))[0]
    assert (event["name"], event["data_json"]) == ("topic.created", {"topic": topic})
    assert event["scope"] == {"channel_id": channel, "topic_id": topic["id"], "topic_id2": None}
    assert event["entity"] == {"type": "topic", "id": topic["id"]}
    assert await api.get(f"/api/v1/topics/{topic['id']}") == {"topic": topic}


async def test_a_topic_needs_its_channel(api: Api) -> None:
    body = await api.call("POST", "/api/v1/topics", {"channel_id": "ch_none", "title": "t"}, status=404)
    assert (body["code"], body["error"]) == ("NOT_FOUND", "Channel not found")


async def test_a_title_is_unique_within_its_channel_only(api: Api) -> None:
    first, second = await api.channel("one"), await api.channel("two")
    await api.topic(first, "plans")
    await api.topic(second, "plans")
    body = await api.call("POST", "/api/v1/topics", {"channel_id": first, "title": "plans"}, status=400)
    assert (body["code"], body["details"]) == ("INVALID_INPUT", {"field": "title"})


async def test_a_rename_keeps_the_id_and_the_messages(hub: OpenHub) -> None:
    api = hub.api
    topic = await api.topic(await api.channel(), "old")
    message = await api.post(topic)
    hub.clock.advance(5)
    body = await api.call("PATCH", f"/api/v1/topics/{topic}", {"title": "new"})
    assert body["topic"]["id"] == topic
    assert (body["topic"]["title"], body["topic"]["updated_at"]) == ("new", "2026-01-01T00:00:05.000Z")
    event = (await api.events())[-1]
    assert (event["event_id"], event["name"]) == (body["event_id"], "topic.renamed")
    assert event["data_json"] == {"topic_id": topic, "old_title": "old", "new_title": "new"}
    assert (await api.get(f"/api/v1/messages/{message['id']}"))["message"] == message


async def test_a_rename_to_the_same_title_is_an_event_too(api: Api) -> None:
    topic = await api.topic(await api.channel(), "same")
    body = await api.call("PATCH", f"/api/v1/topics/{topic}", {"title": "same"})
    assert body["event_id"] == 3


async def test_a_rename_to_a_taken_title_is_400_and_of_an_unknown_topic_404(api: Api) -> None:
    channel = await api.channel()
    await api.topic(channel, "one")
    two = await api.topic(channel, "two")
    assert (await api.call("PATCH", f"/api/v1/topics/{two}", {"title": "one"}, status=400))["code"] == "INVALID_INPUT"
    body = await api.call("PATCH", "/api/v1/topics/topic_none", {"title": "x"}, status=404)
    assert body == {
        "error": "Topic not found: topic_none",
        "code": "NOT_FOUND",
        "details": {"topic_id": "topic_none"},
    }


async def test_topics_are_paged_by_offset_most_recently_changed_first(hub: OpenHub) -> None:
    api = hub.api
    channel = await api.channel()
    topics = []
    for number in range(5):
        hub.clock.advance(1)
        topics.append(await api.topic(channel, f"t{number}"))
    hub.clock.advance(1)
    await api.post(topics[0])
    order = [topics[0], *reversed(topics[1:])]
    path = f"/api/v1/channels/{channel}/topics"
    first = await api.get(path, limit=2)
    assert ([topic["id"] for topic in first["topics"]], first["has_more"]) == (order[:2], True)
    rest = await api.get(path, limit=3, offset=2)
    assert ([topic["id"] for topic in rest["topics"]], rest["has_more"], rest["cursor"]) == (order[2:], False, None)
    assert (await api.get(path, offset=99))["topics"] == []


async def test_a_cursor_leads_through_all_topics(hub: OpenHub) -> None:
    api = hub.api
    channel = await api.channel()
    topics = {await api.topic(channel, f"t{number}") for number in range(7)}
    seen: list[str] = []
    page = await api.get(f"/api/v1/channels/{channel}/topics", limit=3)
    while True:
        seen += [topic["id"] for topic in page["topics"]]
        if page["cursor"] is None:
            break
        page = await api.get(f"/api/v1/channels/{channel}/topics", limit=3, cursor=page["cursor"])
    assert len(seen) == 7
    assert set(seen) == topics


@pytest.mark.parametrize("query", ["limit=abc", "limit=-2", "offset=-1", "offset=x", "cursor=nonsense", "cursor=o.x"])
async def test_bad_paging_of_topics_is_400(api: Api, query: str) -> None:
    channel = await api.channel()
    body = await api.get(f"/api/v1/channels/{channel}/topics?{query}", status=400)
    assert body["code"] == "INVALID_INPUT"


async def test_unknown_channels_and_topics_are_404(api: Api) -> None:
    for path in (
        "/api/v1/channels/ch_none/topics",
        "/api/v1/topics/topic_none",
        "/api/v1/topics/topic_none/attachments",
    ):
        assert (await api.get(path, status=404))["code"] == "NOT_FOUND"


async def test_posting_and_moving_change_a_topics_time_and_editing_does_not(hub: OpenHub) -> None:
    api = hub.api
    channel = await api.channel()
    one, two = await api.topic(channel, "one"), await api.topic(channel, "two")

    async def times() -> list[str]:
        return [(await api.get(f"/api/v1/topics/{topic}"))["topic"]["updated_at"][17:19] for topic in (one, two)]

    hub.clock.advance(1)
    message = await api.post(one)
    assert await times() == ["01", "00"]
    hub.clock.advance(1)
    await api.patch(message["id"], "edit", content_raw="x")
    assert await times() == ["01", "00"]
    hub.clock.advance(1)
    await api.patch(message["id"], "move_topic", to_topic_id=two, mode="one")
    assert await times() == ["03", "03"]
