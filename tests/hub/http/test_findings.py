"""``POST /api/v1/messages/{message_id}/findings``: what a plugin found where no hub ran it."""

import asyncio
from typing import Any

import pytest

from parley.core import limits
from tests.hub.conftest import MakeHub
from tests.hub.hubs import Api, OpenHub, rows

CONTENT = "🎉 see T-42"
TICKET = {"kind": "ticket", "span": {"start": 6, "end": 10}, "data": {"number": 42}}
NOTE = {"kind": "note", "value_json": {"text": "see T-42"}}


@pytest.fixture
async def message(api: Api) -> dict[str, Any]:
    return await api.post(await api.topic(await api.channel()), CONTENT)


async def store(api: Api, message_id: str, *, status: int = 200, key: str | None = None, **fields: Any) -> Any:
    body = {"plugin_name": "tickets", "version": 1, **fields}
    headers = None if key is None else {"Idempotency-Key": key}
    return await api.call("POST", f"/api/v1/messages/{message_id}/findings", body, status=status, headers=headers)


async def spans(api: Api, message_id: str) -> list[tuple[str, int, int]]:
    found = (await api.get("/api/v1/enrichments", message_id=message_id))["enrichments"]
    return [(each["plugin_name"], each["span"]["start"], each["span"]["end"]) for each in found]


async def attached(api: Api, message: dict[str, Any]) -> list[dict[str, Any]]:
    return (await api.get(f"/api/v1/topics/{message['topic_id']}/attachments"))["attachments"]


async def test_enrichments_are_stored_with_the_event_that_a_job_would_write(
    hub: OpenHub, api: Api, message: dict[str, Any]
) -> None:
    answer = await store(api, message["id"], enrichments=[TICKET])
    event = (await api.events())[-1]
    assert answer == {
        "message_id": message["id"],
        "plugin_name": "tickets",
        "version": 1,
        "event_id": event["event_id"],
    }
    assert (event["name"], event["entity"]) == ("message.enriched", {"type": "message", "id": message["id"]})
    ids = event["data_json"].pop("enrichment_ids")
    assert [each.partition("_")[0] for each in ids] == ["enr"]
    assert event["data_json"] == {
        "message_id": message["id"],
        "plugin_name": "tickets",
        "enrichments": [TICKET],
        "version": 1,
    }
    assert await spans(api, message["id"]) == [("tickets", 6, 10)]
    assert hub.fold_problems() == []


async def test_attachments_go_to_the_topic_where_the_message_is_now(
    hub: OpenHub, api: Api, message: dict[str, Any]
) -> None:
    target = await api.topic(message["channel_id"], "elsewhere")
    await api.patch(message["id"], "move_topic", to_topic_id=target, mode="one")
    answer = await store(api, message["id"], version=2, attachments=[NOTE, NOTE | {"key": "k", "dedupe_key": "d"}])
    there = await attached(api, {"topic_id": target})
    assert [(each["key"], each["source_message_id"]) for each in there] == [("k", message["id"]), (None, message["id"])]
    assert (await api.events())[-1]["event_id"] == answer["event_id"]
    assert await attached(api, message) == []
    assert hub.fold_problems() == []


async def test_both_can_be_given_and_what_is_not_given_is_left_as_it_is(api: Api, message: dict[str, Any]) -> None:
    await store(api, message["id"], enrichments=[TICKET], attachments=[NOTE])
    await store(api, message["id"], attachments=[])
    await store(api, message["id"], enrichments=[TICKET], attachments=None)
    assert (len(await spans(api, message["id"])), len(await attached(api, message))) == (1, 1)


async def test_a_plugin_replaces_its_own_enrichments_and_nobody_elses(
    hub: OpenHub, api: Api, message: dict[str, Any]
) -> None:
    await store(api, message["id"], enrichments=[TICKET])
    await store(api, message["id"], plugin_name="others", enrichments=[TICKET])
    await store(api, message["id"], enrichments=[TICKET | {"span": {"start": 0, "end": 1}}])
    assert await spans(api, message["id"]) == [("tickets", 0, 1), ("others", 6, 10)]
    await store(api, message["id"], enrichments=[])
    assert await spans(api, message["id"]) == [("others", 6, 10)]
    assert hub.fold_problems() == []


async def test_repeating_it_without_a_key_changes_nothing_and_is_no_event(api: Api, message: dict[str, Any]) -> None:
    await store(api, message["id"], enrichments=[TICKET], attachments=[NOTE])
    before = await api.events()
    again = await store(api, message["id"], enrichments=[TICKET], attachments=[NOTE])
    assert again["event_id"] is None
    assert await api.events() == before
    assert (await store(api, message["id"], plugin_name="new", enrichments=[]))["event_id"] is None


class TestStaleness:
    """The version is looked at in the transaction that stores."""

    @pytest.mark.parametrize("change", ["edit", "move"])
    async def test_a_message_that_changed_since_is_409_and_nothing_is_stored(
        self, hub: OpenHub, api: Api, message: dict[str, Any], change: str
    ) -> None:
        if change == "edit":
            await api.patch(message["id"], "edit", content_raw="another text of some length")
        else:
            target = await api.topic(message["channel_id"], "elsewhere")
            await api.patch(message["id"], "move_topic", to_topic_id=target, mode="one")
        before = await api.events()
        refused = await store(api, message["id"], enrichments=[TICKET], attachments=[NOTE], status=409)
        assert (refused["code"], refused["current_version"]) == ("VERSION_CONFLICT", 2)
        assert refused["details"]["expected"] == 1
        assert await api.events() == before
        assert hub.fold_problems() == []

    async def test_a_version_that_is_not_there_yet_is_409_too(self, api: Api, message: dict[str, Any]) -> None:
        assert (await store(api, message["id"], version=2, enrichments=[], status=409))["current_version"] == 1

    async def test_a_deleted_message_is_400_whatever_the_version(self, api: Api, message: dict[str, Any]) -> None:
        await api.patch(message["id"], "delete", actor="ann")
        for version in (1, 2):
            refused = await store(api, message["id"], version=version, enrichments=[TICKET], status=400)
            assert refused["code"] == "MESSAGE_DELETED"

    async def test_an_unknown_message_is_404(self, api: Api) -> None:
        assert (await store(api, "msg_none", enrichments=[], status=404))["code"] == "NOT_FOUND"

    async def test_of_an_edit_and_findings_at_once_no_stale_finding_is_left_to_see(
        self, hub: OpenHub, api: Api, message: dict[str, Any]
    ) -> None:
        edit = {"op": "edit", "content_raw": "T"}
        path = f"/api/v1/messages/{message['id']}"
        body = {"plugin_name": "tickets", "version": 1, "enrichments": [TICKET]}
        stored, edited = await asyncio.gather(
            api.client.post(f"{path}/findings", json=body), api.client.patch(path, json=edit)
        )
        assert edited.status_code == 200
        assert stored.status_code in (200, 409)
        assert await spans(api, message["id"]) == []
        assert hub.fold_problems() == []


class TestKeys:
    async def test_a_retry_with_its_key_is_a_duplicate_even_after_the_message_changed(
        self, api: Api, message: dict[str, Any]
    ) -> None:
        first = await store(api, message["id"], enrichments=[TICKET], key="k")
        await api.patch(message["id"], "edit", content_raw="another text")
        before = await api.events()
        assert await store(api, message["id"], enrichments=[TICKET], key="k") == first | {"duplicate": True}
        assert await api.events() == before

    @pytest.mark.parametrize(
        "other", [{"plugin_name": "others"}, {"version": 2}, {"enrichments": []}, {"attachments": []}]
    )
    async def test_the_key_with_other_findings_is_409(
        self, api: Api, message: dict[str, Any], other: dict[str, Any]
    ) -> None:
        await store(api, message["id"], enrichments=[TICKET], key="k")
        fields = {"enrichments": [TICKET], **other}
        refused = await store(api, message["id"], key="k", status=409, **fields)
        assert refused["code"] == "IDEMPOTENCY_KEY_REUSED"

    async def test_what_is_refused_leaves_no_key_behind(self, api: Api, message: dict[str, Any]) -> None:
        await store(api, message["id"], version=2, enrichments=[TICKET], key="k", status=409)
        await store(api, message["id"], enrichments=[TICKET], key="k")


class TestRules:
    """What a plugin may not return, nobody may store in its name."""

    @pytest.mark.parametrize(
        ("fields", "told"),
        [
            ({"enrichments": [TICKET, TICKET | {"span": {"start": 6, "end": 11}}]}, "enrichments, result 2: the span"),
            ({"enrichments": [TICKET | {"kind": "url", "data": {"url": "javascript:x"}}]}, "enrichments, result 1"),
            ({"enrichments": [TICKET | {"data": {"n": 2**60}}]}, "enrichments, result 1: data: not representable"),
            ({"attachments": [NOTE | {"value_json": {"text": "x" * 17_000}}]}, "attachments, result 1: value_json is"),
            (
                {"enrichments": [TICKET | {"data": {"n": number, "t": "x" * 16_000}} for number in range(17)]},
                f"enrichments, result 17: more than {limits.FINDINGS_BYTES_MAX} bytes of metadata in all",
            ),
        ],
    )
    async def test_findings_that_break_a_rule_are_400_and_nothing_of_them_is_stored(
        self, api: Api, message: dict[str, Any], fields: dict[str, Any], told: str
    ) -> None:
        before = await api.events()
        refused = await store(api, message["id"], status=400, **fields)
        assert refused["code"] == "INVALID_INPUT"
        assert refused["error"].startswith(told)
        assert refused["details"] == {"field": next(iter(fields))}
        assert await api.events() == before

    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"enrichments": None, "attachments": None},
            {"enrichments": [TICKET] * (limits.ENRICHMENTS_PER_MESSAGE_MAX + 1)},
            {"attachments": [NOTE] * (limits.EXTRACTED_PER_MESSAGE_MAX + 1)},
            {"enrichments": [{"kind": "ticket"}]},
            {"enrichments": [TICKET | {"kind": " "}]},
            {"attachments": [NOTE | {"key": "a\nb"}]},
            {"plugin_name": "", "enrichments": []},
            {"plugin_name": "x" * (limits.PLUGIN_NAME_CHARS_MAX + 1), "enrichments": []},
            {"version": 0, "enrichments": []},
            {"version": None, "enrichments": []},
        ],
    )
    async def test_a_body_of_another_shape_is_400(
        self, api: Api, message: dict[str, Any], fields: dict[str, Any]
    ) -> None:
        assert (await store(api, message["id"], status=400, **fields))["code"] == "INVALID_INPUT"

    async def test_as_many_as_a_plugin_may_find_are_stored(self, hub: OpenHub, message: dict[str, Any]) -> None:
        many = [TICKET | {"data": {"n": number}} for number in range(limits.ENRICHMENTS_PER_MESSAGE_MAX)]
        await store(hub.api, message["id"], enrichments=many)
        assert len(rows(hub.workspace, "SELECT id FROM enrichments")) == len(many)

    async def test_the_setting_for_the_size_of_metadata_counts(self, make_hub: MakeHub) -> None:
        api = (await make_hub({"limits": {"attachment_bytes_max": 10}})).api
        message = await api.post(await api.topic(await api.channel()), CONTENT)
        await store(api, message["id"], enrichments=[TICKET], status=400)

    async def test_without_the_token_nothing_is_stored(self, api: Api, message: dict[str, Any]) -> None:
        path = f"/api/v1/messages/{message['id']}/findings"
        body = {"plugin_name": "tickets", "version": 1, "enrichments": []}
        assert (await api.client.post(path, json=body, headers={"Authorization": ""})).status_code == 401
