"""``/health`` and ``/api/v1/status``."""

import os

from tests.hub.conftest import MakeHub
from tests.hub.hubs import INSTANCE_ID, OpenHub


async def test_health_needs_no_token_and_says_who_answers(hub: OpenHub) -> None:
    answer = await hub.api.client.get("/health", headers={"Authorization": ""})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json;charset=utf-8"
    assert answer.json() == {
        "status": "ok",
        "instance_id": INSTANCE_ID,
        "db_id": hub.hub.db_id,
        "schema_version": 1,
        "protocol_version": "v1",
        "pid": os.getpid(),
        "uptime_seconds": 0,
        "problems": [],
    }


async def test_health_counts_the_uptime(hub: OpenHub) -> None:
    hub.clock.advance(90.5)
    assert (await hub.api.get("/health"))["uptime_seconds"] == 90


async def test_a_served_hub_answers_on_its_socket(make_server: MakeHub) -> None:
    served = await make_server()
    assert (await served.api.get("/health"))["status"] == "ok"
    assert served.hub.port > 0


async def test_status_tells_sizes_and_the_newest_event(hub: OpenHub) -> None:
    await hub.api.channel()
    status = await hub.api.get("/api/v1/status")
    assert status["status"] == "ok"
    assert status["problems"] == []
    assert status["latest_event_id"] == 1
    assert status["db_bytes"] > 0
    assert status["wal_bytes"] > 0
    assert status["ws_connections"] == 0
