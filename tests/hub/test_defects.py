"""The defects of the implementation before ours that are about HTTP and rules, one test each, by their number.

Those of the feed and of the life cycle (1, 2, 10, 11, 12, 16, 17, 19) are in ``test_defects_feed``, ``feed`` and
``lifecycle``; 3 and 9 are about the page and plugins; 21, docs that contradict the code, is held by the tests of docs.
"""

import asyncio
from typing import Any

import pytest

from tests.hub.conftest import MakeHub
from tests.hub.hubs import OpenHub, open_hub


@pytest.mark.parametrize("host", ["127.0.0.1", "evil.example.com"])
@pytest.mark.parametrize(
    "path", ["/ui/bootstrap", "/ui", "/", "/health", "/api/v1/status", "/api/v1/token", "/openapi.json"]
)
async def test_defect_04_nobody_gets_the_token_without_having_it(hub: OpenHub, host: str, path: str) -> None:
    for headers in ({"Authorization": ""}, {}):
        answer = await hub.api.client.get(path, headers={"Host": host, **headers})
        assert hub.token not in answer.text
        assert hub.token not in str(answer.headers)
        if host != "127.0.0.1":
            assert answer.status_code == 403


async def test_defect_05_messages_of_one_millisecond_are_listed_in_order_of_creation(hub: OpenHub) -> None:
    topic = await hub.api.topic(await hub.api.channel())
    posted = [(await hub.api.post(topic, str(number)))["id"] for number in range(100)]
    page = await hub.api.get("/api/v1/messages", topic_id=topic, limit=100)
    assert [message["id"] for message in page["messages"]] == posted[::-1]
    assert posted == sorted(posted)
    other = await hub.api.topic(page["messages"][0]["channel_id"], "other")
    moved = await hub.api.patch(posted[50], "move_topic", to_topic_id=other, mode="later")
    assert moved["affected_count"] == 50


async def test_defect_05_order_survives_a_clock_that_goes_back_across_a_restart(make_hub: MakeHub) -> None:
    probe = await make_hub()
    folder = probe.workspace.root.parent / "back"
    async with open_hub(folder) as first:
        topic = await first.api.topic(await first.api.channel())
        before = [(await first.api.post(topic))["id"] for _ in range(3)]
    second = await make_hub(folder=folder)
    second.clock.jump(-86_400_000)
    after = [(await second.api.post(topic))["id"] for _ in range(3)]
    assert [*before, *after] == sorted([*before, *after])
    page = await second.api.get("/api/v1/messages", topic_id=topic)
    assert [message["id"] for message in page["messages"]] == [*before, *after][::-1]


async def test_defect_06_paging_forward_skips_nothing(hub: OpenHub) -> None:
    topic = await hub.api.topic(await hub.api.channel())
    posted = [(await hub.api.post(topic))["id"] for _ in range(9)]
    seen, anchor = [posted[0]], posted[0]
    while True:
        page = await hub.api.get("/api/v1/messages", topic_id=topic, after_id=anchor, limit=2)
        seen += [message["id"] for message in reversed(page["messages"])]
        if not page["has_more"]:
            break
        anchor = page["messages"][0]["id"]
    assert seen == posted


async def test_defect_07_a_deleted_message_cannot_be_brought_back_by_an_edit(hub: OpenHub) -> None:
    message = await hub.api.post(await hub.api.topic(await hub.api.channel()))
    deleted = (await hub.api.patch(message["id"], "delete", actor="ann"))["message"]
    refused = await hub.api.patch(message["id"], "edit", content_raw="resurrected", status=400)
    assert refused["code"] == "MESSAGE_DELETED"
    assert (await hub.api.get(f"/api/v1/messages/{message['id']}"))["message"] == deleted


async def test_defect_08_configured_limits_hold_and_agents_have_budgets_of_their_own(make_hub: MakeHub) -> None:
    hub = await make_hub({"rate_limits": {"enabled": True, "per_connection": 10_000, "overall": 10_000}})
    answers = await asyncio.gather(*(hub.api.client.get("/api/v1/channels") for _ in range(300)))
    assert {answer.status_code for answer in answers} == {200}


MISTAKES: list[tuple[str, str, Any]] = [
    ("GET", "/api/v1/messages?topic_id={topic}&limit=abc", None),
    ("GET", "/api/v1/channels/{channel}/topics?limit=abc", None),
    ("GET", "/api/v1/events?after=99999999", None),
    ("GET", "/api/v1/events?after=-1", None),
    ("POST", "/api/v1/channels", "null"),
    ("POST", "/api/v1/topics", "null"),
    ("POST", "/api/v1/messages", "null"),
    ("PATCH", "/api/v1/messages/{message}", "null"),
    ("PATCH", "/api/v1/topics/{topic}", "null"),
    ("POST", "/api/v1/topics/{topic}/attachments", "null"),
    ("POST", "/api/v1/topics/{topic}/attachments", '{{"kind":"x","value_json":{{}},"source_message_id":"msg_none"}}'),
    ("POST", "/api/v1/topics/{topic}/attachments", '{{"kind":"x","value_json":{{}},"dedupe_key":""}}'),
    ("PATCH", "/api/v1/messages/{message}", '{{"op":"edit","content_raw":"x","expected_version":"1"}}'),
]


@pytest.mark.parametrize(("method", "path", "body"), MISTAKES)
async def test_defect_13_a_clients_mistake_is_never_a_500(
    hub: OpenHub, method: str, path: str, body: str | None
) -> None:
    channel = await hub.api.channel()
    topic = await hub.api.topic(channel)
    names = {"channel": channel, "topic": topic, "message": (await hub.api.post(topic))["id"]}
    options = {} if body is None else {"content": body.format(), "headers": {"Content-Type": "application/json"}}
    answer = await hub.api.client.request(method, path.format(**names), **options)
    if "after=99999999" in path:
        assert (answer.status_code, answer.json()["events"]) == (200, [])
    else:
        assert answer.status_code in (400, 404)
        assert answer.json()["code"] in ("INVALID_INPUT", "NOT_FOUND")


@pytest.mark.parametrize("limit", ["99999999", "-2", "-1", "0", "1001"])
async def test_defect_14_a_limit_is_bounded_on_every_list(hub: OpenHub, limit: str) -> None:
    channel = await hub.api.channel()
    topic = await hub.api.topic(channel)
    for path in (
        f"/api/v1/messages?topic_id={topic}&limit={limit}",
        f"/api/v1/channels/{channel}/topics?limit={limit}",
        f"/api/v1/events?limit={limit}",
        f"/api/v1/search?query=x&limit={limit}",
    ):
        assert (await hub.api.get(path, status=400))["details"] == {"field": "limit"}


async def test_defect_15_content_of_64_kib_can_be_sent_and_a_description_is_text(hub: OpenHub) -> None:
    topic = await hub.api.topic(await hub.api.channel())
    assert len((await hub.api.post(topic, "x" * 65_536))["content_raw"]) == 65_536
    assert len((await hub.api.post(topic, "€" * 21_845))["content_raw"]) == 21_845
    refused = await hub.api.call("POST", "/api/v1/channels", {"name": "n", "description": 5}, status=400)
    assert refused["details"] == {"field": "description"}


async def test_defect_18_a_query_is_words_and_an_index_that_comes_later_knows_the_past(make_hub: MakeHub) -> None:
    probe = await make_hub()
    folder = probe.workspace.root.parent / "fts"
    async with open_hub(folder, {"search": {"fts": False}}) as first:
        topic = await first.api.topic(await first.api.channel())
        await first.api.post(topic, "a zebra writes c++")
    second = await make_hub(folder=folder)
    for query in ("zebra", "c++"):
        hits = await second.api.get("/api/v1/search", query=query)
        assert (len(hits["messages"]), hits["fts_used"]) == (1, True)


async def test_defect_20_a_stale_version_conflicts_also_on_a_deleted_message_and_null_is_no_version(
    hub: OpenHub,
) -> None:
    message = await hub.api.post(await hub.api.topic(await hub.api.channel()))
    await hub.api.patch(message["id"], "delete", actor="ann", expected_version=None)
    assert (await hub.api.patch(message["id"], "delete", actor="ann", expected_version=1, status=409))[
        "current_version"
    ] == 2
    again = await hub.api.patch(message["id"], "delete", actor="ann", expected_version=2)
    assert again["event_id"] is None
