"""Pages of messages: order of creation, in both directions, against a plain list."""

import random
from typing import Any

import pytest

from tests.hub.conftest import MakeHub
from tests.hub.hubs import Api, OpenHub


async def listed(api: Api, **params: Any) -> list[str]:
    return [message["id"] for message in (await api.get("/api/v1/messages", **params))["messages"]]


@pytest.fixture
async def posted(hub: OpenHub) -> tuple[str, list[str]]:
    """A topic and the ids of ten messages, in order of creation, on a clock that goes back twice."""
    topic = await hub.api.topic(await hub.api.channel())
    ids: list[str] = []
    for number in range(10):
        ids.append((await hub.api.post(topic, str(number)))["id"])
        hub.clock.jump(-60_000 if number in (3, 6) else 1 if number % 2 else 0)
    return topic, ids


async def test_messages_are_listed_newest_first_whatever_the_clock_did(api: Api, posted: tuple[str, list[str]]) -> None:
    topic, ids = posted
    assert await listed(api, topic_id=topic) == ids[::-1]
    assert ids == sorted(ids)


async def test_defect_6_after_id_gives_the_messages_right_after_it(api: Api, posted: tuple[str, list[str]]) -> None:
    topic, ids = posted
    page = await api.get("/api/v1/messages", topic_id=topic, after_id=ids[0], limit=2)
    assert [message["id"] for message in page["messages"]] == [ids[2], ids[1]]
    assert page["has_more"] is True


async def test_before_id_gives_the_messages_right_before_it(api: Api, posted: tuple[str, list[str]]) -> None:
    topic, ids = posted
    assert await listed(api, topic_id=topic, before_id=ids[5], limit=2) == [ids[4], ids[3]]
    assert await listed(api, topic_id=topic, before_id=ids[0]) == []


async def test_both_give_what_is_between(api: Api, posted: tuple[str, list[str]]) -> None:
    topic, ids = posted
    assert await listed(api, topic_id=topic, after_id=ids[2], before_id=ids[6]) == [ids[5], ids[4], ids[3]]


@pytest.mark.parametrize("direction", ["back", "forth"])
async def test_a_cursor_leads_through_all_messages_once(
    api: Api, posted: tuple[str, list[str]], direction: str
) -> None:
    topic, ids = posted
    params: dict[str, Any] = {"topic_id": topic, "limit": 3} | ({"after_id": ids[0]} if direction == "forth" else {})
    seen: list[list[str]] = []
    page = await api.get("/api/v1/messages", **params)
    while True:
        seen.append([message["id"] for message in page["messages"]])
        assert page["has_more"] == (page["cursor"] is not None)
        if page["cursor"] is None:
            break
        page = await api.get("/api/v1/messages", **params, cursor=page["cursor"])
    if direction == "back":
        assert [each for part in seen for each in part] == ids[::-1]
    else:
        assert [each for part in seen for each in reversed(part)] == ids[1:]


async def test_random_pages_agree_with_a_plain_list(hub: OpenHub) -> None:
    """Every anchor, direction and size, in topics and over a channel, after moves and deletes."""
    api, rng = hub.api, random.Random(6)
    channel = await api.channel()
    topics = [await api.topic(channel, f"t{number}") for number in range(3)]
    where: dict[str, str] = {}
    order: list[str] = []
    for _ in range(60):
        topic = rng.choice(topics)
        message = await api.post(topic)
        hub.clock.jump(rng.choice((0, 0, 1, 50, -1000)))
        order.append(message["id"])
        where[message["id"]] = topic
        if rng.random() < 0.2:
            chosen, target = rng.choice(order), rng.choice(topics)
            await api.patch(chosen, "move_topic", to_topic_id=target, mode="one")
            where[chosen] = target
    for _ in range(150):
        topic = rng.choice([*topics, None])
        members = [each for each in order if topic in (None, where[each])]
        after = rng.choice(order) if rng.random() < 0.5 else None
        before = rng.choice(order) if rng.random() < 0.5 else None
        limit = rng.randint(1, 12)
        window = [
            each
            for each in members
            if (after is None or order.index(each) > order.index(after))
            and (before is None or order.index(each) < order.index(before))
        ]
        expected = (window[:limit] if after is not None else window[-limit:])[::-1]
        scope: dict[str, Any] = (
            {"channel_id": channel} if topic is None else {"topic_id": topic, "channel_id": "ch_ignored"}
        )
        anchors: dict[str, Any] = {"after_id": after} if after else {}
        anchors |= {"before_id": before} if before else {}
        page = await api.get("/api/v1/messages", **scope, **anchors, limit=limit)
        assert [message["id"] for message in page["messages"]] == expected
        assert page["has_more"] == (len(window) > limit)


async def test_one_of_topic_and_channel_is_needed(api: Api) -> None:
    body = await api.get("/api/v1/messages", status=400)
    assert (body["code"], body["details"]) == ("INVALID_INPUT", {"field": "topic_id"})


async def test_an_unknown_topic_or_channel_is_an_empty_page(api: Api) -> None:
    empty = {"messages": [], "has_more": False, "cursor": None}
    assert await api.get("/api/v1/messages", topic_id="topic_none") == empty
    assert await api.get("/api/v1/messages", channel_id="ch_none") == empty


@pytest.mark.parametrize("anchor", ["before_id", "after_id"])
async def test_an_anchor_must_be_a_message(api: Api, anchor: str) -> None:
    assert (await api.get("/api/v1/messages", topic_id="t", **{anchor: "msg_none"}, status=404))["code"] == "NOT_FOUND"
    body = await api.get("/api/v1/messages", topic_id="t", **{anchor: "' OR 1=1 --"}, status=400)
    assert (body["code"], body["details"]) == ("INVALID_INPUT", {"field": anchor})


@pytest.mark.parametrize("cursor", ["", "x", "b", "b.", "b.a b", "c.msg_1", "o.-1", "o.1e5"])
async def test_a_cursor_that_nobody_gave_is_400(api: Api, cursor: str) -> None:
    body = await api.get("/api/v1/messages", topic_id="t", cursor=cursor, status=400)
    assert (body["code"], body["details"]) == ("INVALID_INPUT", {"field": "cursor"})


async def test_the_largest_page_is_a_setting_and_bounds_the_default(make_hub: MakeHub) -> None:
    hub = await make_hub({"limits": {"page_max": 3}})
    topic = await hub.api.topic(await hub.api.channel())
    for _ in range(5):
        await hub.api.post(topic)
    assert len(await listed(hub.api, topic_id=topic)) == 3
    assert len(await listed(hub.api, topic_id=topic, limit=3)) == 3
    body = await hub.api.get("/api/v1/messages", topic_id=topic, limit=4, status=400)
    assert body["error"] == "limit must be between 1 and 3"
    assert len((await hub.api.get("/api/v1/events"))["events"]) == 3
