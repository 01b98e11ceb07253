"""How a hub ends: by a clean stop, by idleness, by kill -9, and what the next start finds."""

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import apsw
import httpx
import pytest
from websockets.exceptions import ConnectionClosedOK
from websockets.sync.client import connect

from parley.core.clock import ManualClock
from parley.core.exits import Exit
from parley.wire.server_file import ServerFile
from parley.workspace import discovery
from parley.workspace.layout import Workspace
from tests.hub.conftest import MakeHub
from tests.hub.feed.clients import feed
from tests.hub.feed.clients import until as until_here
from tests.hub.hubs import fold_problems, rows, workspace_in
from tests.hub.lifecycle.here import hub_of, run_here, stop_at_once
from tests.hub.lifecycle.processes import DEADLINE_SECONDS, HubProcess, created, make_topic, mode, post, until
from tests.workspace.databases import writing

MOVED = "SELECT count(*) FROM events WHERE name = 'message.moved_topic'"
STUCK = f"""
CREATE TRIGGER stuck AFTER INSERT ON events WHEN NEW.name = 'message.moved_topic' AND ({MOVED}) > 40
BEGIN SELECT count(*) FROM events AS a, events AS b, events AS c, events AS d WHERE a.event_id + b.event_id < 0; END
"""
"""Keeps a move busy for hours once so many of its messages are moved."""


@contextlib.contextmanager
def foreign_writer(workspace: Workspace) -> Iterator[None]:
    """Another program that writes to the database for a while."""
    connection = apsw.Connection(str(workspace.db))
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


def test_part_x_hub_restart_a_clean_stop_finishes_what_is_in_flight_refuses_what_is_new_and_closes_feeds_with_1001(
    tmp_path: Path,
) -> None:
    """A foreign lock keeps two posts in flight for as long as the stop is looked at."""
    workspace = workspace_in(tmp_path)

    def look(server: ServerFile) -> None:
        hub, token = hub_of(tmp_path), {"Authorization": f"Bearer {server.auth_token}"}
        with (
            httpx.Client(base_url=server.base_url, headers=token, timeout=DEADLINE_SECONDS) as client,
            connect(
                f"ws://127.0.0.1:{server.port}/ws?token={server.auth_token}", open_timeout=DEADLINE_SECONDS
            ) as listening,
            ThreadPoolExecutor(2) as threads,
        ):
            topic = make_topic(client)
            listening.send('{"type":"hello","after_event_id":2}')
            listening.recv()
            with foreign_writer(workspace):
                in_flight = [threads.submit(post, client, topic, "in flight") for _ in range(2)]
                until(lambda: hub.in_flight.count == 2)
                stop_at_once(server)
                until(lambda: hub.in_flight.closing)
                refused = client.post("/api/v1/_ping")
                assert (refused.status_code, refused.json()["code"]) == (503, "SHUTTING_DOWN")
                assert int(refused.headers["retry-after"]) >= 1
                assert client.get("/health").status_code == 200
                assert not any(each.done() for each in in_flight)
            assert [created(each.result())["message"]["content_raw"] for each in in_flight] == ["in flight"] * 2
            assert [json.loads(listening.recv())["event_id"] for _ in range(2)] == [3, 4]
            with pytest.raises(ConnectionClosedOK) as ended:
                listening.recv()
            assert ended.value.rcvd is not None
            assert (ended.value.rcvd.code, ended.value.rcvd.reason) == (1001, "Server shutting down")

    looking: list[Future[None]] = []
    with ThreadPoolExecutor(1) as thread:

        def ready(server: ServerFile) -> None:
            hub_of(tmp_path).store._writing.set_busy_timeout(int(DEADLINE_SECONDS * 1000))
            looking.append(thread.submit(look, server))

        code, _ = run_here(tmp_path, ready, drain_seconds=DEADLINE_SECONDS)
        looking[0].result()
    assert code == Exit.OK
    assert not workspace.server_file.exists()
    assert not workspace.wal.exists() or workspace.wal.stat().st_size == 0
    assert rows(workspace, "SELECT content_raw FROM messages") == [("in flight",)] * 2


def test_a_request_that_never_becomes_whole_does_not_hold_up_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody can begin one, without a token."""
    monkeypatch.setattr("parley.serve.life.STOP_PATIENCE_SECONDS", 0.1)
    half = "POST /ui/login HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nContent-Length: 500\r\n\r\nx"

    def look(server: ServerFile) -> None:
        hub = hub_of(tmp_path)
        with socket.create_connection(("127.0.0.1", server.port)) as stranger:
            stranger.sendall(half.format(f"127.0.0.1:{server.port}").encode())
            until(lambda: hub.in_flight.count == 1)
            stop_at_once(server)
            assert stranger.recv(1) == b""

    with ThreadPoolExecutor(1) as thread:
        looking: list[Future[None]] = []
        code, log = run_here(
            tmp_path, lambda server: looking.append(thread.submit(look, server)), drain_seconds=DEADLINE_SECONDS
        )
        looking[0].result()
    assert code == Exit.OK
    assert [entry for entry in log.entries if entry["event"] == "drain_timed_out"] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_both_signals_of_the_terminal_are_a_clean_stop(tmp_path: Path, number: signal.Signals) -> None:
    code, log = run_here(tmp_path, lambda _: os.kill(os.getpid(), number))
    assert code == Exit.OK
    assert [entry["reason"] for entry in log.entries if entry["event"] == "stopped"] == [number.name]
    assert not discovery.at(tmp_path).server_file.exists()


def test_part_x_hub_crash_after_kill_9_the_next_start_replaces_what_was_left_and_keeps_what_was_said(
    hub: HubProcess,
) -> None:
    hub.start()
    with hub.client() as client:
        topic = make_topic(client)
        created(post(client, topic, "acknowledged"))
    before = hub.server
    hub.kill()
    assert hub.workspace.server_file.exists(), "nobody could remove it"
    assert hub.workspace.wal.stat().st_size > 0
    hub.start()
    after = hub.server
    assert after["auth_token"] == before["auth_token"]
    assert after["pid"] == hub.pid != before["pid"]
    assert mode(hub.workspace.server_file) == 0o600
    with hub.client() as client:
        found = client.get("/api/v1/messages", params={"topic_id": topic}).json()["messages"]
    assert [message["content_raw"] for message in found] == ["acknowledged"]


def test_a_big_move_interrupted_by_kill_9_is_finished_by_the_next_start_and_a_retry_gets_the_whole_list(
    make_process: Callable[..., HubProcess],
) -> None:
    hub = make_process("[limits]\nmove_batch_max = 20\n").start("--synchronous", "normal")
    count = 600
    with hub.client() as client, ThreadPoolExecutor(8) as threads:
        source = make_topic(client)
        channel = client.get(f"/api/v1/topics/{source}").json()["topic"]["channel_id"]
        target = created(client.post("/api/v1/topics", json={"channel_id": channel, "title": "to"}))["topic"]["id"]
        ids = [each.json()["message"]["id"] for each in threads.map(lambda _: post(client, source), range(count))]
        request = {"op": "move_topic", "to_topic_id": target, "mode": "all"}
        key = {"Idempotency-Key": "the-move"}

        def move() -> httpx.Response:
            with hub.client() as mover:
                return mover.patch(f"/api/v1/messages/{ids[0]}", json=request, headers=key)

        with writing(hub.workspace) as connection:
            connection.execute(STUCK)
        moving = threads.submit(move)
        until(lambda: _moved(hub.workspace) > 0)
        hub.kill()
        assert isinstance(moving.exception(), httpx.TransportError)
    assert 0 < _moved(hub.workspace) <= 40, "it was interrupted in the middle"
    with writing(hub.workspace) as connection:
        connection.execute("DROP TRIGGER stuck")
    hub.start()
    until(lambda: _moved(hub.workspace) == count)
    answer = move().json()
    assert answer["affected_count"] == count
    assert answer["duplicate"] is True
    per_message = rows(
        hub.workspace, "SELECT count(*), count(DISTINCT entity_id) FROM events WHERE name = 'message.moved_topic'"
    )
    assert per_message == [(count, count)]
    assert fold_problems(hub.workspace) == []


def _moved(workspace: Workspace) -> int:
    return rows(workspace, MOVED)[0][0]


def test_idle_shutdown_ms_ends_a_hub_that_nobody_uses_with_exit_0(hub: HubProcess) -> None:
    hub.start("--idle-shutdown-ms", "50")
    assert hub.ended() == Exit.OK
    assert not hub.workspace.server_file.exists()
    assert any(line["msg"] == "stopped" and line["reason"] == "idle" for line in hub.log)


async def test_idle_shutdown_ms_is_put_off_by_requests_and_feeds_but_not_by_health(make_server: MakeHub) -> None:
    clock = ManualClock()
    hub = await make_server({"hub": {"idle_shutdown_ms": 10_000}, "websocket": {"ping_seconds": 600}}, clock=clock)

    def stops_after(seconds: float) -> bool:
        hub.stops.clear()
        clock.advance(seconds)
        hub.hub.monitor.look()
        return hub.stops == ["idle"]

    assert not stops_after(9)
    await hub.api.call("POST", "/api/v1/_ping")
    assert not stops_after(9), "a request counts"
    await hub.api.get("/health")
    await hub.api.call("POST", "/api/v1/_ping", status=401, headers={"Authorization": "Bearer wrong"})
    assert stops_after(2), "neither /health nor somebody without the token does"
    async with feed(hub) as client:
        await client.hello()
        assert not stops_after(1_000), "an open feed counts"
    await until_here(lambda: hub.hub.feeds_open == 0)
    assert not stops_after(9), "the time counts from the feed's end"
    assert stops_after(2)


async def test_a_request_in_flight_keeps_an_idle_hub_awake(make_server: MakeHub) -> None:
    clock = ManualClock()
    hub = await make_server({"hub": {"idle_shutdown_ms": 1_000}}, clock=clock)
    with foreign_writer(hub.workspace):
        waiting = asyncio.create_task(hub.api.channel())
        await until_here(lambda: hub.hub.in_flight.count == 1)
        clock.advance(60)
        hub.hub.monitor.look()
        assert hub.stops == []
    await waiting


def test_a_token_is_rotated_through_http_and_by_writing_the_file(make_process: Callable[..., HubProcess]) -> None:
    hub = make_process("[hub]\ntoken_grace_seconds = 3600\n").start()
    first = hub.server["auth_token"]
    with hub.client() as client:
        answer = client.post("/api/v1/token/rotate")
        assert answer.json() == {"rotated": True, "grace_seconds": 3600.0}
        second = hub.server["auth_token"]
        assert second != first
        assert hub.workspace.token.read_text().strip() == second
        assert mode(hub.workspace.server_file) == mode(hub.workspace.token) == 0o600
        assert first not in answer.text
        assert second not in answer.text
        third = "b" * 64
        hub.workspace.token.write_text(third)
        until(lambda: hub.server["auth_token"] == third)
        for token in (first, second, third):
            ping = client.post("/api/v1/_ping", headers={"Authorization": f"Bearer {token}"})
            assert ping.status_code == 200, "the old ones are in their grace period"
    hub.stop()
    hub.start()
    with hub.client() as client:
        assert hub.server["auth_token"] == third
        for token in (first, second):
            ping = client.post("/api/v1/_ping", headers={"Authorization": f"Bearer {token}"})
            assert ping.status_code == 401, "a restart ends the grace period"
    said = (hub.root / "hub.stderr").read_text()
    assert not [token for token in (first, second, third) if token in said]
