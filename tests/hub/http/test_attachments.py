"""Attachments over HTTP, and the links that a message brings with it."""

import asyncio
import json
import re
from typing import Any

import pytest

from tests.hub.conftest import MakeHub
from tests.hub.hubs import Api, OpenHub, rows

NOW = "2026-01-01T00:00:00.000Z"


@pytest.fixture
async def topic(api: Api) -> str:
    return await api.topic(await api.channel())


async def add(api: Api, topic: str, *, status: int = 201, **fields: Any) -> Any:
    body = {"kind": "file", "value_json": {"path": "a.py"}, **fields}
    return await api.call("POST", f"/api/v1/topics/{topic}/attachments", body, status=status)


async def listed(api: Api, topic: str, **params: Any) -> list[dict[str, Any]]:
    return (await api.get(f"/api/v1/topics/{topic}/attachments", **params))["attachments"]


async def urls(api: Api, topic: str) -> list[str]:
    return [each["value_json"]["url"] for each in reversed(await listed(api, topic, kind="url"))]


async def test_an_attachment_is_added_with_201_and_an_event(api: Api, topic: str) -> None:
    body = await add(api, topic, key="src", value_json={"b": 1, "a": [True, None]}, dedupe_key="k")
    attachment = body["attachment"]
    assert re.fullmatch("att_[0-9a-z]{16}", attachment["id"])
    assert attachment == {
        "id": attachment["id"],
        "topic_id": topic,
        "kind": "file",
        "key": "src",
        "value_json": {"b": 1, "a": [True, None]},
        "dedupe_key": "k",
        "source_message_id": None,
        "created_at": NOW,
    }
    event = (await api.events())[-1]
    assert (event["event_id"], event["name"]) == (body["event_id"], "topic.attachment_added")
    assert event["data_json"] == {"attachment": attachment}
    assert event["entity"] == {"type": "attachment", "id": attachment["id"]}
    assert await listed(api, topic) == [attachment]


async def test_attachments_are_listed_newest_first_and_by_kind(hub: OpenHub) -> None:
    topic = await hub.api.topic(await hub.api.channel())
    added = []
    for number in range(3):
        hub.clock.advance(number)
        fields = {"kind": "note" if number == 1 else "file", "value_json": {"n": number}}
        added.append((await add(hub.api, topic, **fields))["attachment"])
    assert await listed(hub.api, topic) == added[::-1]
    assert await listed(hub.api, topic, kind="note") == [added[1]]
    assert await listed(hub.api, topic, kind="none") == []


class TestDedupe:
    """The same attachment is added once, whoever tries and however often."""

    async def test_part_x_the_same_attachment_twice_is_200_without_an_event(self, api: Api, topic: str) -> None:
        first = await add(api, topic)
        again = await add(api, topic, status=200)
        assert again == {"attachment": first["attachment"], "event_id": None}
        assert len(await api.events(2)) == 1

    async def test_part_x_inserts_at_once_with_one_dedupe_key_make_one(self, api: Api, topic: str) -> None:
        path = f"/api/v1/topics/{topic}/attachments"
        bodies = [{"kind": "file", "value_json": {"n": number}, "dedupe_key": "one"} for number in range(5)]
        answers = await asyncio.gather(*(api.client.post(path, json=body) for body in bodies))
        assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 200, 201]
        assert len({answer.json()["attachment"]["id"] for answer in answers}) == 1

    async def test_part_x_the_default_key_is_canonical_json_so_the_order_of_members_does_not_matter(
        self, api: Api, topic: str
    ) -> None:
        first = await add(api, topic, value_json={"b": 1.0, "a": {"y": 1, "x": 2}})
        assert first["attachment"]["dedupe_key"] == '{"a":{"x":2,"y":1},"b":1}'
        again = await add(api, topic, value_json={"a": {"x": 2, "y": 1}, "b": 1}, status=200)
        assert again["attachment"]["id"] == first["attachment"]["id"]

    async def test_the_form_that_agentlip_stored_is_found_too(self, hub: OpenHub) -> None:
        """``JSON.stringify`` keeps the order of members; an adopted database has such keys."""
        topic = await hub.api.topic(await hub.api.channel())
        value = {"z": 1, "a": 2}
        there = (await add(hub.api, topic, value_json=value, dedupe_key='{"z":1,"a":2}'))["attachment"]
        again = await add(hub.api, topic, value_json=value, status=200)
        assert again == {"attachment": there, "event_id": None}

    @pytest.mark.parametrize(
        "other", [{"kind": "note"}, {"key": "k"}, {"value_json": {"path": "b.py"}}, {"dedupe_key": "d"}]
    )
    async def test_another_kind_key_or_value_is_another_attachment(
        self, api: Api, topic: str, other: dict[str, Any]
    ) -> None:
        first = await add(api, topic)
        assert (await add(api, topic, **other))["attachment"]["id"] != first["attachment"]["id"]

    async def test_another_topic_is_another_attachment(self, api: Api, topic: str) -> None:
        channel = (await api.get(f"/api/v1/topics/{topic}"))["topic"]["channel_id"]
        await add(api, topic)
        await add(api, await api.topic(channel, "other"))

    async def test_no_key_and_the_empty_key_are_the_same(self, api: Api, topic: str) -> None:
        first = await add(api, topic)
        assert (await add(api, topic, key="", status=200))["attachment"] == first["attachment"]


class TestRefusals:
    async def test_an_unknown_topic_is_404(self, api: Api) -> None:
        body = await add(api, "topic_none", status=404)
        assert (body["code"], body["details"]) == ("NOT_FOUND", {"topic_id": "topic_none"})

    async def test_defect_13_an_unknown_source_message_is_404(self, api: Api, topic: str) -> None:
        body = await add(api, topic, source_message_id="msg_none", status=404)
        assert (body["code"], body["details"]) == ("NOT_FOUND", {"message_id": "msg_none"})

    async def test_a_known_source_message_is_kept(self, api: Api, topic: str) -> None:
        message = await api.post(topic)
        body = await add(api, topic, source_message_id=message["id"])
        assert body["attachment"]["source_message_id"] == message["id"]

    @pytest.mark.parametrize(
        "fields",
        [
            {"dedupe_key": ""},
            {"value_json": None},
            {"value_json": [1]},
            {"value_json": {"n": 2**60}},
            {"value_json": {"n": 1e16}},
            {"kind": ""},
            {"kind": " "},
            {"kind": "x" * 101},
            {"key": "x" * 201},
            {"dedupe_key": "x" * 32_769},
        ],
    )
    async def test_defect_13_bad_fields_are_400(self, api: Api, topic: str, fields: dict[str, Any]) -> None:
        refused = await add(api, topic, status=400, **fields)
        assert (refused["code"], refused["details"]) == ("INVALID_INPUT", {"field": next(iter(fields))})
        assert await listed(api, topic) == []

    async def test_metadata_nested_too_deep_is_400(self, api: Api, topic: str) -> None:
        deep: Any = 1
        for _ in range(63):
            deep = {"a": deep}
        await add(api, topic, value_json=deep)
        assert (await add(api, topic, value_json={"a": [deep]}, status=400))["details"] == {"field": "value_json"}

    async def test_gate_j_the_largest_metadata_passes_and_one_byte_more_is_413(self, api: Api, topic: str) -> None:
        frame = len('{"v":""}')
        await add(api, topic, value_json={"v": "x" * (16_384 - frame)})
        body = await add(api, topic, value_json={"v": "x" * (16_384 - frame + 1)}, status=413)
        assert (body["code"], body["details"]) == ("PAYLOAD_TOO_LARGE", {"limit_bytes": 16_384})

    async def test_the_size_limit_is_a_setting(self, make_hub: MakeHub) -> None:
        hub = await make_hub({"limits": {"attachment_bytes_max": 10}})
        topic = await hub.api.topic(await hub.api.channel())
        await add(hub.api, topic, value_json={"v": 1234})
        assert (await add(hub.api, topic, value_json={"v": 12345}, status=413))["code"] == "PAYLOAD_TOO_LARGE"

    @pytest.mark.parametrize("kind", ["url", "link"])
    @pytest.mark.parametrize(
        "value",
        [
            {},
            {"url": "javascript:alert(1)"},
            {"url": "data:text/html,x"},
            {"url": "https://e.example/<script>"},
            {"url": "https://e.example/\x01"},
            {"url": "https://e.example/" + "x" * 2048},
            {"url": "https://e.example", "title": "<img onerror=x>"},
            {"url": "https://e.example", "title": "x" * 501},
            {"url": "https://e.example", "description": 5},
            {"url": "https://e.example", "description": "JAVASCRIPT:x"},
        ],
    )
    async def test_appendix_c_xss_in_a_link_is_refused(self, api: Api, topic: str, kind: str, value: Any) -> None:
        assert (await add(api, topic, kind=kind, value_json=value, status=400))["code"] == "INVALID_INPUT"

    @pytest.mark.parametrize("kind", ["URL", "Link", " url "])
    async def test_h12_a_kind_of_link_in_capitals_is_one_all_the_same(self, api: Api, topic: str, kind: str) -> None:
        body = await add(api, topic, kind=kind, value_json={"url": "javascript:alert(1)"}, status=400)
        assert body["code"] == "INVALID_INPUT"
        await add(api, topic, kind=kind, value_json={"url": "https://e.example/"})

    async def test_a_plain_link_is_added_and_other_kinds_may_hold_anything(self, api: Api, topic: str) -> None:
        await add(api, topic, kind="link", value_json={"url": "https://e.example/", "title": "T", "extra": [1]})
        await add(api, topic, kind="note", value_json={"url": "javascript:alert(1)", "html": "<b>"})


class TestLinksInMessages:
    """Links become attachments in the message's own transaction, on create and on edit."""

    async def test_a_posted_link_becomes_an_attachment_of_the_topic(self, api: Api, topic: str) -> None:
        message = await api.post(topic, "see https://example.org/a, and https://example.org/a.")
        (attachment,) = await listed(api, topic)
        assert attachment == {
            "id": attachment["id"],
            "topic_id": topic,
            "kind": "url",
            "key": None,
            "value_json": {"url": "https://example.org/a"},
            "dedupe_key": "https://example.org/a",
            "source_message_id": message["id"],
            "created_at": NOW,
        }
        assert [event["name"] for event in await api.events(2)] == ["message.created", "topic.attachment_added"]

    async def test_h9_the_links_are_those_that_a_reader_would_click(self, api: Api, topic: str) -> None:
        await api.post(topic, "`https://g.example/code`, **https://h.example** and https://i.example/Foo_(bar).")
        await api.post(
            topic, '[text](https://j.example/a_(b) "title") or <https://k.example/>\n```\nhttps://l.example\n```'
        )
        assert await urls(api, topic) == [
            "https://g.example/code",
            "https://h.example",
            "https://i.example/Foo_(bar)",
            "https://j.example/a_(b)",
            "https://k.example/",
        ]

    async def test_the_answers_event_id_is_that_of_the_message(self, api: Api, topic: str) -> None:
        body = {"topic_id": topic, "sender": "a", "content_raw": "https://example.org"}
        assert (await api.call("POST", "/api/v1/messages", body, status=201))["event_id"] == 3

    async def test_an_edit_adds_new_links_and_keeps_the_old_ones(self, api: Api, topic: str) -> None:
        message = await api.post(topic, "https://example.org/a")
        await api.patch(message["id"], "edit", content_raw="https://example.org/a https://example.org/b")
        assert await urls(api, topic) == ["https://example.org/a", "https://example.org/b"]

    async def test_the_same_link_in_another_message_is_there_already(self, api: Api, topic: str) -> None:
        await api.post(topic, "https://example.org/a")
        await api.post(topic, "https://example.org/a")
        assert await urls(api, topic) == ["https://example.org/a"]

    async def test_a_delete_keeps_the_attachments(self, api: Api, topic: str) -> None:
        message = await api.post(topic, "https://example.org/a")
        await api.patch(message["id"], "delete", actor="ann")
        assert await urls(api, topic) == ["https://example.org/a"]

    @pytest.mark.parametrize(
        ("settings", "found"),
        [
            ({}, ["https://ok.example/", "https://sub.ok.example/", "https://bad.example/"]),
            ({"extract": False}, []),
            ({"allow": ["ok.example"]}, ["https://ok.example/", "https://sub.ok.example/"]),
            ({"block": ["bad.example"]}, ["https://ok.example/", "https://sub.ok.example/"]),
            ({"allow": ["ok.example"], "block": ["sub.ok.example"]}, ["https://ok.example/"]),
        ],
    )
    async def test_extraction_and_its_lists_are_settings(
        self, make_hub: MakeHub, settings: dict[str, Any], found: list[str]
    ) -> None:
        hub = await make_hub({"urls": settings})
        topic = await hub.api.topic(await hub.api.channel())
        message = await hub.api.post(topic, "nothing")
        text = "https://ok.example/ https://sub.ok.example/ https://bad.example/"
        await hub.api.patch(message["id"], "edit", content_raw=text)
        assert await urls(hub.api, topic) == found
        other = await hub.api.topic(message["channel_id"], "other")
        await hub.api.post(other, text)
        assert await urls(hub.api, other) == found


async def test_numbers_and_texts_survive_and_the_log_agrees_with_the_table(hub: OpenHub) -> None:
    topic = await hub.api.topic(await hub.api.channel())
    values = [
        {"n": 1.0},
        {"n": 1e21},
        {"n": -0.0},
        {"n": 1e-7},
        {"n": 2**53 - 1},
        {"": "\x00\u2028"},
        {"\U0001f600": "\ufb33"},
    ]
    for value in values:
        await add(hub.api, topic, value_json=value)
    assert sorted(map(json.dumps, [each["value_json"] for each in await listed(hub.api, topic)])) == sorted(
        map(json.dumps, [{"n": 1}, {"n": 1e21}, {"n": 0}, {"n": 1e-7}, *values[4:]])
    )
    assert len(rows(hub.workspace, "SELECT 1 FROM topic_attachments")) == len(values)
    assert hub.fold_problems() == []
