"""Requests as files: executed once, answered in a file, and refused when forged, replayed, stale or of another kind."""

import asyncio
import json
import os
from collections import OrderedDict
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from parley.hub import spool as hub_spool
from parley.hub.spool import AGE_MS_MAX, AHEAD_MS_MAX, refusal_reason
from parley.wire.spool import SpoolRequest, read_answer, request_file
from tests.hub.hubs import OpenHub, open_hub

ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncGenerator[OpenHub]:
    async with open_hub(tmp_path) as hub:
        yield hub


class Spooled:
    """A program that may open no socket, and drives the hub's look at its spool by hand."""

    def __init__(self, opened: OpenHub) -> None:
        self.opened = opened
        self.spool = opened.hub.spool
        self.folder = opened.workspace.spool
        self.spool.open()

    def request(self, method: str = "GET", target: str = "/health", body: Any = None, **fields: Any) -> SpoolRequest:
        said = None if body is None else json.dumps(body)
        made = {"id": os.urandom(16).hex(), "made_ms": self.opened.clock.now_ms(), **fields}
        headers = {} if body is None else {"Content-Type": "application/json", "Idempotency-Key": made["id"]}
        return SpoolRequest(made["id"], made["made_ms"], method, target, headers, said)

    def leave(self, request: SpoolRequest, token: str | None = None, name: str | None = None) -> Path:
        path = self.folder / "requests" / (name or request.id)
        path.write_bytes(request_file(request, token or self.opened.token))
        return path

    async def look(self) -> None:
        self.spool.look()
        await self.spool.drain(20)
        assert not self.spool._running

    def answer(self, name: str) -> tuple[int, Any]:
        path = self.folder / "answers" / name
        answer = read_answer(path.read_bytes(), self.opened.token)
        assert answer is not None
        assert path.stat().st_mode & 0o777 == 0o600
        return answer.status, json.loads(answer.body)

    async def ask(self, request: SpoolRequest, **options: Any) -> tuple[int, Any]:
        self.leave(request, **options)
        await self.look()
        return self.answer(options.get("name") or request.id)


async def test_a_write_that_comes_as_a_file_is_done_and_answered(opened: OpenHub) -> None:
    spooled = Spooled(opened)
    request = spooled.request("POST", "/api/v1/channels", {"name": "by-file"})
    status, body = await spooled.ask(request)
    assert status == 201
    assert (await opened.api.get("/api/v1/channels"))["channels"][0]["id"] == body["channel"]["id"]
    assert list((spooled.folder / "requests").iterdir()) == []
    assert (spooled.folder.stat().st_mode & 0o777) == 0o700


async def test_reads_take_their_query_and_refusals_their_code(opened: OpenHub) -> None:
    spooled = Spooled(opened)
    status, body = await spooled.ask(spooled.request("GET", "/api/v1/events?tail=1"))
    assert (status, len(body["events"])) == (200, len((await opened.api.events())[-1:]))
    status, body = await spooled.ask(spooled.request("GET", "/api/v1/topics/topic_none"))
    assert (status, body["code"]) == (404, "NOT_FOUND")
    status, body = await spooled.ask(spooled.request("GET", "/ui"))
    assert (status, body["code"]) == (404, "NOT_FOUND")


async def test_a_replayed_file_is_refused_and_has_no_second_effect(opened: OpenHub) -> None:
    spooled = Spooled(opened)
    request = spooled.request("POST", "/api/v1/channels", {"name": "once"})
    assert (await spooled.ask(request))[0] == 201
    (spooled.folder / "answers" / request.id).unlink()
    status, body = await spooled.ask(request)
    assert (status, body["code"], body["details"]["reason"]) == (409, "SPOOL_REFUSED", "seen")
    assert len((await opened.api.get("/api/v1/channels"))["channels"]) == 1


async def test_a_file_signed_with_another_token_is_refused(opened: OpenHub) -> None:
    spooled = Spooled(opened)
    request = spooled.request("POST", "/api/v1/channels", {"name": "forged"})
    status, body = await spooled.ask(request, token="f" * 64)
    assert (status, body["code"]) == (401, "INVALID_AUTH")
    assert (await opened.api.get("/api/v1/channels"))["channels"] == []


async def test_a_signed_file_that_was_changed_is_refused(opened: OpenHub) -> None:
    spooled = Spooled(opened)
    request = spooled.request("POST", "/api/v1/channels", {"name": "good"})
    path = spooled.leave(request)
    path.write_bytes(path.read_bytes().replace(b"good", b"evil"))
    await spooled.look()
    assert spooled.answer(request.id)[0] == 401


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"made_ms": -1}, "before_start"),
        ({"made_ms": AHEAD_MS_MAX + 1}, "too_new"),
        ({"name": "f" * 32}, "name"),
    ],
)
async def test_a_file_out_of_its_time_or_under_another_name_is_refused(
    opened: OpenHub, fields: dict[str, Any], reason: str
) -> None:
    spooled = Spooled(opened)
    request = spooled.request("POST", "/api/v1/channels", {"name": "late"}, **_shifted(opened, fields))
    status, body = await spooled.ask(request, name=fields.get("name"))
    assert (status, body["details"]["reason"]) == (409, reason)
    assert (await opened.api.get("/api/v1/channels"))["channels"] == []


def _shifted(opened: OpenHub, fields: dict[str, Any]) -> dict[str, Any]:
    return {"made_ms": opened.clock.now_ms() + fields["made_ms"]} if "made_ms" in fields else {}


async def test_a_file_that_lay_too_long_is_refused(opened: OpenHub) -> None:
    spooled = Spooled(opened)
    request = spooled.request()
    spooled.leave(request)
    opened.clock.advance(AGE_MS_MAX / 1000 + 1)
    await spooled.look()
    assert spooled.answer(request.id)[1]["details"]["reason"] == "too_old"


def test_an_id_is_remembered_for_as_long_as_its_request_could_come_again() -> None:
    """Of the two bounds on a request's time and the one on memory, none leaves a gap for a replay."""
    started, seen = 1_000_000, OrderedDict({ID: 1_000_000 + AHEAD_MS_MAX})
    request = SpoolRequest(ID, started + AHEAD_MS_MAX, "GET", "/health")
    for now in range(started, started + AGE_MS_MAX + AHEAD_MS_MAX + 1, 1_000):
        assert refusal_reason(request, ID, now_ms=now, started_ms=started, seen=seen) == "seen"
        assert request.made_ms >= now - AGE_MS_MAX - AHEAD_MS_MAX, "what is forgotten is older than what is taken"
    after = started + AGE_MS_MAX + AHEAD_MS_MAX + 1
    assert refusal_reason(request, ID, now_ms=after, started_ms=started, seen=OrderedDict()) == "too_old"


async def test_what_is_no_file_of_ours_is_taken_away_unread(opened: OpenHub, tmp_path: Path) -> None:
    spooled = Spooled(opened)
    requests = spooled.folder / "requests"
    secret = tmp_path / "secret"
    secret.write_text("x")
    (requests / ("a" * 32)).symlink_to(secret)
    os.mkfifo(requests / ("b" * 32))
    os.link(secret, requests / ("c" * 32))
    (requests / "note.txt").write_text("not a request")
    await spooled.look()
    assert [path.name for path in requests.iterdir()] == ["note.txt"]
    assert list((spooled.folder / "answers").iterdir()) == []
    assert secret.read_text() == "x"


@pytest.mark.parametrize("data", [b"", b"zz", b"0" * 64 + b"\n{}", b"\xff" * 200])
async def test_a_file_that_is_no_request_is_refused(opened: OpenHub, data: bytes) -> None:
    spooled = Spooled(opened)
    (spooled.folder / "requests" / ID).write_bytes(data)
    await spooled.look()
    assert spooled.answer(ID)[0] == 401


async def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async with open_hub(tmp_path, {"limits": {"body_bytes_max": 1024}}) as opened:
        spooled = Spooled(opened)
        status, body = await spooled.ask(spooled.request("POST", "/api/v1/channels", {"name": "x" * 20_000}))
        assert (status, body["code"]) == (413, "PAYLOAD_TOO_LARGE")


async def test_more_files_than_run_at_once_are_answered_look_by_look(
    opened: OpenHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_spool, "AT_ONCE_MAX", 3)
    spooled = Spooled(opened)
    requests = [spooled.request() for _ in range(8)]
    for request in requests:
        spooled.leave(request)
    for _ in range(3):
        await spooled.look()
    assert [spooled.answer(request.id)[0] for request in requests] == [200] * 8


async def test_folders_with_the_names_of_requests_keep_no_request_waiting(opened: OpenHub) -> None:
    spooled = Spooled(opened)
    for number in range(hub_spool.AT_ONCE_MAX):
        (spooled.folder / "requests" / f"{number:032x}").mkdir()
    status, _ = await spooled.ask(spooled.request(id="f" * 32))
    assert status == 200


async def test_the_hub_shows_life_while_it_looks_and_none_afterwards(opened: OpenHub) -> None:
    spooled = Spooled(opened)
    task = asyncio.create_task(spooled.spool.run())
    await asyncio.sleep(0)
    alive = spooled.folder / "alive"
    assert alive.exists()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive.exists()


async def test_a_folder_of_another_kind_is_not_used(opened: OpenHub, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    opened.workspace.spool.symlink_to(elsewhere)
    opened.hub.spool.open()
    await opened.hub.spool.run()
    assert list(elsewhere.iterdir()) == []
    assert [entry["event"] for entry in opened.log.entries].count("no_spool") == 1
