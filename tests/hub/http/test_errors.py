"""Every error that crosses the wire, each produced by a real request; none may be missing here."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from parley.core.errors import (
    ERRORS,
    InvalidInput,
    ServiceUnavailable,
    Unavailable,
    UnsupportedMediaType,
)
from parley.hub.archive import archive_before
from parley.sqlite import open_writer
from parley.workspace.layout import Workspace
from tests.hub.conftest import MakeHub
from tests.hub.hubs import Api, OpenHub, open_hub, workspace_in
from tests.hub.test_spool import Spooled

CHANNELS = "/api/v1/channels"


async def _message(api: Api) -> dict[str, Any]:
    return await api.post(await api.topic(await api.channel()))


async def _invalid_input(make: MakeHub) -> httpx.Response:
    return await (await make()).api.client.post(CHANNELS, json={"name": ""})


async def _payload_too_large(make: MakeHub) -> httpx.Response:
    hub = await make({"limits": {"body_bytes_max": 1024}})
    return await hub.api.client.post(CHANNELS, json={"name": "x" * 2000})


async def _not_found(make: MakeHub) -> httpx.Response:
    return await (await make()).api.client.get("/api/v1/topics/none")


async def _method_not_allowed(make: MakeHub) -> httpx.Response:
    return await (await make()).api.client.delete(CHANNELS)


async def _message_deleted(make: MakeHub) -> httpx.Response:
    hub = await make()
    message = await _message(hub.api)
    await hub.api.patch(message["id"], "delete", actor="ann")
    return await hub.api.client.patch(f"/api/v1/messages/{message['id']}", json={"op": "edit", "content_raw": "x"})


async def _cross_channel_move(make: MakeHub) -> httpx.Response:
    hub = await make()
    message = await _message(hub.api)
    elsewhere = await hub.api.topic(await hub.api.channel("elsewhere"))
    body = {"op": "move_topic", "to_topic_id": elsewhere, "mode": "one"}
    return await hub.api.client.patch(f"/api/v1/messages/{message['id']}", json=body)


async def _version_conflict(make: MakeHub) -> httpx.Response:
    hub = await make()
    message = await _message(hub.api)
    body = {"op": "edit", "content_raw": "x", "expected_version": 7}
    return await hub.api.client.patch(f"/api/v1/messages/{message['id']}", json=body)


async def _idempotency_key_reused(make: MakeHub) -> httpx.Response:
    hub = await make()
    headers = {"Idempotency-Key": "k"}
    await hub.api.client.post(CHANNELS, json={"name": "a"}, headers=headers)
    return await hub.api.client.post(CHANNELS, json={"name": "b"}, headers=headers)


async def _missing_auth(make: MakeHub) -> httpx.Response:
    return await (await make()).api.client.get(CHANNELS, headers={"Authorization": ""})


async def _invalid_auth(make: MakeHub) -> httpx.Response:
    return await (await make()).api.client.get(CHANNELS, headers={"Authorization": "Bearer wrong"})


async def _login_code_invalid(make: MakeHub) -> httpx.Response:
    hub = await make()
    return await hub.api.client.post("/ui/login", json={"code": "guessed"}, headers={"Origin": hub.url})


async def _host_forbidden(make: MakeHub) -> httpx.Response:
    return await (await make()).api.client.get("/health", headers={"Host": "evil.example"})


async def _origin_forbidden(make: MakeHub) -> httpx.Response:
    return await (await make()).api.client.get("/health", headers={"Origin": "http://evil.example"})


async def _archived(make: MakeHub) -> tuple[OpenHub, dict[str, Any]]:
    """A hub whose one message was archived, and what was sent to post it."""
    folder = (await make()).workspace.root.parent / "archived"
    async with open_hub(folder) as first:
        topic = await first.api.topic(await first.api.channel())
        post = {"topic_id": topic, "sender": "ann", "content_raw": "hello", "client_message_id": "k"}
        await first.api.call("POST", "/api/v1/messages", post, status=201)
        now_ms = first.clock.now_ms()
    workspace = workspace_in(folder)
    connection = open_writer(workspace.db)
    archive_before(connection, workspace, before_ms=now_ms + 1, now_ms=now_ms + 2)
    connection.close()
    return await make(folder=folder), post


async def _cursor_expired(make: MakeHub) -> httpx.Response:
    hub, _ = await _archived(make)
    return await hub.api.client.get("/api/v1/events?after=1")


async def _message_archived(make: MakeHub) -> httpx.Response:
    hub, post = await _archived(make)
    return await hub.api.client.post("/api/v1/messages", json=post)


async def _rate_limited(make: MakeHub) -> httpx.Response:
    hub = await make({"rate_limits": {"enabled": True, "per_connection": 1}})
    await hub.api.client.get(CHANNELS)
    return await hub.api.client.get(CHANNELS)


async def _service_unavailable(make: MakeHub) -> httpx.Response:
    hub = await make({"trouble": {"disk_free_bytes_min": 2**62}})
    assert (await hub.api.client.get(CHANNELS)).status_code == 200
    return await hub.api.client.post(CHANNELS, json={"name": "a"})


async def _shutting_down(make: MakeHub) -> httpx.Response:
    hub = await make()
    hub.hub.in_flight.close()
    assert (await hub.api.client.get("/health")).status_code == 200
    return await hub.api.client.get(CHANNELS)


async def _files_lost(make: MakeHub) -> httpx.Response:
    """The database is removed under the running hub; the first write after it finds out, before it is answered."""
    hub = await make()
    hub.workspace.db.unlink()
    return await hub.api.client.post(CHANNELS, json={"name": "a"})


async def _database_corrupt(make: MakeHub) -> httpx.Response:
    """Pages of the table are overwritten under the running hub; a read finds it, and from then on nothing is served."""
    hub = await make()
    topic = await hub.api.topic(await hub.api.channel())
    await hub.api.post(topic)
    checkpoint(hub.workspace)
    size = hub.workspace.db.stat().st_size
    with hub.workspace.db.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    assert (await hub.api.client.get(f"/api/v1/topics/{topic}")).status_code == 503
    assert hub.stops == ["corrupt"]
    assert hub.workspace.suspect.exists()
    return await hub.api.client.post(CHANNELS, json={"name": "a"})


async def _agent_name_taken(make: MakeHub) -> httpx.Response:
    hub = await make()
    body = {"name": "ann", "session": "one"}
    await hub.api.call("POST", "/api/v1/agents", body, status=201)
    return await hub.api.client.post("/api/v1/agents", json={**body, "session": "two"})


async def _claimed(make: MakeHub) -> tuple[OpenHub, str]:
    hub = await make()
    body = {"title": "a", "created_by": "ann", "channel_id": await hub.api.channel()}
    task_id = (await hub.api.call("POST", "/api/v1/tasks", body, status=201))["task"]["id"]
    path = f"/api/v1/tasks/{task_id}"
    await hub.api.call("PATCH", path, {"op": "claim", "holder": "ann"})
    return hub, path


async def _task_held(make: MakeHub) -> httpx.Response:
    hub, path = await _claimed(make)
    return await hub.api.client.patch(path, json={"op": "claim", "holder": "bob"})


async def _task_not_held(make: MakeHub) -> httpx.Response:
    hub, path = await _claimed(make)
    return await hub.api.client.patch(path, json={"op": "renew", "holder": "bob", "generation": 1})


async def _task_closed(make: MakeHub) -> httpx.Response:
    hub, path = await _claimed(make)
    await hub.api.call("PATCH", path, {"op": "cancel", "actor": "ann"})
    return await hub.api.client.patch(path, json={"op": "complete", "holder": "ann", "generation": 1})


async def _lease_conflict(make: MakeHub) -> httpx.Response:
    hub = await make()
    await hub.api.call("POST", "/api/v1/leases", {"holder": "ann", "patterns": ["src/**"]}, status=201)
    return await hub.api.client.post("/api/v1/leases", json={"holder": "bob", "patterns": ["src/a.py"]})


async def _lease_lost(make: MakeHub) -> httpx.Response:
    hub = await make()
    body = {"holder": "ann", "patterns": ["src/**"]}
    lease = (await hub.api.call("POST", "/api/v1/leases", body, status=201))["lease"]
    renewal = {"op": "renew", "holder": "bob", "generation": lease["generation"]}
    return await hub.api.client.patch(f"/api/v1/leases/{lease['id']}", json=renewal)


async def _spool_refused(make: MakeHub) -> httpx.Response:
    """It is answered in a file, in the same shape."""
    spooled = Spooled(await make())
    status, body = await spooled.ask(spooled.request(made_ms=0))
    return httpx.Response(status, json=body)


def checkpoint(workspace: Workspace) -> None:
    connection = open_writer(workspace.db)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


async def _internal_error(make: MakeHub) -> httpx.Response:
    """A fault of ours: a trigger that no rule expects."""
    hub = await make()
    await hub.hub.store.write(
        lambda tx: (
            tx.db.execute(
                "CREATE TRIGGER fault BEFORE INSERT ON channels BEGIN SELECT RAISE(ABORT, 'the secret fault'); END"
            )
            and None
        )
    )
    return await hub.api.client.post(CHANNELS, json={"name": "a"})


CASES: dict[str, Callable[[MakeHub], Awaitable[httpx.Response]]] = {
    "INVALID_INPUT": _invalid_input,
    "PAYLOAD_TOO_LARGE": _payload_too_large,
    "NOT_FOUND": _not_found,
    "METHOD_NOT_ALLOWED": _method_not_allowed,
    "MESSAGE_DELETED": _message_deleted,
    "CROSS_CHANNEL_MOVE": _cross_channel_move,
    "VERSION_CONFLICT": _version_conflict,
    "IDEMPOTENCY_KEY_REUSED": _idempotency_key_reused,
    "MISSING_AUTH": _missing_auth,
    "INVALID_AUTH": _invalid_auth,
    "LOGIN_CODE_INVALID": _login_code_invalid,
    "HOST_FORBIDDEN": _host_forbidden,
    "ORIGIN_FORBIDDEN": _origin_forbidden,
    "CURSOR_EXPIRED": _cursor_expired,
    "MESSAGE_ARCHIVED": _message_archived,
    "AGENT_NAME_TAKEN": _agent_name_taken,
    "TASK_HELD": _task_held,
    "TASK_NOT_HELD": _task_not_held,
    "TASK_CLOSED": _task_closed,
    "SPOOL_REFUSED": _spool_refused,
    "LEASE_CONFLICT": _lease_conflict,
    "LEASE_LOST": _lease_lost,
    "RATE_LIMITED": _rate_limited,
    "SERVICE_UNAVAILABLE": _service_unavailable,
    "SHUTTING_DOWN": _shutting_down,
    "DATABASE_CORRUPT": _database_corrupt,
    "FILES_LOST": _files_lost,
    "INTERNAL_ERROR": _internal_error,
}


def test_every_error_that_crosses_the_wire_has_a_case() -> None:
    assert set(CASES) == {code for code, kind in ERRORS.items() if kind.on_wire and kind.spoken_by == "hub"}


@pytest.mark.parametrize("code", CASES)
async def test_each_error_of_the_registry_has_its_status_and_the_one_shape(make_hub: MakeHub, code: str) -> None:
    kind = ERRORS[code]
    answer = await CASES[code](make_hub)
    body = answer.json()
    assert (answer.status_code, body["code"]) == (kind.status, code), answer.text
    assert answer.headers["content-type"] == "application/json"
    assert isinstance(body["error"], str)
    assert body["error"]
    assert set(body) <= {"error", "code", "details", "message", "current_version"}
    assert ("current_version" in body) == (code == "VERSION_CONFLICT")
    assert ("message" in body) == (code == "SHUTTING_DOWN")
    waits = issubclass(kind, Unavailable) and kind.transient
    assert ("retry-after" in answer.headers) == waits
    if waits:
        assert int(answer.headers["retry-after"]) >= 1


async def test_a_415_shares_the_code_of_invalid_input(hub: OpenHub) -> None:
    answer = await hub.api.client.post(CHANNELS, content=b"{}", headers={"Content-Type": "text/plain"})
    assert (answer.status_code, answer.json()["code"]) == (UnsupportedMediaType.status, InvalidInput.code)


async def test_an_internal_error_tells_nothing_of_its_cause(make_hub: MakeHub) -> None:
    answer = await _internal_error(make_hub)
    assert "secret fault" not in answer.text
    assert "channels" not in answer.text


async def test_rate_limited_says_limit_window_and_when_to_come_back(make_hub: MakeHub) -> None:
    answer = await _rate_limited(make_hub)
    assert answer.json() == {
        "error": "Rate limit exceeded",
        "code": "RATE_LIMITED",
        "details": {"limit": 1, "window": "1s", "retry_after": 1.0},
    }
    assert answer.headers["retry-after"] == "1"


async def test_shutting_down_comes_back_in_ten_seconds(make_hub: MakeHub) -> None:
    answer = await _shutting_down(make_hub)
    assert answer.json() == {
        "error": "The server is shutting down",
        "code": "SHUTTING_DOWN",
        "message": "The server is shutting down",
    }
    assert answer.headers["retry-after"] == "10"


@pytest.mark.parametrize(
    ("tables", "reason"),
    [({"trouble": {"disk_free_bytes_min": 2**62}}, "disk_low")],
)
async def test_a_low_disk_refuses_writes_and_lets_reads_go_on(
    make_hub: MakeHub, tables: dict[str, dict[str, int]], reason: str
) -> None:
    hub = await make_hub(tables)
    answer = await hub.api.client.post(CHANNELS, json={"name": "a"})
    assert (answer.status_code, answer.json()["details"]) == (503, {"reason": reason})
    assert answer.headers["retry-after"] == "5"
    health = await hub.api.get("/health")
    assert health["status"] == "degraded"
    assert len(health["problems"]) == 1
    assert await hub.api.get(CHANNELS) == {"channels": [], "cursor": None}
    assert f'parley_unavailable_total{{reason="{reason}"}} 1.0' in (await hub.api.client.get("/metrics")).text


async def test_a_full_queue_refuses_and_what_was_accepted_is_written(make_hub: MakeHub) -> None:
    hub = await make_hub({"hub": {"writer_queue_max": 2}})
    bodies = [{"name": f"c{number}"} for number in range(40)]
    answers = await asyncio.gather(*(hub.api.client.post(CHANNELS, json=body) for body in bodies))
    statuses = {answer.status_code for answer in answers}
    assert statuses <= {201, 503}
    refused = [answer.json() for answer in answers if answer.status_code == 503]
    assert all(body["code"] == "SERVICE_UNAVAILABLE" for body in refused)
    accepted = {answer.json()["channel"]["name"] for answer in answers if answer.status_code == 201}
    assert accepted == {channel["name"] for channel in (await hub.api.get(CHANNELS))["channels"]}


async def _pragma(hub: OpenHub, text: str) -> None:
    """Sets something on the writer's own connection."""
    await hub.hub.store.write(lambda tx: tx.db.execute(f"PRAGMA {text}").fetchall() and None)


async def test_part_x_a_full_disk_is_503_with_retry_after_and_no_partial_state(hub: OpenHub) -> None:
    """SQLite itself reports the full disk: the file may not grow."""
    topic = await hub.api.topic(await hub.api.channel())
    await _pragma(hub, "max_page_count = 1")
    body = {"topic_id": topic, "sender": "ann", "content_raw": "x" * 60_000}
    answer = await hub.api.client.post("/api/v1/messages", json=body)
    assert (answer.status_code, answer.json()["code"]) == (503, ServiceUnavailable.code)
    assert answer.json()["details"]["reason"] == "disk_full"
    assert answer.headers["retry-after"] == "5"
    assert (await hub.api.get("/api/v1/messages", topic_id=topic))["messages"] == []
    await _pragma(hub, "max_page_count = 1000000")
    await hub.api.post(topic, "there is room again")
    assert hub.fold_problems() == []


async def test_part_x_a_foreign_lock_is_503_with_retry_after_once_the_timeout_is_over(hub: OpenHub) -> None:
    await _pragma(hub, "busy_timeout = 20")
    intruder = open_writer(hub.workspace.db)
    intruder.execute("BEGIN IMMEDIATE")
    answer = await hub.api.client.post(CHANNELS, json={"name": "a"})
    assert (answer.status_code, answer.json()["code"]) == (503, ServiceUnavailable.code)
    assert answer.json()["details"]["reason"] == "busy"
    assert answer.headers["retry-after"] == "1"
    assert await hub.api.get(CHANNELS) == {"channels": [], "cursor": None}
    intruder.execute("ROLLBACK")
    intruder.close()
    await hub.api.channel("a")
