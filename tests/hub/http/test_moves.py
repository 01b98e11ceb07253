"""Moving messages between topics: one, later, all; large moves in chunks; moves at once."""

import asyncio
from typing import Any

import pytest

from parley.core.settings import UrlSettings
from parley.hub.rules.messages import create_message
from parley.hub.transaction import Tx
from parley.wire.requests import CreateMessage
from tests.hub.conftest import MakeHub
from tests.hub.hubs import Api, OpenHub, open_hub, rows


class Place:
    """Two topics of a channel, and messages in the first of them."""

    def __init__(self, api: Api, channel: str, one: str, two: str, ids: list[str]) -> None:
        self.api = api
        self.channel = channel
        self.one = one
        self.two = two
        self.ids = ids

    async def move(self, number: int, mode: str, to: str | None = None, **fields: Any) -> Any:
        return await self.api.patch(self.ids[number], "move_topic", to_topic_id=to or self.two, mode=mode, **fields)

    async def where(self, topic: str) -> list[str]:
        """The ids in a topic, oldest first."""
        page = await self.api.get("/api/v1/messages", topic_id=topic, limit=1000)
        return [message["id"] for message in reversed(page["messages"])]


async def fill(hub: OpenHub, count: int = 5) -> Place:
    channel = await hub.api.channel()
    one, two = await hub.api.topic(channel, "one"), await hub.api.topic(channel, "two")
    ids = []
    for number in range(count):
        hub.clock.jump(-5 if number % 3 else 1)
        ids.append((await hub.api.post(one, str(number)))["id"])
    return Place(hub.api, channel, one, two, ids)


@pytest.fixture
async def place(hub: OpenHub) -> Place:
    return await fill(hub)


@pytest.mark.parametrize(("mode", "moved"), [("one", slice(2, 3)), ("later", slice(2, None)), ("all", slice(0, None))])
async def test_a_move_takes_the_selection_and_writes_one_event_per_message(
    hub: OpenHub, place: Place, mode: str, moved: slice
) -> None:
    body = await place.move(2, mode)
    selection = place.ids[moved]
    assert body["affected_count"] == len(selection) == len(body["event_ids"])
    assert await place.where(place.two) == selection
    assert await place.where(place.one) == [each for each in place.ids if each not in selection]
    events = await place.api.events(8)
    assert [event["event_id"] for event in events] == body["event_ids"]
    for message_id, event in zip(selection, events, strict=True):
        assert event["name"] == "message.moved_topic"
        assert event["entity"] == {"type": "message", "id": message_id}
        assert event["scope"] == {"channel_id": place.channel, "topic_id": place.one, "topic_id2": place.two}
        assert event["data_json"] == {
            "message_id": message_id,
            "old_topic_id": place.one,
            "new_topic_id": place.two,
            "channel_id": place.channel,
            "mode": mode,
            "version": 2,
        }
    assert hub.fold_problems() == []


async def test_part_x_a_move_to_the_same_topic_is_200_without_events(place: Place) -> None:
    for mode in ("one", "later", "all"):
        assert await place.move(0, mode, to=place.one) == {"affected_count": 0, "event_ids": []}
    assert len(await place.api.events()) == 8


async def test_part_x_later_from_the_last_message_moves_only_it(place: Place) -> None:
    assert (await place.move(4, "later"))["affected_count"] == 1
    assert await place.where(place.two) == [place.ids[4]]


async def test_part_x_sparse_ids_later_takes_what_was_created_at_or_after_the_anchor(place: Place) -> None:
    await place.move(1, "one")
    await place.move(3, "one")
    assert (await place.move(2, "later"))["affected_count"] == 2
    assert await place.where(place.two) == place.ids[1:]


async def test_gate_d_a_cross_channel_move_is_400_and_changes_nothing(hub: OpenHub, place: Place) -> None:
    elsewhere = await place.api.topic(await place.api.channel("elsewhere"))
    before = await place.api.events()
    for mode in ("one", "later", "all"):
        body = await place.move(0, mode, to=elsewhere, status=400)
        assert body["code"] == "CROSS_CHANNEL_MOVE"
        assert body["details"] == {"message_id": place.ids[0], "to_topic_id": elsewhere}
    assert await place.api.events() == before
    assert await place.where(place.one) == place.ids


async def test_an_unknown_topic_or_message_is_404(place: Place) -> None:
    assert (await place.move(0, "one", to="topic_none", status=404))["details"] == {"topic_id": "topic_none"}
    body = await place.api.patch("msg_none", "move_topic", to_topic_id=place.two, mode="one", status=404)
    assert body["details"] == {"message_id": "msg_none"}


async def test_part_x_topics_cannot_be_deleted_so_no_move_loses_its_topic(place: Place) -> None:
    answer = await place.api.client.delete(f"/api/v1/topics/{place.one}")
    assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED")


async def test_part_x_retopic_with_a_stale_version_conflicts_before_anything_moves(place: Place) -> None:
    await place.api.patch(place.ids[0], "edit", content_raw="x")
    assert (await place.move(0, "all", expected_version=1, status=409))["current_version"] == 2
    assert await place.where(place.two) == []


async def test_part_x_moves_at_once_take_each_message_once(hub: OpenHub, place: Place) -> None:
    three = await place.api.topic(place.channel, "three")
    answers = await asyncio.gather(place.move(0, "all"), place.move(0, "all", to=three), place.move(2, "later"))
    assert hub.fold_problems() == []
    everywhere = [each for topic in (place.one, place.two, three) for each in await place.where(topic)]
    assert sorted(everywhere) == sorted(place.ids)
    assert sum(answer["affected_count"] for answer in answers) == len(await place.api.events(9))


async def test_part_x_a_post_during_a_move_of_all_is_moved_or_not_but_whole(hub: OpenHub, place: Place) -> None:
    posts = [place.api.post(place.one, f"during {number}") for number in range(5)]
    await asyncio.gather(*posts[:2], place.move(0, "all"), *posts[2:])
    assert hub.fold_problems() == []
    assert len(await place.where(place.one)) + len(await place.where(place.two)) == 10


CHUNKED = {"limits": {"move_batch_max": 3}}


class TestLargeMoves:
    """Above ``move_batch_max`` a move is a row in the database and goes in chunks."""

    @pytest.mark.parametrize(("mode", "count"), [("all", 20), ("later", 13), ("one", 1)])
    async def test_a_large_move_moves_everything_and_lists_every_event(
        self, make_hub: MakeHub, mode: str, count: int
    ) -> None:
        hub = await make_hub(CHUNKED)
        place = await fill(hub, 20)
        body = await place.move(7, mode)
        assert body["affected_count"] == len(set(body["event_ids"])) == count
        events = [event["event_id"] for event in await hub.api.events() if event["name"] == "message.moved_topic"]
        assert events == body["event_ids"]
        assert hub.fold_problems() == []

    async def test_part_x_10k_messages_move(self, make_hub: MakeHub) -> None:
        hub = await make_hub()
        channel = await hub.api.channel()
        one, two = await hub.api.topic(channel, "one"), await hub.api.topic(channel, "two")
        first = await hub.api.post(one)

        def post_many(tx: Tx) -> None:
            for _ in range(9_999):
                create_message(tx, CreateMessage(one, "ann", "x"), UrlSettings())

        await hub.hub.store.write(post_many)
        body = await hub.api.patch(first["id"], "move_topic", to_topic_id=two, mode="all")
        assert body["affected_count"] == len(body["event_ids"]) == 10_000
        assert hub.fold_problems() == []

    async def test_other_writes_pass_between_the_chunks_and_what_was_moved_meanwhile_stays(
        self, make_hub: MakeHub
    ) -> None:
        hub = await make_hub(CHUNKED)
        place = await fill(hub, 60)
        three = await hub.api.topic(place.channel, "three")
        moving = asyncio.create_task(place.move(0, "all"))
        await asyncio.sleep(0)
        aside = await place.move(59, "one", to=three)
        body = await moving
        assert aside["affected_count"] == 1
        assert await place.where(three) == [place.ids[59]]
        assert body["affected_count"] == 59
        assert aside["event_ids"][0] < max(body["event_ids"])
        assert hub.fold_problems() == []

    async def test_a_message_posted_during_a_large_move_stays(self, make_hub: MakeHub) -> None:
        hub = await make_hub(CHUNKED)
        place = await fill(hub, 30)
        moving = asyncio.create_task(place.move(0, "all"))
        await asyncio.sleep(0)
        late = await hub.api.post(place.one, "late")
        await moving
        assert await place.where(place.one) == [late["id"]]
        assert await place.where(place.two) == place.ids

    async def test_a_retry_with_the_same_key_gets_the_same_list(self, make_hub: MakeHub) -> None:
        hub = await make_hub(CHUNKED)
        place = await fill(hub, 10)
        path, headers = f"/api/v1/messages/{place.ids[0]}", {"Idempotency-Key": "k"}
        body = {"op": "move_topic", "to_topic_id": place.two, "mode": "all"}
        first, second = await asyncio.gather(
            hub.api.call("PATCH", path, body, headers=headers), hub.api.call("PATCH", path, body, headers=headers)
        )
        third = await hub.api.call("PATCH", path, body, headers=headers)
        assert first["event_ids"] == second["event_ids"] == third["event_ids"]
        assert first["affected_count"] == 10
        assert "duplicate" not in first
        assert second["duplicate"] is third["duplicate"] is True
        other = await hub.api.call("PATCH", path, {**body, "mode": "one"}, headers=headers, status=409)
        assert other["code"] == "IDEMPOTENCY_KEY_REUSED"

    async def test_a_move_of_nothing_with_a_key_is_repeated_as_nothing(self, make_hub: MakeHub) -> None:
        hub = await make_hub(CHUNKED)
        place = await fill(hub, 2)
        path, headers = f"/api/v1/messages/{place.ids[0]}", {"Idempotency-Key": "k"}
        body = {"op": "move_topic", "to_topic_id": place.one, "mode": "all"}
        assert await hub.api.call("PATCH", path, body, headers=headers) == {"affected_count": 0, "event_ids": []}
        again = await hub.api.call("PATCH", path, body, headers=headers)
        assert again == {"affected_count": 0, "event_ids": [], "duplicate": True}

    async def test_a_stop_interrupts_a_large_move_and_the_next_start_finishes_it(self, make_hub: MakeHub) -> None:
        probe = await make_hub()
        folder = probe.workspace.root.parent / "resumed"
        async with open_hub(folder, CHUNKED) as first:
            place = await fill(first, 40)
            path = f"/api/v1/messages/{place.ids[0]}"
            body = {"op": "move_topic", "to_topic_id": place.two, "mode": "all"}
            moving = asyncio.create_task(
                first.api.call("PATCH", path, body, headers={"Idempotency-Key": "k"}, status=503)
            )
            await asyncio.sleep(0)
            first.hub.in_flight.close()
            refused = await moving
            assert refused["code"] == "SHUTTING_DOWN"
        ((moved, finished),) = rows(first.workspace, "SELECT moved, finished_at FROM moves")
        assert 0 < moved < 40
        assert finished is None
        second = await make_hub(CHUNKED, folder=folder)
        assert second.hub.moves.resume() == 1
        again = await second.api.call("PATCH", path, body, headers={"Idempotency-Key": "k"})
        assert (again["affected_count"], again["duplicate"]) == (40, True)
        moves = [event for event in await second.api.events() if event["name"] == "message.moved_topic"]
        assert [event["event_id"] for event in moves] == again["event_ids"]
        assert second.hub.moves.resume() == 0
        assert second.fold_problems() == []

    async def test_a_caller_that_goes_away_does_not_stop_its_move(self, make_hub: MakeHub) -> None:
        hub = await make_hub(CHUNKED)
        place = await fill(hub, 40)
        path, headers = f"/api/v1/messages/{place.ids[0]}", {"Idempotency-Key": "k"}
        body = {"op": "move_topic", "to_topic_id": place.two, "mode": "all"}
        moving = asyncio.create_task(hub.api.call("PATCH", path, body, headers=headers))
        await asyncio.sleep(0)
        await hub.api.post(place.two, "committed after the first chunk")
        assert moving.cancel()
        again = await hub.api.call("PATCH", path, body, headers=headers)
        assert (again["affected_count"], again["duplicate"]) == (40, True)
        assert await place.where(place.one) == []
