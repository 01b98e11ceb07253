"""The other routes: the inbox, sessions, meshes, versions and metrics."""

import asyncio
import hashlib
import os
import subprocess
import sys
from collections import deque
from dataclasses import replace
from typing import Any

import msgspec

from parley.core.daemon_metrics import DAEMON_METRICS
from parley.core.daemon_settings import TroubleTable
from parley.core.errors import ServiceUnavailable
from parley.daemon.http.messages import get_inbox
from parley.daemon.outbox.rows import by_client_id
from parley.serve.endpoint import Call
from parley.serve.params import Query
from tests.daemon.http.test_stream import arrive, followed, read
from tests.daemon.served_daemon import BOB, MakeServed, ServedDaemon


async def test_listing_marks_as_seen_unless_told_otherwise(served: ServedDaemon) -> None:
    await arrive(served, 1)
    await arrive(served, 2)
    kept = (await served.unix.get("/v1/inbox?mark_seen=false&limit=1")).json()
    assert (kept["marked_seen"], [each["body"] for each in kept["items"]], kept["unseen"]) == (0, ["text 2"], 2)
    older = (await served.unix.get(f"/v1/inbox?before={kept['cursor']}")).json()
    assert ([each["body"] for each in older["items"]], older["marked_seen"]) == (["text 1"], 1)
    unread = (await served.unix.get("/v1/inbox?unread_only=true")).json()
    assert [each["body"] for each in unread["items"]] == ["text 2"]
    assert (await served.unix.post("/v1/inbox/seen", json={"ids": ["in_1", "in_2"]})).json() == {"marked_seen": 0}


async def test_a_listing_waits_for_what_is_to_come_and_no_longer_than_it_should(served: ServedDaemon) -> None:
    assert (await served.unix.get("/v1/inbox?wait_seconds=1")).json()["items"] == []
    asked = asyncio.create_task(served.unix.get("/v1/inbox?wait_seconds=25&from=nobody"))
    waiting = asyncio.create_task(served.unix.get("/v1/inbox?wait_seconds=25&unread_only=true"))
    await followed(served, asked, waiting)
    await arrive(served, 1)
    assert [each["body"] for each in (await waiting).json()["items"]] == ["text 1"]
    assert not asked.done(), "what arrived is not what it waits for"
    served.daemon.feed.close()
    assert (await asked).json()["items"] == []
    assert len(served.daemon.feed) == 0


class Caller:
    """Somebody who waits for the inbox until they hang up."""

    def __init__(self, served: ServedDaemon, query: str) -> None:
        self._hung_up = asyncio.Event()
        self._said = deque[dict[str, Any]]([{"type": "http.request", "body": b"", "more_body": False}])
        call = Call({}, Query(query.encode()), None, None, {}, self._receive)
        self.answer = asyncio.create_task(get_inbox(served.daemon, call))

    def hang_up(self) -> None:
        self._hung_up.set()

    async def _receive(self) -> dict[str, Any]:
        if self._said:
            return self._said.popleft()
        await self._hung_up.wait()
        return {"type": "http.disconnect"}


async def test_a_caller_that_hangs_up_waits_no_longer_and_has_seen_nothing(served: ServedDaemon) -> None:
    caller = Caller(served, "wait_seconds=25&unread_only=true")
    await followed(served, caller.answer)
    caller.hang_up()
    async with asyncio.timeout(20):  # less than it would have waited
        body = (await caller.answer).body
    assert body["items"] == []
    assert len(served.daemon.feed) == 0
    await arrive(served, 1)
    assert (await served.unix.get("/v1/inbox?mark_seen=false")).json()["unseen"] == 1


async def test_a_message_that_comes_as_the_caller_hangs_up_was_not_seen(served: ServedDaemon) -> None:
    caller = Caller(served, "wait_seconds=25&unread_only=true")
    await followed(served, caller.answer)
    caller.hang_up()
    await arrive(served, 1)
    assert (await caller.answer).body["items"] == []
    assert (await served.unix.get("/v1/inbox?mark_seen=false")).json()["unseen"] == 1


async def test_whoever_waits_for_the_inbox_keeps_no_stop_waiting(served: ServedDaemon) -> None:
    waiting = asyncio.create_task(served.unix.get("/v1/inbox?wait_seconds=25"))
    await followed(served, waiting)
    assert await served.in_flight.wait_empty(0.0)
    served.daemon.feed.close()
    assert (await waiting).json()["items"] == []


async def test_the_inbox_is_searched_and_emptied(served: ServedDaemon) -> None:
    for number in (1, 2, 3):
        await arrive(served, number)
    assert len((await served.unix.get("/v1/inbox/search?q=text")).json()["items"]) == 3
    assert (await served.unix.get("/v1/inbox/search")).status_code == 400
    assert (await served.unix.delete("/v1/inbox/in_1")).json() == {"removed": 1, "id": "in_1"}
    assert (await served.unix.delete("/v1/inbox/in_1")).status_code == 404
    assert (await served.unix.delete("/v1/inbox")).status_code == 400
    assert (await served.unix.delete("/v1/inbox?mesh=team&before=2100-01-01T00:00:00.003Z")).json() == {"removed": 1}
    assert (await served.unix.delete("/v1/inbox?all=true")).json() == {"removed": 1}


async def test_parameters_that_make_no_sense_are_refused(served: ServedDaemon) -> None:
    long = "9" * 5_000
    numbers = ("limit=0", "limit=1001", "limit=²", f"limit={long}", "wait_seconds=26", "wait_seconds=-1")
    for query in (*numbers, "since=yesterday", "before=x", "before=²", f"before={long[:20]}", "unread_only=maybe"):
        answer = await served.unix.get(f"/v1/inbox?{query}")
        assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_INPUT"), query


async def test_a_session_is_known_by_its_token_which_is_not_kept(served: ServedDaemon) -> None:
    token = "ab" * 32
    body = {"token": token, "session_id": "s-1", "display_name": "reviewer", "pid": os.getpid(), "mesh": "team"}
    assert (await served.unix.post("/v1/sessions/register", json=body)).json()["ok"]
    mine = await served.unix.get("/v1/sessions/me", headers={"x-parley-session": token})
    assert (mine.json()["session_id"], mine.json()["pid"]) == ("s-1", os.getpid())
    assert len((await served.unix.get("/v1/sessions")).json()["sessions"]) == 1
    assert token not in served.home.sessions.read_text()
    assert served.daemon.sessions.reap(served.clock.now_ms()) == 0
    assert (await served.unix.delete(f"/v1/sessions/{token}")).json()["ended"]
    assert (await served.unix.get("/v1/sessions/me", headers={"x-parley-session": token})).status_code == 404


async def test_a_session_ends_with_its_day_and_survives_a_restart(served: ServedDaemon) -> None:
    body = {"token": "ab" * 32, "session_id": "s-1"}
    await served.unix.post("/v1/sessions/register", json=body)
    served.daemon.sessions.load()
    assert len(served.daemon.sessions.all()) == 1
    assert served.daemon.sessions.reap(served.clock.now_ms() + 25 * 3_600_000) == 1
    served.home.sessions.write_bytes(b"{")
    served.daemon.sessions.load()
    assert served.daemon.sessions.all() == []


async def begun(served: ServedDaemon, name: str, **more: object) -> dict[str, str]:
    """The header of a session that has begun."""
    token = hashlib.sha256(name.encode()).hexdigest()
    body = {"token": token, "session_id": name, "display_name": f"the {name}", **more}
    assert (await served.unix.post("/v1/sessions/register", json=body)).status_code == 200
    return {"x-parley-session": token}


async def test_what_a_session_sends_says_so_and_goes_to_the_sessions_mesh(make_served: MakeServed) -> None:
    served = await make_served("team", "other")
    header = await begun(served, "reviewer", mesh="other", role="critic")
    body = {"to": BOB, "message": "hello", "meta": {"a": 1}, "client_message_id": "m-1", "to_session": "builder"}
    sent = await served.unix.post("/v1/send", json=body, headers=header)
    assert (sent.status_code, sent.json()["mesh"]) == (202, "other")
    row = served.daemon.store.read_outbox(lambda db: by_client_id(db, "m-1"))
    assert row is not None
    mark = {"id": "reviewer", "name": "the reviewer", "role": "critic", "to": "builder"}
    assert msgspec.json.decode(row.meta) == {"a": 1, "parley_session": mark}
    assert (await served.unix.post("/v1/send", json={**body, "mesh": "other"})).status_code == 202
    elsewhere = await served.unix.post("/v1/send", json={**body, "to_session": "other"}, headers=header)
    assert elsewhere.status_code == 409
    forged = await served.unix.post(
        "/v1/send", json={"to": BOB, "message": "x", "meta": {"parley_session": {"id": "x"}}}
    )
    assert (forged.status_code, forged.json()["code"]) == (400, "INVALID_INPUT")
    unknown = await served.unix.post("/v1/send", json=body, headers={"x-parley-session": "0" * 64})
    assert unknown.status_code == 404


async def test_a_session_is_shown_what_is_for_it_or_for_nobody_in_particular(served: ServedDaemon) -> None:
    for number, mark in (
        (1, None),
        (2, {"to": "builder"}),
        (3, {"to": "reviewer", "id": "far", "name": "n"}),
        (4, "?"),
    ):
        await arrive(served, number, {} if mark is None else {"parley_session": mark})
    header = await begun(served, "reviewer")
    mine = (await served.unix.get("/v1/inbox?mark_seen=false", headers=header)).json()["items"]
    assert [each["body"] for each in mine] == ["text 4", "text 3", "text 1"]
    assert mine[1]["sender_session"] == {"id": "far", "name": "n", "role": None}
    assert [each["recipient_kind"] for each in mine] == ["member", "session", "member"]
    assert all("parley_session" not in each["meta"] for each in mine)
    assert len((await served.unix.get("/v1/inbox/search?q=text", headers=header)).json()["items"]) == 3
    assert len((await served.unix.get("/v1/inbox?mark_seen=false")).json()["items"]) == 4
    events = await read(served, 3, params={"after": "0"}, headers=header)
    assert [each.data["body"] for each in events if each.kind == "message"] == ["text 1", "text 3", "text 4"]


async def test_a_session_whose_process_is_gone_is_over_at_once(served: ServedDaemon) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=subprocess.PIPE)
    header = await begun(served, "short", pid=process.pid)
    assert (await served.unix.get("/v1/sessions/me", headers=header)).status_code == 200
    await process.communicate(b"\n")
    assert (await served.unix.get("/v1/sessions/me", headers=header)).status_code == 404


async def test_a_request_that_comes_while_the_daemon_starts_finds_its_mesh(make_served: MakeServed) -> None:
    first = await make_served()
    await first.close()
    served = await make_served(started=False)
    starting = asyncio.create_task(served.daemon.start())
    await asyncio.sleep(0)  # it has begun, and awaits something
    assert list(served.daemon.meshes) == ["mesh_team"]
    await starting


async def test_version_health_and_the_meshes_are_told_without_secrets(served: ServedDaemon) -> None:
    version = (await served.unix.get("/v1/version")).json()
    assert (version["ipc_api"], "send" in version["ipc_features"]) == ("v1", True)
    assert (await served.unix.get("/v1/compat")).json()["required_broker_features"]
    assert (await served.unix.post("/v1/heartbeat")).json()["ok"]
    health = (await served.unix.get("/v1/health")).json()
    assert health["brokers"]["team"] in ("connecting", "reconnecting")
    meshes = await served.unix.get("/v1/meshes")
    assert served.daemon.memberships.get("team").seed not in meshes.text
    assert "aa" * 32 not in meshes.text


async def test_of_a_disk_that_fills_it_tells_once_and_that_there_is_room_again(make_served: MakeServed) -> None:
    served = await make_served(started=False, trouble={"disk_free_bytes_min": 0})  # without rounds of its own
    before = (await served.unix.get("/v1/health")).json()
    assert (before["degraded"], before["problems"], before["disk_free_bytes"] > 0) == (False, [], True)
    for least in (2**62, 0):
        served.daemon.apply(replace(served.daemon.settings, trouble=TroubleTable(least)))
        for _ in range(2):
            await served.daemon.upkeep()
        health = (await served.unix.get("/v1/health")).json()
        assert (health["ok"], health["degraded"]) == (True, least > 0)
    events = [each for each in await read(served, 2, params={"after": "0"}) if each.kind.startswith("disk")]
    assert [(each.kind, each.data["disk"]) for each in events] == [("disk_low", "low"), ("disk_freed", "ok")]
    assert b'"disk_low"' in served.log.getvalue()


async def test_what_a_disk_keeps_the_upkeep_from_doing_is_told_and_done_later(make_served: MakeServed) -> None:
    served = await make_served(started=False)  # without rounds of its own
    await served.daemon.upkeep()
    assert b'"upkeep_failed"' not in served.log.getvalue()
    served.daemon.store.outbox.refuse_with = ServiceUnavailable("The disk is full", reason="disk_full")
    await served.daemon.upkeep()
    assert served.log.getvalue().count(b'"upkeep_failed"') == 1
    served.daemon.store.outbox.refuse_with = None
    await served.daemon.upkeep()
    assert served.log.getvalue().count(b'"upkeep_failed"') == 1


async def test_a_file_that_cannot_be_written_does_not_end_the_upkeep(make_served: MakeServed) -> None:
    served = await make_served(started=False)  # without rounds of its own
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=subprocess.PIPE)
    await begun(served, "short", pid=process.pid)
    await process.communicate(b"\n")
    served.home.sessions.unlink()
    served.home.sessions.mkdir()  # nothing can take its place
    await served.daemon.upkeep()
    assert b'"upkeep_failed"' in served.log.getvalue()


async def test_every_metric_is_there_from_the_start(served: ServedDaemon) -> None:
    text = (await served.unix.get("/v1/metrics")).text
    for spec in DAEMON_METRICS:
        assert f"# HELP {spec.name.removesuffix('_total')}" in text, spec.name


async def test_what_needs_the_broker_says_that_it_cannot_be_reached(served: ServedDaemon) -> None:
    for path, body in (
        ("/v1/topic/subscribe", {"topic": "alerts"}),
        ("/v1/profile", {"status": "working"}),
        ("/v1/mesh/call", {"method": "members"}),
        ("/v1/mesh/rotate-keypair", {}),
    ):
        answer = await served.unix.post(path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (502, "MESH_UNREACHABLE"), path
    assert (await served.unix.get("/v1/peers")).json() == {"peers": [], "unreachable": ["team"]}
    assert (await served.unix.post("/v1/mesh/call", json={"method": "drop_tables"})).status_code == 404
    assert (await served.unix.post("/v1/profile", json={})).status_code == 400


async def test_reloading_serves_what_is_new_and_leaves_what_is_gone(served: ServedDaemon) -> None:
    membership = served.daemon.memberships.get("team")
    served.daemon.memberships.remove(membership.mesh_id)
    left = (await served.unix.post("/v1/reload")).json()
    assert (left["attached"], left["detached"]) == ([], ["mesh_team"])
    served.daemon.memberships.put(membership)
    came = (await served.unix.post("/v1/reload")).json()
    assert (came["attached"], came["detached"]) == (["team"], [])


async def test_reloading_takes_the_settings_that_can_change_and_names_those_that_cannot(
    make_served: MakeServed,
) -> None:
    served = await make_served(ipc={"http_port": 4242})  # as if a flag had said so: the file does not name it
    mesh = served.daemon.meshes["mesh_team"]
    served.home.config.write_text(
        "[ipc]\nstreams_max = 1\ntcp_enabled = false\n[reconnect]\nmax_backoff_ms = 700\n"
        "[daemon]\nlog_level = 'error'\n"
    )
    found = (await served.unix.post("/v1/reload")).json()
    assert found["changed"] == ["ipc.streams_max", "reconnect.max_backoff_ms"]
    assert found["needs_restart"] == ["daemon.log_level", "ipc.tcp_enabled"]
    assert served.daemon.meshes["mesh_team"] is mesh
    assert mesh.runner.machine.link.settings.backoff.most_ms == 700
    follower = served.daemon.feed.follow()
    assert (await served.unix.get("/v1/events")).status_code == 429
    served.daemon.feed.leave(follower)
    assert (await served.unix.post("/v1/reload")).json()["changed"] == []


async def test_a_mistake_in_a_file_is_named_and_reloading_changes_nothing(served: ServedDaemon) -> None:
    served.home.config.write_text("[ipc]\nstreams_max = 0\nspeed = 3\n[inbox]\nretention_days = 2\n")
    answer = await served.unix.post("/v1/reload")
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_INPUT")
    assert len(answer.json()["details"]["problems"]) == 2
    assert served.daemon.settings.inbox.retention_days == 30
    served.home.config.unlink()
    served.home.hooks.mkdir()
    (served.home.hooks / "hooks.toml").write_text("[on-dm]\n")
    assert (await served.unix.post("/v1/reload")).status_code == 400
    (served.home.hooks / "on-dm.sh").write_text("exit 0\n")
    assert (await served.unix.post("/v1/reload")).json()["hooks"] == ["on-dm"]


async def test_events_are_counted_by_their_kind(served: ServedDaemon) -> None:
    await arrive(served, 1)
    await arrive(served, 2)
    for _ in range(2):
        text = (await served.unix.get("/v1/metrics")).text
        assert 'parley_daemon_events_total{kind="message"} 2.0' in text
