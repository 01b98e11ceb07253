"""Trouble closes the writer's gate and opens it again: reads go on, refusals have a reason, nothing acked is lost."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from typing import Any

import apsw
import pytest

from parley.core.clock import ManualClock
from parley.core.errors import ServiceUnavailable, StartupFailed
from parley.core.metrics import METRICS
from parley.serve.disk import Disk
from parley.sqlite import CheckpointResult, checkpoint_once, close_quietly, open_writer
from parley.workspace.layout import Workspace
from tests.hub.conftest import MakeHub
from tests.hub.feed.clients import feed, post_many, until
from tests.hub.hubs import OpenHub, rows

YEAR_MS = 365 * 86_400_000


@contextlib.contextmanager
def holding(workspace: Workspace, statement: str) -> Iterator[apsw.Connection]:
    """Another program with a transaction of its own on the database."""
    connection = apsw.Connection(str(workspace.db))
    connection.execute(statement)
    connection.execute("SELECT count(*) FROM events").fetchall()
    try:
        yield connection
    finally:
        connection.execute("ROLLBACK")
        connection.close()


async def refused_write(hub: OpenHub, topic: str) -> tuple[str, int]:
    """The reason and Retry-After with which a post is refused."""
    answer = await hub.api.client.post(
        "/api/v1/messages", json={"topic_id": topic, "sender": "ann", "content_raw": "x"}
    )
    assert answer.status_code == 503, answer.text
    body = answer.json()
    assert body["code"] == "SERVICE_UNAVAILABLE"
    return body["details"]["reason"], int(answer.headers["retry-after"])


async def test_part_x_wal_growth_writes_get_503_while_the_log_is_too_large_and_reads_go_on(
    make_server: MakeHub,
) -> None:
    hub = await make_server({"trouble": {"wal_bytes_max": 1024 * 1024}, "checkpoint": {"interval_seconds": 600.0}})
    topic = await hub.api.topic(await hub.api.channel())
    with holding(hub.workspace, "BEGIN"):  # a reader that stays keeps the log from starting over
        await post_many(hub, topic, 30, "a" * 60_000)
        hub.hub.monitor.look()
        reason, retry_after = await refused_write(hub, topic)
        assert reason == "wal_too_large"
        assert retry_after >= 1
        health = await hub.api.get("/health")
        assert health["status"] == "degraded"
        assert "write-ahead log" in health["problems"][0]
        status = await hub.api.get("/api/v1/status")
        assert status["status"] == "degraded"
        assert status["wal_bytes"] > 1024 * 1024
        assert len((await hub.api.get("/api/v1/messages", topic_id=topic))["messages"]) == 30
        async with feed(hub) as client:
            await client.hello()
            assert len(await client.ids(32)) == 32
    writer = open_writer(hub.workspace.db)
    assert checkpoint_once(writer, "truncate").complete
    close_quietly(writer)
    hub.hub.monitor.look()
    await hub.api.post(topic, "it goes on by itself")
    assert (await hub.api.get("/health"))["status"] == "ok"
    assert [entry["event"] for entry in hub.log.entries if entry["event"].startswith("trouble")] == [
        "trouble",
        "trouble_over",
    ]


async def test_h8_after_the_read_that_held_the_log_writes_resume_within_retry_after(make_server: MakeHub) -> None:
    clock = ManualClock()
    hub = await make_server({"trouble": {"wal_bytes_max": 1024 * 1024}}, clock=clock)
    topic = await hub.api.topic(await hub.api.channel())
    with holding(hub.workspace, "BEGIN"):
        await post_many(hub, topic, 30, "a" * 60_000)
        assert (await hub.api.get("/api/v1/status"))["status"] == "degraded"
        reason, retry_after = await refused_write(hub, topic)
        assert reason == "wal_too_large"
    clock.advance(retry_after)
    with contextlib.suppress(TimeoutError):
        await until(lambda: hub.hub.checkpointer.wal_bytes == 0)
    assert (await hub.api.get("/api/v1/status"))["status"] == "ok"
    await hub.api.post(topic, "it goes on by itself")


async def test_h7_an_idle_hub_has_no_old_checkpoint(make_server: MakeHub) -> None:
    clock = ManualClock()
    hub = await make_server(clock=clock)
    await hub.api.channel()
    clock.advance(10)
    await until(lambda: hub.hub.checkpointer.last is not None and hub.hub.checkpointer.last.complete)
    for _ in range(3):
        clock.advance(1_000)
        await hub.hub.monitor.each_minute()
        assert (await hub.api.get("/api/v1/status"))["checkpoint_age_seconds"] < 600
    alerts = [entry["metric"] for entry in hub.log.entries if entry["event"] == "alert"]
    assert "parley_checkpoint_age_seconds" not in alerts


async def test_part_x_disk_space_exhaustion_writes_get_503_while_the_disk_is_low_and_return_with_the_space(
    make_server: MakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await make_server({"trouble": {"disk_free_bytes_min": 1_000_000_000}})
    free = 2_000_000_000
    monkeypatch.setattr("parley.hub.monitor.look_at_disk", lambda _: Disk(free, 10**10))
    hub.hub.monitor.look()
    topic = await hub.api.topic(await hub.api.channel())
    free = 999_999_999
    hub.hub.monitor.look()
    assert (await refused_write(hub, topic))[0] == "disk_low"
    assert (await hub.api.get("/api/v1/topics/" + topic))["topic"]["id"] == topic
    assert (await hub.api.get("/health"))["problems"] == ["Less than 1000000000 bytes are free on the disk"]
    free = 2_000_000_000
    hub.hub.monitor.look()
    await hub.api.post(topic)


async def test_part_x_wal_checkpoint_failure_the_hub_serves_on_and_says_it_is_degraded(make_server: MakeHub) -> None:
    hub = await make_server()
    error = ServiceUnavailable("The disk reported an error", reason="io_error")
    hub.hub.checkpointer._record(CheckpointResult("passive", -1, 0, error))
    hub.hub.monitor.look()
    assert (await hub.api.get("/health"))["problems"] == ["the last 1 checkpoints failed"]
    assert (await hub.api.get("/api/v1/status"))["status"] == "degraded"
    await hub.api.channel("written all the same")
    await hub.hub.monitor.each_minute()
    alerts = [entry for entry in hub.log.entries if entry["event"] == "alert"]
    assert "parley_checkpoint_failures_total" in [entry["metric"] for entry in alerts]


async def test_part_x_sqlite_busy_timeout_a_foreign_write_lock_gives_503_busy_with_retry_after_and_no_partial_state(
    make_server: MakeHub,
) -> None:
    hub = await make_server()
    topic = await hub.api.topic(await hub.api.channel())
    hub.hub.store._writing.set_busy_timeout(50)
    with holding(hub.workspace, "BEGIN IMMEDIATE"):
        reason, retry_after = await refused_write(hub, topic)
        assert (reason, retry_after) == ("busy", 1)
        assert (await hub.api.get("/api/v1/messages", topic_id=topic))["messages"] == []
    await hub.api.post(topic)
    assert rows(hub.workspace, "SELECT count(*) FROM events WHERE name = 'message.created'") == [(1,)]
    assert hub.fold_problems() == []


async def test_part_x_long_running_cli_query_does_not_block_writes_and_sees_its_own_moment(
    make_server: MakeHub,
) -> None:
    hub = await make_server()
    topic = await hub.api.topic(await hub.api.channel())
    with holding(hub.workspace, "BEGIN") as reader:
        for _ in range(20):
            await hub.api.post(topic)
        assert reader.execute("SELECT count(*) FROM messages").fetchall() == [(0,)]
    assert rows(hub.workspace, "SELECT count(*) FROM messages") == [(20,)]


async def test_part_x_clock_skew_event_ids_and_ids_only_grow_when_the_clock_jumps_a_year_in_either_direction(
    make_server: MakeHub,
) -> None:
    clock = ManualClock()
    hub = await make_server(clock=clock)
    topic = await hub.api.topic(await hub.api.channel())
    for jump in (0, YEAR_MS, -2 * YEAR_MS, 3_600_000, YEAR_MS):
        clock.jump(jump)
        await hub.api.post(topic)
    events = rows(hub.workspace, "SELECT event_id, ts FROM events WHERE name = 'message.created' ORDER BY event_id")
    assert [event_id for event_id, _ in events] == [3, 4, 5, 6, 7]
    assert [ts for _, ts in events] != sorted(ts for _, ts in events), "times tell what the clock said"
    listed = (await hub.api.get("/api/v1/messages", topic_id=topic))["messages"]
    ids = [message["id"] for message in reversed(listed)]
    assert ids == sorted(ids)
    assert ids == [i for (i,) in rows(hub.workspace, "SELECT id FROM messages ORDER BY seq")]
    async with feed(hub) as client:
        await client.hello(2)
        assert await client.ids(5) == [3, 4, 5, 6, 7]


async def test_plan_6_5_every_metric_of_the_catalogue_is_at_metrics(make_server: MakeHub) -> None:
    hub = await make_server()
    topic = await hub.api.topic(await hub.api.channel())
    async with feed(hub) as client:
        await client.hello()
        await client.ids(2)
        client.send(0x8, b"\x03\xe8")
        await client.ended()
    await until(lambda: hub.hub.feeds_open == 0)
    hub.hub.store._writing.set_busy_timeout(1)
    with holding(hub.workspace, "BEGIN IMMEDIATE"):
        await refused_write(hub, topic)
    await hub.api.call("POST", "/api/v1/_ping", status=401, headers={"Authorization": "Bearer no"})
    text = (await hub.api.client.get("/metrics")).text
    for spec in METRICS:
        if "plugin" in spec.labels:
            continue  # there is none here; tests/hub/derived looks at them
        starts = tuple(f"{spec.name}{end}" for end in (" ", "{", "_bucket"))
        assert any(line.startswith(starts) for line in text.splitlines()), spec.name
    for line in (
        "parley_event_id 2.0",
        "parley_ws_connections 0.0",
        "parley_ws_connections_peak 1.0",
        "parley_ws_deliveries_total 2.0",
        'parley_ws_closed_total{code="1000"} 1.0',
        'parley_unavailable_total{reason="busy"} 1.0',
        "parley_auth_failures_total 1.0",
        'parley_requests_total{endpoint="/api/v1/messages",status="503"} 1.0',
    ):
        assert line in text.splitlines(), line


async def test_plan_6_5_once_a_minute_the_log_has_a_line_with_every_metric_and_the_alerts(
    make_server: MakeHub,
) -> None:
    hub = await make_server({"trouble": {"wal_bytes_max": 1024 * 1024}, "checkpoint": {"interval_seconds": 600.0}})
    for _ in range(12):
        await hub.api.call("POST", "/api/v1/_ping", status=401, headers={"Authorization": "Bearer no"})
    await hub.hub.monitor.each_minute()
    (line,) = [entry for entry in hub.log.entries if entry["event"] == "metrics"]
    assert set(line["metrics"]) == {spec.name for spec in METRICS}
    alerts = {entry["metric"]: entry for entry in hub.log.entries if entry["event"] == "alert"}
    assert alerts["parley_auth_failures_total"]["alert"] == "warn"
    assert alerts["parley_auth_failures_total"]["log_level"] == "warning"
    assert (await hub.api.get("/api/v1/status"))["metrics"]["parley_auth_failures_total"]["per_minute"] == 12.0
    json.dumps(line["metrics"])
    hub.log.entries.clear()
    await hub.hub.monitor.each_minute()
    again = {entry["metric"] for entry in hub.log.entries if entry["event"] == "alert"}
    assert "parley_auth_failures_total" not in again, "an alert is about the last minute"


async def test_once_a_minute_old_idempotency_keys_are_forgotten_and_a_closed_gate_only_puts_it_off(
    make_server: MakeHub,
) -> None:
    clock = ManualClock()
    hub = await make_server(clock=clock)
    body = {"name": "once"}
    await hub.api.call("POST", "/api/v1/channels", body, status=201, headers={"Idempotency-Key": "k"})
    clock.advance(8 * 86_400)
    hub.hub.store.writer.refuse_with = ServiceUnavailable("full", reason="disk_low")
    await hub.hub.monitor.each_minute()
    assert any(entry["event"] == "keys_not_forgotten" for entry in hub.log.entries)
    hub.hub.monitor.look()
    await hub.hub.monitor.each_minute()
    assert rows(hub.workspace, "SELECT count(*) FROM idempotency_keys") == [(0,)]


async def test_a_large_move_that_trouble_interrupted_goes_on_when_the_trouble_is_over(make_server: MakeHub) -> None:
    hub = await make_server({"limits": {"move_batch_max": 10}})
    channel = await hub.api.channel()
    source, target = await hub.api.topic(channel, "from"), await hub.api.topic(channel, "to")
    await post_many(hub, source, 100)
    first = rows(hub.workspace, "SELECT id FROM messages ORDER BY seq LIMIT 1")[0][0]
    moving = asyncio.create_task(hub.api.patch(first, "move_topic", status=503, to_topic_id=target, mode="all"))
    await until(lambda: hub.hub.feed.latest > 103)
    hub.hub.store.writer.refuse_with = ServiceUnavailable("full", reason="disk_low")
    assert (await moving)["details"]["reason"] == "disk_low"
    in_source = "SELECT count(*) FROM messages WHERE topic_id = ?"
    assert rows(hub.workspace, in_source, source) != [(0,)]
    hub.hub.monitor.look()
    await hub.hub.monitor.each_minute()
    await until(lambda: rows(hub.workspace, in_source, source) == [(0,)])
    assert rows(hub.workspace, "SELECT count(*) FROM events WHERE name = 'message.moved_topic'") == [(100,)]


async def test_the_monitor_looks_every_second_and_tells_the_minute(
    make_server: MakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.hub.monitor.LOOK_SECONDS", 0.001)
    clock = ManualClock()
    hub = await make_server(clock=clock)
    watching = asyncio.create_task(hub.hub.monitor.run())

    def minutes() -> int:
        return sum(entry["event"] == "metrics" for entry in hub.log.entries)

    hub.workspace.token.write_text("c" * 64)
    await until(lambda: hub.token == "c" * 64)
    assert minutes() == 0
    for told in (1, 2):
        clock.advance(60)
        await until(lambda: minutes() == told)  # noqa: B023  -- awaited at once
    watching.cancel()


async def test_a_server_json_that_cannot_be_written_after_a_rotation_is_told_and_the_token_is_valid(
    make_server: MakeHub,
) -> None:
    hub = await make_server()

    def cannot() -> None:
        raise StartupFailed("Cannot write server.json: No space left on device")

    hub.hub._token_changed = cannot
    hub.workspace.token.write_text("d" * 64)
    hub.hub.monitor.look()
    assert hub.token == "d" * 64
    assert any(entry["event"] == "server_file_not_written" for entry in hub.log.entries)
    await hub.api.call("POST", "/api/v1/token/rotate")


async def test_a_rotation_on_a_disk_that_takes_no_file_is_refused_with_503_and_changes_nothing(
    make_server: MakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await make_server()
    before = hub.token

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("parley.serve.token.write_atomic", full)
    body = await hub.api.call("POST", "/api/v1/token/rotate", status=503)
    assert body["code"] == "SERVICE_UNAVAILABLE"
    assert hub.token == before


async def test_a_writer_that_dies_stops_the_hub_and_refuses_writes_with_a_reason(make_server: MakeHub) -> None:
    hub = await make_server()

    def dies(_: Any) -> None:
        raise SystemExit("the thread ends")

    with pytest.raises(Exception, match="writer has died"):
        await hub.hub.store.write(dies)
    await until(lambda: hub.stops == ["writer_died"])
    answer = await hub.api.client.post("/api/v1/channels", json={"name": "x"})
    assert answer.status_code in (500, 503)
    assert (await hub.api.get("/api/v1/channels"))["channels"] == []
