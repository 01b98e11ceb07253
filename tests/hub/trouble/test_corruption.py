"""Part X, corruption detection: a damaged database is not served, not at a start and not while serving."""

import asyncio
import threading
from pathlib import Path

import pytest

from parley.app.repair import repair
from parley.core.clock import ManualClock, SystemClock
from parley.core.errors import DatabaseCorrupt
from parley.core.exits import Exit
from parley.core.settings import Settings
from parley.hub.lifecycle import prepare_database
from tests.hub.conftest import MakeHub
from tests.hub.damage import damage_file
from tests.hub.feed.clients import feed, post_many, until
from tests.hub.hubs import OpenHub, open_hub, workspace_in
from tests.hub.lifecycle.here import run_here
from tests.hub.lifecycle.processes import HubProcess, make_topic, post


@pytest.fixture
async def hub(make_server: MakeHub) -> OpenHub:
    opened = await make_server()
    topic = await opened.api.topic(await opened.api.channel())
    await post_many(opened, topic, 2_000, "words and words " * 30)
    return opened


async def test_damage_found_by_a_read_stops_the_hub_and_marks_the_database(hub: OpenHub) -> None:
    damage_file(hub.workspace.db)
    body = await hub.api.get("/api/v1/search", q="nothing like it", status=503)
    assert body["code"] == "DATABASE_CORRUPT"
    await until(lambda: hub.stops == ["corrupt"])
    assert hub.workspace.suspect.read_text() == "The database is damaged\n"
    refused = await hub.api.call("POST", "/api/v1/channels", {"name": "other"}, status=503)
    assert refused["code"] == "DATABASE_CORRUPT"
    hub.hub.monitor.look()
    refused = await hub.api.call("POST", "/api/v1/channels", {"name": "other"}, status=503)
    assert refused["code"] == "DATABASE_CORRUPT", "no look of the monitor opens the gate again"
    assert hub.stops == ["corrupt"], "it is told once"


async def test_damage_found_on_a_readers_thread_is_told_on_the_loop(hub: OpenHub) -> None:
    """A stop asked for on another thread would not wake the loop."""
    told_on: list[threading.Thread] = []
    hub.hub._stop = lambda reason: told_on.append(threading.current_thread())
    damage_file(hub.workspace.db)
    async with feed(hub) as client:
        await client.hello()
        assert (await client.closing()).close_code == 1011
    await until(lambda: bool(told_on))
    assert told_on == [threading.current_thread()]


async def test_a_mark_that_cannot_be_written_does_not_keep_the_hub_from_stopping(hub: OpenHub) -> None:
    hub.workspace.suspect.mkdir()
    hub.hub._corrupt(DatabaseCorrupt("The database is damaged"))
    assert hub.stops == ["corrupt"]
    assert hub.hub.failure is not None
    assert any(entry["event"] == "suspect_not_written" for entry in hub.log.entries)


async def test_while_the_mark_is_there_no_hub_starts_on_the_database(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as sound:
        await sound.api.channel()
    workspace = workspace_in(tmp_path)
    workspace.suspect.write_text("The database is damaged\n")
    with pytest.raises(DatabaseCorrupt, match="An earlier run found"):
        prepare_database(workspace, Settings(), ManualClock())
    done = repair(workspace, SystemClock())
    assert any("removed SUSPECT" in line for line in done)
    async with open_hub(tmp_path) as again:
        assert len((await again.api.get("/api/v1/channels"))["channels"]) == 1


async def test_a_damaged_page_is_found_at_the_start_which_exits_21_and_says_what_to_do(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as sound:
        topic = await sound.api.topic(await sound.api.channel())
        await post_many(sound, topic, 500, "words and words " * 30)
    workspace = workspace_in(tmp_path)
    damage_file(workspace.db)
    damaged = workspace.db.read_bytes()
    with pytest.raises(DatabaseCorrupt) as refused:
        await asyncio.to_thread(run_here, tmp_path)
    assert refused.value.exit_code == Exit.CORRUPT == 21
    assert "doctor --repair" in refused.value.hint
    assert workspace.db.read_bytes() == damaged, "what is left is not made worse"
    assert not workspace.server_file.exists()


def test_damage_met_while_serving_ends_the_process_with_21_until_somebody_repairs(tmp_path: Path) -> None:
    hub = HubProcess(tmp_path).start()
    try:
        with hub.client() as client:
            topic = make_topic(client)
            for _ in range(10):
                post(client, topic, "words " * 10_000)
            damage_file(hub.workspace.db)
            answer = client.get("/api/v1/search", params={"q": "nothing like it"})
            assert (answer.status_code, answer.json()["code"]) == (503, "DATABASE_CORRUPT")
        assert hub.ended() == Exit.CORRUPT
    finally:
        if hub._process is not None:
            hub.kill()
    assert hub.workspace.suspect.exists()
    code, said = hub.refused()
    assert (code, said["code"]) == (21, "DATABASE_CORRUPT")
