"""``GET /api/v1/search``, with the index and without."""

from typing import Any

import pytest

from tests.hub.conftest import MakeHub
from tests.hub.hubs import OpenHub, open_hub

TEXTS = {
    "c++": "the c++ build fails",
    "lock": "hub-lock is held; see hub_lock",
    "quote": 'she said "ship it" twice',
    "percent": "100% of the tests, 50_000 runs",
    "deploy": "deploy to staging",
    "deployed": "deployed to production",
    "umlaut": "Größe zählt",
}
MODES = [pytest.param(True, id="index"), pytest.param(False, id="compare")]


@pytest.fixture(params=MODES)
async def hub(request: pytest.FixtureRequest, make_hub: MakeHub) -> OpenHub:
    return await make_hub({"search": {"fts": request.param}})


@pytest.fixture
async def posted(hub: OpenHub) -> dict[str, str]:
    topic = await hub.api.topic(await hub.api.channel())
    return {name: (await hub.api.post(topic, text))["id"] for name, text in TEXTS.items()}


async def hits(hub: OpenHub, query: str, **params: Any) -> list[str]:
    answer = await hub.api.get("/api/v1/search", query=query, **params)
    return [message["id"] for message in answer["messages"]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("c++", {"c++"}),
        ("c++ build", {"c++"}),
        ("hub-lock", {"lock"}),
        ('"ship it"', {"quote"}),
        ("staging", {"deploy"}),
        ("STAGING", {"deploy"}),
        ("zebra", set()),
        ("größe", {"umlaut"}),
    ],
)
async def test_defect_18_words_are_found_as_a_person_types_them(
    hub: OpenHub, posted: dict[str, str], query: str, found: set[str]
) -> None:
    assert set(await hits(hub, query)) == {posted[name] for name in found}


@pytest.mark.parametrize(
    "query", ['"', "(", "NEAR(", "a AND", "*", "-", "' OR 1=1 --", "x:y:z", "^", '""""', "{a}", "NOT", "\x00x"]
)
async def test_no_query_is_a_syntax_error(hub: OpenHub, posted: dict[str, str], query: str) -> None:
    await hits(hub, query)


async def test_valid_syntax_of_the_index_is_used(make_hub: MakeHub) -> None:
    hub = await make_hub()
    topic = await hub.api.topic(await hub.api.channel())
    posted = {name: (await hub.api.post(topic, text))["id"] for name, text in TEXTS.items()}
    assert set(await hits(hub, "deploy* NOT staging")) == {posted["deployed"]}


async def test_percent_and_underscore_mean_themselves(hub: OpenHub, posted: dict[str, str]) -> None:
    assert set(await hits(hub, "100%")) == {posted["percent"]}
    assert await hits(hub, "5__000") == []


async def test_the_answer_says_whether_the_index_was_used(hub: OpenHub, posted: dict[str, str]) -> None:
    answer = await hub.api.get("/api/v1/search", query="staging")
    assert answer["fts_used"] is hub.hub.settings.search.fts
    assert (await hub.api.get("/api/v1/search", q="staging")) == answer


async def test_a_deleted_message_is_not_found_and_an_edited_one_by_its_new_words(
    hub: OpenHub, posted: dict[str, str]
) -> None:
    await hub.api.patch(posted["deploy"], "delete", actor="ann")
    await hub.api.patch(posted["deployed"], "edit", content_raw="rolled back")
    assert await hits(hub, "staging") == []
    assert await hits(hub, "deleted") == []
    assert await hits(hub, "production") == []
    assert await hits(hub, "rolled") == [posted["deployed"]]


async def test_a_moved_message_is_found_where_it_is(hub: OpenHub, posted: dict[str, str]) -> None:
    message = (await hub.api.get(f"/api/v1/messages/{posted['deploy']}"))["message"]
    other = await hub.api.topic(message["channel_id"], "other")
    await hub.api.patch(message["id"], "move_topic", to_topic_id=other, mode="one")
    assert await hits(hub, "staging", topic_id=other) == [message["id"]]
    assert await hits(hub, "staging", topic_id=message["topic_id"]) == []


async def test_a_search_is_narrowed_by_channel_id_or_name_and_by_topic(hub: OpenHub, posted: dict[str, str]) -> None:
    channel = await hub.api.channel("other")
    topic = await hub.api.topic(channel)
    there = (await hub.api.post(topic, "staging too"))["id"]
    assert set(await hits(hub, "staging")) == {posted["deploy"], there}
    for params in ({"channel": "other"}, {"channel": channel}, {"channel_id": channel}, {"topic_id": topic}):
        assert await hits(hub, "staging", **params) == [there]
    assert (await hub.api.get("/api/v1/search", query="x", channel="nowhere", status=404))["code"] == "NOT_FOUND"


async def test_hits_are_paged(hub: OpenHub) -> None:
    topic = await hub.api.topic(await hub.api.channel())
    posted = {(await hub.api.post(topic, f"needle {number}"))["id"] for number in range(7)}
    seen: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        answer = await hub.api.get("/api/v1/search", query="needle", limit=3, **cursor)
        seen += [message["id"] for message in answer["messages"]]
        assert answer["has_more"] == (answer["cursor"] is not None)
        if answer["cursor"] is None:
            break
        cursor = {"cursor": answer["cursor"]}
    assert len(seen) == 7
    assert set(seen) == posted


@pytest.mark.parametrize("query", ["", "   ", "x" * 1001])
async def test_a_query_has_1_to_1000_characters(hub: OpenHub, query: str) -> None:
    body = await hub.api.get("/api/v1/search", query=query, status=400)
    assert (body["code"], body["details"]) == ("INVALID_INPUT", {"field": "query"})


async def test_defect_18_an_index_that_is_switched_on_later_finds_what_is_old(make_hub: MakeHub) -> None:
    probe = await make_hub()
    folder = probe.workspace.root.parent / "later"
    async with open_hub(folder, {"search": {"fts": False}}) as first:
        topic = await first.api.topic(await first.api.channel())
        zebra = (await first.api.post(topic, "a zebra"))["id"]
    second = await make_hub({"search": {"fts": True}}, folder=folder)
    assert await hits(second, "zebra") == [zebra]
    assert (await second.api.get("/api/v1/search", query="zebra"))["fts_used"] is True
