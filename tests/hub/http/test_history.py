"""``GET /api/v1/messages/{id}/history``: every step of a message, and the oldest page of a topic."""

from typing import Any

import pytest

from tests.hub.conftest import MakeHub
from tests.hub.hubs import Api


async def history(api: Api, message_id: str) -> list[dict[str, Any]]:
    body = await api.get(f"/api/v1/messages/{message_id}/history")
    assert body["message_id"] == message_id
    return body["versions"]


@pytest.fixture
async def topics(api: Api) -> list[str]:
    channel = await api.channel()
    return [await api.topic(channel, title) for title in ("first", "second")]


async def test_a_message_that_nobody_changed_has_one_step(api: Api, topics: list[str]) -> None:
    message = await api.post(topics[0], "hello", sender="ann")
    assert await history(api, message["id"]) == [
        {
            "version": 1,
            "event_id": None,
            "ts": message["created_at"],
            "change": "created",
            "content_raw": "hello",
            "topic_id": topics[0],
            "actor": "ann",
        }
    ]


async def test_edits_and_moves_are_steps_with_what_they_changed(api: Api, topics: list[str]) -> None:
    message = (await api.post(topics[0], "one"))["id"]
    edited = await api.patch(message, "edit", content_raw="two")
    await api.patch(message, "move_topic", to_topic_id=topics[1], mode="one")
    await api.patch(message, "edit", content_raw="three")
    steps = await history(api, message)
    assert [(step["version"], step["change"], step["content_raw"], step["topic_id"]) for step in steps] == [
        (1, "created", "one", topics[0]),
        (2, "edited", "two", None),
        (3, "moved", None, topics[1]),
        (4, "edited", "three", None),
    ]
    assert steps[1]["event_id"] == edited["event_id"]
    events = {event["event_id"]: event for event in await api.events()}
    for step in steps[1:]:
        assert events[step["event_id"]]["ts"] == step["ts"]


async def test_of_a_deleted_message_no_content_is_told(api: Api, topics: list[str]) -> None:
    message = (await api.post(topics[0], "secret one"))["id"]
    await api.patch(message, "edit", content_raw="secret two")
    await api.patch(message, "delete", actor="bob")
    steps = await history(api, message)
    assert [(step["version"], step["change"], step["actor"]) for step in steps] == [
        (1, "created", "ann"),
        (2, "edited", None),
        (3, "deleted", "bob"),
    ]
    assert {step["content_raw"] for step in steps} == {None}


async def test_a_message_that_does_not_exist_is_404(api: Api) -> None:
    answer = await api.get("/api/v1/messages/msg_unknown/history", status=404)
    assert (answer["code"], answer["details"]["message_id"]) == ("NOT_FOUND", "msg_unknown")


async def test_the_oldest_page_of_a_topic_is_newest_first_within_itself_and_goes_on_forwards(
    api: Api, topics: list[str]
) -> None:
    posted = [(await api.post(topics[0], f"{number}"))["id"] for number in range(7)]
    seen: list[str] = []
    page = await api.get("/api/v1/messages", topic_id=topics[0], order="oldest", limit=3)
    while True:
        ids = [message["id"] for message in page["messages"]]
        assert ids == sorted(ids, reverse=True)
        seen += reversed(ids)
        if not page["has_more"]:
            break
        page = await api.get("/api/v1/messages", topic_id=topics[0], cursor=page["cursor"], limit=3)
    assert seen == posted


async def test_order_is_newest_unless_asked_and_anything_else_is_refused(api: Api, topics: list[str]) -> None:
    posted = [(await api.post(topics[0], f"{number}"))["id"] for number in range(3)]
    for asked in ("", "&order=newest"):
        page = await api.call("GET", f"/api/v1/messages?topic_id={topics[0]}&limit=1{asked}")
        assert [message["id"] for message in page["messages"]] == posted[-1:]
    page = await api.get("/api/v1/messages", topic_id=topics[0], order="oldest", after_id=posted[0])
    assert [message["id"] for message in page["messages"]] == [posted[2], posted[1]]
    answer = await api.get("/api/v1/messages", topic_id=topics[0], order="sideways", status=400)
    assert answer["details"]["field"] == "order" or "order" in answer["error"]


async def test_topics_tell_of_their_last_message(make_hub: MakeHub) -> None:
    hub = await make_hub()
    channel = await hub.api.channel()
    empty, busy = [await hub.api.topic(channel, title) for title in ("empty", "busy")]
    await hub.api.post(busy, "one")
    hub.clock.advance(5)
    last = await hub.api.post(busy, "two")
    rows = {row["id"]: row for row in (await hub.api.get(f"/api/v1/channels/{channel}/topics"))["topics"]}
    assert (rows[empty]["last_message_id"], rows[empty]["last_message_at"]) == (None, None)
    assert (rows[busy]["last_message_id"], rows[busy]["last_message_at"]) == (last["id"], last["created_at"])
