"""``GET /api/v1/messages/{id}/move_preview``: what a move would take along, as the move itself then takes it."""

from typing import Any

import pytest

from tests.hub.hubs import Api, OpenHub


@pytest.fixture
async def topics(api: Api) -> list[str]:
    channel = await api.channel()
    return [await api.topic(channel, title) for title in ("from", "to")]


@pytest.fixture
async def messages(api: Api, topics: list[str]) -> list[str]:
    return [(await api.post(topics[0], f"{number}"))["id"] for number in range(5)]


async def preview(api: Api, message_id: str, *, status: int = 200, **params: Any) -> Any:
    return await api.get(f"/api/v1/messages/{message_id}/move_preview", status=status, **params)


@pytest.mark.parametrize(("mode", "first", "last"), [("one", 2, 2), ("later", 2, 4), ("all", 0, 4)])
async def test_a_preview_is_what_the_move_does(
    api: Api, topics: list[str], messages: list[str], mode: str, first: int, last: int
) -> None:
    told = await preview(api, messages[2], mode=mode, to_topic_id=topics[1])
    assert told == {
        "count": last - first + 1,
        "first_message_id": messages[first],
        "last_message_id": messages[last],
        "from_topic_id": topics[0],
        "to_topic_id": topics[1],
    }
    before = await api.events()
    moved = await api.patch(messages[2], "move_topic", to_topic_id=topics[1], mode=mode)
    assert moved["affected_count"] == told["count"]
    assert len(await api.events()) == len(before) + told["count"], "and the preview itself moved nothing"


async def test_without_a_mode_it_is_about_one_message(api: Api, topics: list[str], messages: list[str]) -> None:
    assert (await preview(api, messages[1], to_topic_id=topics[1]))["count"] == 1


async def test_a_move_to_where_it_is_takes_nothing(api: Api, topics: list[str], messages: list[str]) -> None:
    told = await preview(api, messages[1], mode="all", to_topic_id=topics[0])
    assert (told["count"], told["first_message_id"], told["last_message_id"]) == (0, None, None)


async def test_a_deleted_message_moves_too(api: Api, topics: list[str], messages: list[str]) -> None:
    await api.patch(messages[0], "delete", actor="ann")
    assert (await preview(api, messages[0], mode="all", to_topic_id=topics[1]))["count"] == 5


async def test_its_errors_are_those_of_the_move(hub: OpenHub, api: Api, topics: list[str], messages: list[str]) -> None:
    foreign = await api.topic(await api.channel("other"))
    for message, params, status, code in (
        (messages[0], {"mode": "one", "to_topic_id": foreign}, 400, "CROSS_CHANNEL_MOVE"),
        (messages[0], {"mode": "one", "to_topic_id": "topic_unknown"}, 404, "NOT_FOUND"),
        ("msg_unknown", {"mode": "one", "to_topic_id": topics[1]}, 404, "NOT_FOUND"),
        (messages[0], {"mode": "some", "to_topic_id": topics[1]}, 400, "INVALID_INPUT"),
        (messages[0], {"mode": "one"}, 400, "INVALID_INPUT"),
        (messages[0], {"mode": "one", "to_topic_id": "no id!"}, 400, "INVALID_INPUT"),
    ):
        assert (await preview(api, message, status=status, **params))["code"] == code
        if "to_topic_id" in params and code != "INVALID_INPUT":
            moved = await api.patch(message, "move_topic", status=status, **params)
            assert moved["code"] == code
