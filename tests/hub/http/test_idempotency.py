"""One effect per key, for every mutation."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from parley.core.fingerprint import request_fingerprint
from parley.hub.archive import archive_before
from parley.sqlite import close_quietly, open_writer
from parley.workspace.layout import Workspace
from tests.hub.conftest import MakeHub
from tests.hub.hubs import OpenHub, open_hub, rows


class Request(NamedTuple):
    """A mutation with its first status, the member that names the result, and a change that makes it another one."""

    method: str
    path: str
    body: dict[str, Any]
    status: int
    entity: str
    change: dict[str, Any]


class World(NamedTuple):
    channel: str
    topic: str
    other: str
    message: str


REQUESTS: dict[str, Callable[[World], Request]] = {
    "create a channel": lambda w: Request("POST", "/api/v1/channels", {"name": "new"}, 201, "channel", {"name": "n"}),
    "describe a channel": lambda w: Request(
        "POST", "/api/v1/channels", {"name": "new", "description": "d"}, 201, "channel", {"description": None}
    ),
    "create a topic": lambda w: Request(
        "POST", "/api/v1/topics", {"channel_id": w.channel, "title": "new"}, 201, "topic", {"title": "newer"}
    ),
    "rename a topic": lambda w: Request(
        "PATCH", f"/api/v1/topics/{w.topic}", {"title": "renamed"}, 200, "topic", {"title": "again"}
    ),
    "post": lambda w: Request(
        "POST",
        "/api/v1/messages",
        {"topic_id": w.topic, "sender": "ann", "content_raw": "hello"},
        201,
        "message",
        {"content_raw": "bye"},
    ),
    "post as somebody": lambda w: Request(
        "POST",
        "/api/v1/messages",
        {"topic_id": w.topic, "sender": "ann", "content_raw": "hello"},
        201,
        "message",
        {"sender": "bob"},
    ),
    "post a reply": lambda w: Request(
        "POST",
        "/api/v1/messages",
        {"topic_id": w.topic, "sender": "ann", "content_raw": "hello", "reply_to": w.message},
        201,
        "message",
        {"reply_to": None},
    ),
    "post elsewhere": lambda w: Request(
        "POST",
        "/api/v1/messages",
        {"topic_id": w.topic, "sender": "ann", "content_raw": "hello"},
        201,
        "message",
        {"topic_id": w.other},
    ),
    "edit": lambda w: Request(
        "PATCH",
        f"/api/v1/messages/{w.message}",
        {"op": "edit", "content_raw": "edited", "expected_version": 1},
        200,
        "message",
        {"content_raw": "other"},
    ),
    "edit without a version": lambda w: Request(
        "PATCH",
        f"/api/v1/messages/{w.message}",
        {"op": "edit", "content_raw": "edited"},
        200,
        "message",
        {"expected_version": 1},
    ),
    "delete": lambda w: Request(
        "PATCH", f"/api/v1/messages/{w.message}", {"op": "delete", "actor": "ann"}, 200, "message", {"actor": "bob"}
    ),
    "attach": lambda w: Request(
        "POST",
        f"/api/v1/topics/{w.topic}/attachments",
        {"kind": "note", "value_json": {"a": 1, "b": 2}},
        201,
        "attachment",
        {"value_json": {"a": 1, "b": 3}},
    ),
    "attach with a key": lambda w: Request(
        "POST",
        f"/api/v1/topics/{w.topic}/attachments",
        {"kind": "note", "value_json": {}, "dedupe_key": "d"},
        201,
        "attachment",
        {"kind": "file"},
    ),
}


@pytest.fixture
async def world(hub: OpenHub) -> World:
    api = hub.api
    channel = await api.channel()
    topic, other = await api.topic(channel, "topic"), await api.topic(channel, "other")
    return World(channel, topic, other, (await api.post(topic, "first"))["id"])


async def send(hub: OpenHub, request: Request, key: str | None = "key-1", **change: Any) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return await hub.api.client.request(request.method, request.path, json={**request.body, **change}, headers=headers)


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_retry_is_200_with_the_thing_the_first_event_and_duplicate(
    hub: OpenHub, world: World, name: str
) -> None:
    request = REQUESTS[name](world)
    first = await send(hub, request)
    assert first.status_code == request.status, first.text
    assert "duplicate" not in first.json()
    hub.clock.advance(60)
    again = await send(hub, request)
    assert again.status_code == 200
    assert again.json() == {**first.json(), "duplicate": True}
    assert len(await hub.api.events(4)) == 1
    assert hub.fold_problems() == []


@pytest.mark.parametrize("name", REQUESTS)
async def test_another_request_with_the_key_is_409_and_does_nothing(hub: OpenHub, world: World, name: str) -> None:
    request = REQUESTS[name](world)
    first = await send(hub, request)
    refused = await send(hub, request, **request.change)
    assert refused.status_code == 409
    body = refused.json()
    assert (body["code"], body["error"]) == (
        "IDEMPOTENCY_KEY_REUSED",
        "This idempotency key belongs to a different request",
    )
    assert len(body["details"]["fingerprint_prefix"]) == 16
    assert len(await hub.api.events(4)) == 1
    assert (await send(hub, request)).json()["event_id"] == first.json()["event_id"]


@pytest.mark.parametrize("name", REQUESTS)
async def test_retries_at_once_have_one_effect(hub: OpenHub, world: World, name: str) -> None:
    request = REQUESTS[name](world)
    answers = await asyncio.gather(*(send(hub, request) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == sorted([request.status, 200, 200, 200, 200])
    assert len({answer.json()["event_id"] for answer in answers}) == 1
    assert len(await hub.api.events(4)) == 1


@pytest.mark.parametrize("name", REQUESTS)
async def test_keys_survive_a_restart(make_hub: MakeHub, name: str) -> None:
    probe = await make_hub()
    folder = probe.workspace.root.parent / "restarted"
    async with open_hub(folder) as first:
        channel = await first.api.channel()
        topic, other = await first.api.topic(channel, "topic"), await first.api.topic(channel, "other")
        request = REQUESTS[name](World(channel, topic, other, (await first.api.post(topic, "first"))["id"]))
        done = (await send(first, request)).json()
    second = await make_hub(folder=folder)
    again = await send(second, request)
    assert (again.status_code, again.json()) == (200, {**done, "duplicate": True})


def archive(workspace: Workspace, now_ms: int) -> str:
    """Archives all there is; the archive's name."""
    connection = open_writer(workspace.db)
    try:
        report = archive_before(connection, workspace, before_ms=now_ms + 1, now_ms=now_ms)
    finally:
        close_quietly(connection)
    assert report.path is not None
    return report.path.name


@pytest.mark.parametrize("name", ["post", "edit", "delete"])
async def test_a_retry_after_the_message_was_archived_says_that_the_first_one_succeeded(
    make_hub: MakeHub, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "archived"
    async with open_hub(folder) as first:
        topic = await first.api.topic(await first.api.channel())
        request = REQUESTS[name](World("", topic, "", (await first.api.post(topic, "first"))["id"]))
        done = (await send(first, request)).json()
        workspace, now_ms = first.workspace, first.clock.now_ms()
    archive(workspace, now_ms)
    async with open_hub(folder) as between:
        await between.api.post(topic, "a reason for a second archive")
    newest = archive(workspace, now_ms + 1_000)
    hub = await make_hub(folder=folder)
    again = await send(hub, request)
    assert (again.status_code, again.json()["code"]) == (410, "MESSAGE_ARCHIVED")
    assert again.json()["details"] == {
        "message_id": done["message"]["id"],
        "event_id": done["event_id"],
        "archive": newest,
    }
    refused = await send(hub, request, **request.change)
    assert refused.json()["code"] == "IDEMPOTENCY_KEY_REUSED", "another request is still another request"
    if request.method == "PATCH":
        assert (await send(hub, request, key="key-2")).json()["code"] == "NOT_FOUND", "a first request is no retry"


async def test_a_retried_move_needs_no_message_and_is_answered_after_an_archive(
    make_hub: MakeHub, tmp_path: Path
) -> None:
    folder = tmp_path / "archived"
    async with open_hub(folder) as first:
        channel = await first.api.channel()
        topic, other = await first.api.topic(channel, "topic"), await first.api.topic(channel, "other")
        message = await first.api.post(topic)
        body = {"op": "move_topic", "to_topic_id": other, "mode": "one"}
        request = Request("PATCH", f"/api/v1/messages/{message['id']}", body, 200, "message", {})
        done = (await send(first, request)).json()
        workspace, now_ms = first.workspace, first.clock.now_ms()
    archive(workspace, now_ms)
    again = await send(await make_hub(folder=folder), request)
    assert (again.status_code, again.json()) == (200, {**done, "duplicate": True})


async def test_the_fingerprint_is_the_one_of_the_contract_and_holds_the_sender(hub: OpenHub, world: World) -> None:
    await send(hub, REQUESTS["post"](world))
    ((fingerprint,),) = rows(hub.workspace, "SELECT fingerprint FROM idempotency_keys")
    assert fingerprint == request_fingerprint(
        kind="message.create", ref=world.topic, meta={"sender": "ann"}, body=b"hello"
    )
    refused = await send(hub, REQUESTS["post"](world), content_raw="x")
    assert refused.json()["details"] == {"fingerprint_prefix": fingerprint[:8].hex()}


async def test_one_key_for_two_kinds_of_request_is_409(hub: OpenHub, world: World) -> None:
    await send(hub, REQUESTS["post"](world))
    assert (await send(hub, REQUESTS["delete"](world))).status_code == 409


async def test_a_retry_of_a_post_gives_the_message_as_it_is_now(hub: OpenHub, world: World) -> None:
    request = REQUESTS["post"](world)
    first = (await send(hub, request)).json()
    await hub.api.patch(first["message"]["id"], "edit", content_raw="edited since")
    again = (await send(hub, request)).json()
    assert (again["event_id"], again["message"]["content_raw"]) == (first["event_id"], "edited since")


async def test_a_refused_request_uses_up_no_key(hub: OpenHub, world: World) -> None:
    request = REQUESTS["edit"](world)
    assert (await send(hub, request, expected_version=9)).status_code == 409
    assert (await send(hub, request)).status_code == 200
    assert (await send(hub, REQUESTS["create a channel"](world), key="k2", name="")).status_code == 400
    assert (await send(hub, REQUESTS["create a channel"](world), key="k2")).status_code == 201


async def test_a_second_delete_with_a_key_is_remembered_with_its_null_event(hub: OpenHub, world: World) -> None:
    await hub.api.patch(world.message, "delete", actor="ann")
    first = await send(hub, REQUESTS["delete"](world))
    assert (first.status_code, first.json()["event_id"]) == (200, None)
    again = await send(hub, REQUESTS["delete"](world))
    assert again.json() == {**first.json(), "duplicate": True}


async def test_an_attachment_that_was_there_is_remembered_with_its_null_event(hub: OpenHub, world: World) -> None:
    request = REQUESTS["attach"](world)
    assert (await send(hub, request, key=None)).status_code == 201
    first = await send(hub, request)
    assert (first.status_code, first.json()["event_id"]) == (200, None)
    assert (await send(hub, request)).json() == {**first.json(), "duplicate": True}


class TestClientMessageId:
    """``client_message_id`` in the body is the key of a post."""

    async def test_it_is_a_key_of_its_own_and_the_same_as_the_header(self, hub: OpenHub, world: World) -> None:
        request = REQUESTS["post"](world)
        first = await send(hub, request, key=None, client_message_id="c-1")
        assert first.status_code == 201
        assert (await send(hub, request, key=None, client_message_id="c-1")).json()["duplicate"] is True
        assert (await send(hub, request, key="c-1")).json()["event_id"] == first.json()["event_id"]
        assert (await send(hub, request, key="c-1", client_message_id="c-1")).json()["duplicate"] is True
        assert (await send(hub, request, key=None, client_message_id="c-1", content_raw="x")).status_code == 409

    async def test_header_and_body_that_differ_are_400(self, hub: OpenHub, world: World) -> None:
        refused = await send(hub, REQUESTS["post"](world), key="a", client_message_id="b")
        assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_INPUT")
        assert refused.json()["details"] == {"field": "client_message_id"}
        assert len(await hub.api.events(4)) == 0

    async def test_null_is_no_key(self, hub: OpenHub, world: World) -> None:
        for _ in range(2):
            assert (await send(hub, REQUESTS["post"](world), key=None, client_message_id=None)).status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 201, "a b", "a\tb", "é"])
async def test_a_key_is_printable_ascii_of_at_most_200_characters(hub: OpenHub, world: World, key: str) -> None:
    request = REQUESTS["post"](world)
    headers = [(b"Idempotency-Key", key.encode("latin-1"))]
    refused = await hub.api.client.request(request.method, request.path, json=request.body, headers=headers)
    assert (refused.status_code, refused.json()["details"]) == (400, {"field": "Idempotency-Key"})


class TestRetention:
    """Keys are kept for ``idempotency.retention_days``."""

    @pytest.mark.parametrize("days", [1, 7])
    async def test_a_key_is_forgotten_after_the_retention_and_not_before(self, make_hub: MakeHub, days: int) -> None:
        hub = await make_hub({"idempotency": {"retention_days": days}})
        topic = await hub.api.topic(await hub.api.channel())
        request = REQUESTS["post"](World("", topic, "", ""))
        first = (await send(hub, request)).json()
        hub.clock.advance(days * 86_400 - 1)
        await hub.hub.monitor.each_minute()
        assert (await send(hub, request)).json()["event_id"] == first["event_id"]
        hub.clock.advance(2)
        await hub.hub.monitor.each_minute()
        assert rows(hub.workspace, "SELECT count(*) FROM idempotency_keys") == [(0,)]
        later = await send(hub, request)
        assert later.status_code == 201
        assert later.json()["message"]["id"] != first["message"]["id"]

    async def test_more_keys_than_fit_one_write_are_forgotten_too(self, make_hub: MakeHub) -> None:
        hub = await make_hub()
        await hub.hub.store.write(
            lambda tx: (
                tx.db.executemany(
                    "INSERT INTO idempotency_keys VALUES (?, x'00', 'o', 'e', NULL, NULL, ?)",
                    ((f"k{number}", tx.ts) for number in range(1234)),
                )
                and None
            )
        )
        hub.clock.advance(8 * 86_400)
        await hub.hub.monitor.each_minute()
        assert rows(hub.workspace, "SELECT count(*) FROM idempotency_keys") == [(0,)]
