"""``GET /api/v1/enrichments``: what plugins found in messages as they are now."""

import asyncio
from typing import Any

import pytest

from parley.core.limits import ENRICHED_MESSAGES_MAX
from parley.hub.rules.jobs import Job, store_enrichments
from parley.wire.entities import Span
from parley.wire.events import Enrichment
from parley.workspace import queries
from tests.hub.hubs import Api, OpenHub


async def enrich(hub: OpenHub, message_id: str, *spans: tuple[int, int], plugin: str = "links") -> str:
    """What a run of the plugin on the message as it is now would store."""
    message = hub.hub.store.read(lambda db: queries.get_message(db, message_id))
    assert message is not None
    found = [Enrichment("link", Span(*span), {"url": f"https://example.org/{span[0]}"}) for span in spans]
    return await hub.hub.store.write(lambda tx: store_enrichments(tx, Job(plugin, message), found))


async def found(api: Api, *message_ids: str) -> list[dict[str, Any]]:
    return (await api.call("GET", "/api/v1/enrichments", params={"message_id": list(message_ids)}))["enrichments"]


@pytest.fixture
async def messages(api: Api) -> list[str]:
    topic = await api.topic(await api.channel())
    return [(await api.post(topic, "hello there"))["id"] for _ in range(3)]


async def test_an_enrichment_has_all_its_members(hub: OpenHub, api: Api, messages: list[str]) -> None:
    await enrich(hub, messages[0], (0, 5))
    (each,) = await found(api, messages[0])
    assert each.pop("id").startswith("enr_")
    assert each.pop("created_at").endswith("Z")
    assert each == {
        "message_id": messages[0],
        "plugin_name": "links",
        "kind": "link",
        "span": {"start": 0, "end": 5},
        "data": {"url": "https://example.org/0"},
    }


async def test_they_come_in_the_order_of_the_messages_asked_for_and_of_the_text(
    hub: OpenHub, api: Api, messages: list[str]
) -> None:
    await enrich(hub, messages[0], (6, 11), (0, 5))
    await enrich(hub, messages[0], (2, 4), plugin="names")
    await enrich(hub, messages[1], (1, 2))
    asked = [messages[1], messages[2], messages[0]]
    assert [(each["message_id"], each["span"]["start"]) for each in await found(api, *asked)] == [
        (messages[1], 1),
        (messages[0], 0),
        (messages[0], 2),
        (messages[0], 6),
    ]


@pytest.mark.parametrize("change", ["edit", "delete"])
async def test_an_edit_or_a_delete_hides_what_was_found_before_it(
    hub: OpenHub, api: Api, messages: list[str], change: str
) -> None:
    await enrich(hub, messages[0], (0, 5))
    body = {"op": "edit", "content_raw": "new"} if change == "edit" else {"op": "delete", "actor": "ann"}
    await api.call("PATCH", f"/api/v1/messages/{messages[0]}", body)
    assert await found(api, messages[0]) == []
    assert hub.fold_problems() == []


async def test_a_move_hides_nothing(hub: OpenHub, api: Api, messages: list[str]) -> None:
    await enrich(hub, messages[0], (0, 5))
    message = (await api.get(f"/api/v1/messages/{messages[0]}"))["message"]
    target = await api.topic(message["channel_id"], "elsewhere")
    await api.patch(messages[0], "move_topic", to_topic_id=target, mode="one")
    assert len(await found(api, messages[0])) == 1


async def test_nothing_asked_and_unknown_messages_give_an_empty_list(api: Api) -> None:
    assert await found(api) == await found(api, "msg_unknown") == []


async def test_as_many_messages_as_allowed_can_be_asked_for_and_no_more(api: Api) -> None:
    ids = [f"msg_{number}" for number in range(ENRICHED_MESSAGES_MAX + 1)]
    assert await found(api, *ids[:-1]) == []
    answer = await api.call("GET", "/api/v1/enrichments", params={"message_id": ids}, status=400)
    assert (answer["code"], answer["details"]["field"]) == ("INVALID_INPUT", "message_id")


async def test_something_that_is_no_id_is_refused(api: Api) -> None:
    answer = await api.get("/api/v1/enrichments", message_id="not an id!", status=400)
    assert answer["code"] == "INVALID_INPUT"


async def test_without_the_token_there_is_nothing_to_see(hub: OpenHub, api: Api) -> None:
    answers = await asyncio.gather(
        *(
            api.client.request(method, path, headers={"Authorization": ""})
            for method, path in (
                ("GET", "/api/v1/enrichments"),
                ("GET", "/api/v1/plugins"),
                ("POST", "/api/v1/plugins/re_enrich"),
                ("GET", "/api/v1/messages/msg_1/history"),
                ("GET", "/api/v1/messages/msg_1/move_preview"),
            )
        )
    )
    assert [answer.status_code for answer in answers] == [401] * 5
