"""Messages over HTTP: post, edit, delete, reply."""

import asyncio
import re
from typing import Any

import apsw
import pytest

from parley.core.limits import VERSION_MAX
from parley.sqlite import open_writer
from tests.hub.conftest import MakeHub
from tests.hub.hubs import Api, OpenHub

NOW = "2026-01-01T00:00:00.000Z"
LATER = "2026-01-01T00:00:05.000Z"


@pytest.fixture
async def topic(api: Api) -> str:
    return await api.topic(await api.channel())


async def stored(api: Api, message_id: str) -> dict[str, Any]:
    return (await api.get(f"/api/v1/messages/{message_id}"))["message"]


async def names(api: Api, after: int = 2) -> list[str]:
    return [event["name"] for event in await api.events(after)]


async def test_a_message_is_posted_with_201_and_an_event_that_holds_it(api: Api, topic: str) -> None:
    body = await api.call(
        "POST", "/api/v1/messages", {"topic_id": topic, "sender": "ann", "content_raw": "héllo"}, status=201
    )
    message = body["message"]
    assert re.fullmatch("msg_[0-9a-z]{16}", message["id"])
    channel = message["channel_id"]
    assert message == {
        "id": message["id"],
        "topic_id": topic,
        "channel_id": channel,
        "sender": "ann",
        "content_raw": "héllo",
        "version": 1,
        "created_at": NOW,
        "edited_at": None,
        "deleted_at": None,
        "deleted_by": None,
        "reply_to": None,
    }
    (event,) = await api.events(after=2)
    assert event["event_id"] == body["event_id"] == 3
    assert (event["name"], event["data_json"], event["ts"]) == ("message.created", {"message": message}, NOW)
    assert event["scope"] == {"channel_id": channel, "topic_id": topic, "topic_id2": None}
    assert event["entity"] == {"type": "message", "id": message["id"]}
    assert await stored(api, message["id"]) == message


async def test_empty_content_may_be_posted_but_not_edited_in(api: Api, topic: str) -> None:
    message = await api.post(topic, "")
    body = await api.patch(message["id"], "edit", content_raw="", status=400)
    assert (body["code"], body["details"]) == ("INVALID_INPUT", {"field": "content_raw"})


async def test_a_message_to_an_unknown_topic_is_404(api: Api) -> None:
    body = {"topic_id": "topic_none", "sender": "ann", "content_raw": "x"}
    refused = await api.call("POST", "/api/v1/messages", body, status=404)
    assert (refused["code"], refused["error"]) == ("NOT_FOUND", "Topic not found: topic_none")


@pytest.mark.parametrize("op", [{"op": "edit", "content_raw": "x"}, {"op": "delete", "actor": "ann"}])
async def test_a_change_of_an_unknown_message_is_404(api: Api, op: dict[str, str]) -> None:
    body = await api.call("PATCH", "/api/v1/messages/msg_none", op, status=404)
    assert (body["code"], body["error"]) == ("NOT_FOUND", "Message not found: msg_none")
    assert (await api.get("/api/v1/messages/msg_none", status=404))["code"] == "NOT_FOUND"


class TestReply:
    async def test_a_reply_names_what_it_answers(self, api: Api, topic: str) -> None:
        first = await api.post(topic)
        reply = await api.post(topic, reply_to=first["id"])
        assert reply["reply_to"] == first["id"]
        assert (await api.events())[-1]["data_json"]["message"]["reply_to"] == first["id"]

    async def test_a_reply_may_cross_topics_and_answer_a_deleted_message(self, api: Api, topic: str) -> None:
        first = await api.post(topic)
        await api.patch(first["id"], "delete", actor="ann")
        other = await api.topic(first["channel_id"], "other")
        assert (await api.post(other, reply_to=first["id"]))["reply_to"] == first["id"]

    async def test_a_reply_to_nothing_is_404(self, api: Api, topic: str) -> None:
        body = {"topic_id": topic, "sender": "a", "content_raw": "x", "reply_to": "msg_none"}
        refused = await api.call("POST", "/api/v1/messages", body, status=404)
        assert refused["details"] == {"message_id": "msg_none"}


class TestEdit:
    async def test_an_edit_raises_the_version_and_keeps_both_contents_in_the_event(self, hub: OpenHub) -> None:
        api = hub.api
        topic = await api.topic(await api.channel())
        message = await api.post(topic, "old")
        hub.clock.advance(5)
        body = await api.patch(message["id"], "edit", content_raw="new", expected_version=1)
        assert body["message"] == {**message, "content_raw": "new", "version": 2, "edited_at": LATER}
        event = (await api.events())[-1]
        assert (event["event_id"], event["name"], event["ts"]) == (body["event_id"], "message.edited", LATER)
        assert event["data_json"] == {
            "message_id": message["id"],
            "old_content": "old",
            "new_content": "new",
            "version": 2,
        }
        assert await stored(api, message["id"]) == body["message"]

    async def test_without_an_expected_version_or_with_null_the_edit_is_unconditional(
        self, api: Api, topic: str
    ) -> None:
        message = await api.post(topic)
        await api.patch(message["id"], "edit", content_raw="a")
        body = await api.patch(message["id"], "edit", content_raw="b", expected_version=None)
        assert body["message"]["version"] == 3

    async def test_part_x_rapid_successive_edits_all_succeed(self, api: Api, topic: str) -> None:
        message = await api.post(topic)
        for number in range(10):
            await api.patch(message["id"], "edit", content_raw=str(number))
        assert (await stored(api, message["id"]))["version"] == 11
        assert [event["data_json"]["version"] for event in await api.events(3)] == list(range(2, 12))

    async def test_part_x_version_overflow_is_refused(self, hub: OpenHub) -> None:
        topic = await hub.api.topic(await hub.api.channel())
        message = await hub.api.post(topic)
        await hub.hub.store.write(
            lambda tx: (
                tx.db.execute("UPDATE messages SET version = ? WHERE id = ?", (VERSION_MAX, message["id"])) and None
            )
        )
        other = await hub.api.topic(message["channel_id"], "other")
        for op, fields in (
            ("edit", {"content_raw": "x"}),
            ("delete", {"actor": "ann"}),
            ("move_topic", {"to_topic_id": other, "mode": "one"}),
            ("move_topic", {"to_topic_id": other, "mode": "all"}),
        ):
            body = await hub.api.patch(message["id"], op, status=400, **fields)
            assert body["code"] == "INVALID_INPUT"
            assert (await stored(hub.api, message["id"]))["version"] == VERSION_MAX


class TestGateG:
    """Gate G: a mismatched ``expected_version`` conflicts and changes nothing."""

    @pytest.mark.parametrize(
        ("op", "fields"),
        [
            ("edit", {"content_raw": "x"}),
            ("delete", {"actor": "ann"}),
            ("move_topic", {"mode": "one"}),
            ("move_topic", {"mode": "all"}),
        ],
    )
    @pytest.mark.parametrize("expected", [1, 3, VERSION_MAX])
    async def test_gate_g_a_conflict_changes_nothing_and_says_the_current_version(
        self, api: Api, topic: str, op: str, fields: dict[str, Any], expected: int
    ) -> None:
        message = await api.post(topic)
        current = (await api.patch(message["id"], "edit", content_raw="second"))["message"]
        if op == "move_topic":
            fields = {**fields, "to_topic_id": await api.topic(message["channel_id"], "other")}
        before = await api.events()
        body = await api.patch(message["id"], op, expected_version=expected, status=409, **fields)
        assert body == {
            "error": f"Version conflict for message {message['id']}: expected {expected}, current 2",
            "code": "VERSION_CONFLICT",
            "details": {"expected": expected, "current": 2, "current_version": 2, "message_id": message["id"]},
            "current_version": 2,
        }
        assert await stored(api, message["id"]) == current
        assert await api.events() == before

    async def test_part_x_two_racing_edits_without_expected_version_both_succeed(self, api: Api, topic: str) -> None:
        message = await api.post(topic)
        both = await asyncio.gather(*(api.patch(message["id"], "edit", content_raw=text) for text in "ab"))
        assert sorted(body["message"]["version"] for body in both) == [2, 3]
        assert len({body["event_id"] for body in both}) == 2

    async def test_part_x_of_two_racing_edits_with_one_expected_version_one_wins(self, api: Api, topic: str) -> None:
        message = await api.post(topic)
        path = f"/api/v1/messages/{message['id']}"
        answers = await asyncio.gather(
            *(
                api.client.patch(path, json={"op": "edit", "content_raw": text, "expected_version": 1})
                for text in ("a", "b", "c")
            )
        )
        assert sorted(answer.status_code for answer in answers) == [200, 409, 409]
        assert {answer.json()["current_version"] for answer in answers if answer.status_code == 409} == {2}
        assert await names(api, 3) == ["message.edited"]

    async def test_part_x_edit_against_retopic_conflicts(self, api: Api, topic: str) -> None:
        message = await api.post(topic)
        other = await api.topic(message["channel_id"], "other")
        await api.patch(message["id"], "move_topic", to_topic_id=other, mode="one")
        body = await api.patch(message["id"], "edit", content_raw="x", expected_version=1, status=409)
        assert body["current_version"] == 2


class TestGateH:
    """Gate H: a delete leaves a tombstone."""

    async def test_gate_h_the_row_stays_with_who_and_when_and_there_is_one_event(self, hub: OpenHub) -> None:
        api = hub.api
        topic = await api.topic(await api.channel())
        message = await api.post(topic, "secret")
        hub.clock.advance(5)
        body = await api.patch(message["id"], "delete", actor="bob")
        assert body["message"] == {
            **message,
            "content_raw": "[deleted]",
            "version": 2,
            "edited_at": LATER,
            "deleted_at": LATER,
            "deleted_by": "bob",
        }
        assert await stored(api, message["id"]) == body["message"]
        event = (await api.events())[-1]
        assert event["data_json"] == {"message_id": message["id"], "deleted_by": "bob", "version": 2}
        assert (await names(api)).count("message.deleted") == 1

    async def test_part_x_deleting_again_is_200_without_an_event(self, api: Api, topic: str) -> None:
        message = await api.post(topic)
        first = await api.patch(message["id"], "delete", actor="ann")
        again = await api.patch(message["id"], "delete", actor="bob")
        assert again == {"message": first["message"], "event_id": None}
        assert (await names(api)).count("message.deleted") == 1

    async def test_part_x_racing_deletes_write_one_event(self, api: Api, topic: str) -> None:
        message = await api.post(topic)
        answers = await asyncio.gather(
            *(api.patch(message["id"], "delete", actor=who) for who in ("ann", "bob", "cid"))
        )
        assert sorted(answer["event_id"] is None for answer in answers) == [False, True, True]
        assert len({answer["message"]["deleted_by"] for answer in answers}) == 1

    async def test_part_x_a_deleted_message_cannot_be_edited(self, api: Api, topic: str) -> None:
        message = await api.post(topic)
        deleted = (await api.patch(message["id"], "delete", actor="ann"))["message"]
        for version in (None, 1, 2):
            body = await api.patch(message["id"], "edit", content_raw="back", expected_version=version, status=400)
            assert body == {
                "error": "Cannot edit a deleted message",
                "code": "MESSAGE_DELETED",
                "details": {"message_id": message["id"]},
            }
        assert await stored(api, message["id"]) == deleted

    async def test_part_x_a_deleted_message_still_moves(self, api: Api, topic: str) -> None:
        message = await api.post(topic)
        await api.patch(message["id"], "delete", actor="ann")
        other = await api.topic(message["channel_id"], "other")
        assert (await api.patch(message["id"], "move_topic", to_topic_id=other, mode="one"))["affected_count"] == 1
        moved = await stored(api, message["id"])
        assert (moved["topic_id"], moved["content_raw"], moved["version"]) == (other, "[deleted]", 3)


class TestContentSize:
    """64 KiB of UTF-8, however it is escaped in the body."""

    @pytest.mark.parametrize("unit", ["x", "é", "€", "😀", "\x01", '"', "\\"])
    async def test_gate_j_the_largest_content_passes_and_one_byte_more_is_413(
        self, api: Api, topic: str, unit: str
    ) -> None:
        size = len(unit.encode())
        largest = unit * (65_536 // size) + "x" * (65_536 % size)
        message = await api.post(topic, largest)
        assert message["content_raw"] == largest
        body = {"topic_id": topic, "sender": "ann", "content_raw": largest + "x"}
        refused = await api.call("POST", "/api/v1/messages", body, status=413)
        assert refused == {
            "error": "Message content too large (max 65536 bytes)",
            "code": "PAYLOAD_TOO_LARGE",
            "details": {"limit_bytes": 65_536, "bytes": 65_537},
        }
        edit = await api.patch(message["id"], "edit", content_raw=largest + "x", status=413)
        assert edit["code"] == "PAYLOAD_TOO_LARGE"

    async def test_the_limit_is_a_setting(self, make_hub: MakeHub) -> None:
        hub = await make_hub({"limits": {"message_bytes_max": 10}})
        topic = await hub.api.topic(await hub.api.channel())
        message = await hub.api.post(topic, "x" * 10)
        await hub.api.patch(message["id"], "edit", content_raw="ééééé")
        assert (await hub.api.patch(message["id"], "edit", content_raw="ééééé!", status=413))[
            "code"
        ] == "PAYLOAD_TOO_LARGE"

    @pytest.mark.parametrize("text", ["a\x00b", "\u2028", "\ufffe", "\u202e", "e\u0301"])
    async def test_any_text_comes_back_as_it_was_sent(self, hub: OpenHub, text: str) -> None:
        topic = await hub.api.topic(await hub.api.channel())
        message = await hub.api.post(topic, text)
        assert (await stored(hub.api, message["id"]))["content_raw"] == text
        assert (await hub.api.events())[-1]["data_json"]["message"]["content_raw"] == text
        assert hub.fold_problems() == []


async def test_part_x_1000_messages_at_once_get_strictly_increasing_event_ids_without_gaps(hub: OpenHub) -> None:
    topic = await hub.api.topic(await hub.api.channel())
    body = {"topic_id": topic, "sender": "ann", "content_raw": "x"}
    answers = await asyncio.gather(*(hub.api.client.post("/api/v1/messages", json=body) for _ in range(1000)))
    event_ids = sorted(answer.json()["event_id"] for answer in answers)
    assert event_ids == list(range(3, 1003))
    order = sorted(answers, key=lambda answer: answer.json()["event_id"])
    ids = [answer.json()["message"]["id"] for answer in order]
    assert ids == sorted(set(ids))


async def test_part_x_triggers_forbid_changing_events_and_removing_messages(hub: OpenHub) -> None:
    topic = await hub.api.topic(await hub.api.channel())
    await hub.api.post(topic)
    connection = open_writer(hub.workspace.db)
    try:
        for statement in ("UPDATE events SET name = 'x'", "DELETE FROM events", "DELETE FROM messages"):
            with pytest.raises(apsw.ConstraintError):
                connection.execute(statement)
        with pytest.raises(apsw.ConstraintError):
            connection.execute("DELETE FROM topics")
    finally:
        connection.close()
