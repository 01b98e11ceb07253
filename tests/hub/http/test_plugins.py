"""``GET /api/v1/plugins``, ``POST /api/v1/plugins/re_enrich``, and plugins in status and metrics."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.hub.derived.modules import HURTS, WORDS
from tests.hub.derived.world import PluginHub, PluginWorld, needs_sandbox, plugin
from tests.hub.hubs import Api

MEMBERS = {
    "name",
    "type",
    "source",
    "state",
    "problem",
    "network",
    "deadline_seconds",
    "waiting",
    "failed",
    "oldest_waiting_seconds",
    "runs_total",
    "failures_total",
    "last_error",
}


@pytest.fixture
async def waiting(tmp_path: Path) -> AsyncGenerator[PluginHub]:
    """A hub whose own plugins nobody has trusted, so that their jobs stay."""
    world = PluginWorld(
        tmp_path / "w",
        {"words.py": WORDS},
        [
            plugin("words", "words.py", network=True, deadline_seconds=7.0),
            plugin("names", "words.py"),
            plugin("off", "words.py", enabled=False),
        ],
    )
    async with world.open(trusted=False) as hub:
        yield hub


async def test_a_hub_without_plugins_has_none_and_no_work(api: Api) -> None:
    assert await api.get("/api/v1/plugins") == {"plugins": []}
    work = (await api.get("/api/v1/status"))["plugins"]
    assert work == {"waiting": 0, "failed": 0, "oldest_waiting_seconds": 0.0}


async def test_plugins_are_listed_in_the_order_of_the_settings_with_all_members(waiting: PluginHub) -> None:
    listed = (await waiting.api.get("/api/v1/plugins"))["plugins"]
    assert [each["name"] for each in listed] == ["words", "names", "off"]
    assert all(set(each) == MEMBERS for each in listed)
    words = listed[0]
    assert (words["type"], words["source"], words["network"]) == ("linkifier", "words.py", True)
    assert [each["deadline_seconds"] for each in listed] == [7.0, 30.0, 30.0]
    assert [each["state"] for each in listed] == ["untrusted", "untrusted", "disabled"]


async def test_status_and_metrics_show_depth_and_age_of_the_queue(waiting: PluginHub) -> None:
    topic = await waiting.topic()
    for number in range(3):
        await waiting.api.post(topic, f"{number}")
    waiting.hub.store._writing.execute("UPDATE jobs SET queued_at = '2020-01-01T00:00:00.000Z' WHERE id = 2")
    waiting.hub.store._writing.execute("UPDATE jobs SET state = 'failed' WHERE id = 6")
    work = (await waiting.api.get("/api/v1/status"))["plugins"]
    assert (work["waiting"], work["failed"]) == (5, 1)
    age = work["oldest_waiting_seconds"]
    assert age > 100_000_000
    assert await waiting.metric("parley_jobs_waiting") == 5
    assert await waiting.metric("parley_jobs_failed") == 1
    assert await waiting.metric("parley_jobs_oldest_seconds") >= age
    words, names, _ = (await waiting.api.get("/api/v1/plugins"))["plugins"]
    assert [(each["waiting"], each["failed"]) for each in (words, names)] == [(3, 0), (2, 1)]
    assert words["oldest_waiting_seconds"] < age <= names["oldest_waiting_seconds"]


@needs_sandbox
async def test_metrics_count_runs_by_outcome_and_failures_by_reason(tmp_path: Path) -> None:
    world = PluginWorld(tmp_path / "w", {"hurts.py": HURTS}, [plugin("hurts", "hurts.py")])
    async with world.open({"plugin_defaults": {"attempts_max": 2}}) as hub:
        topic = await hub.topic()
        for content in ("good", "raises", "fine"):
            await hub.api.post(topic, content)
        await hub.settled()
        assert await hub.metric("parley_plugin_runs_total", plugin="hurts", outcome="stored") == 2
        assert await hub.metric("parley_plugin_runs_total", plugin="hurts", outcome="failed") == 2
        assert await hub.metric("parley_plugin_failures_total", plugin="hurts", reason="error") == 2
        assert await hub.metric("parley_plugin_run_seconds_count", plugin="hurts") == 4
        health = await hub.health("hurts")
        assert (health["runs_total"], health["failures_total"], health["failed"]) == (4, 2, 1)


@needs_sandbox
async def test_re_enrich_has_messages_looked_at_again_and_counts_the_jobs(tmp_path: Path) -> None:
    world = PluginWorld(tmp_path / "w", {"words.py": WORDS}, [plugin("words", "words.py"), plugin("names", "words.py")])
    async with world.open() as hub:
        topic = await hub.topic()
        await hub.api.post(topic, "early")
        boundary = (await hub.api.events())[-1]["event_id"]
        late = (await hub.api.post(topic, "late"))["id"]
        gone = (await hub.api.post(topic, "gone"))["id"]
        await hub.settled()
        await hub.api.patch(gone, "delete", actor="ann")
        enriched = len(await hub.events("message.enriched"))

        async def again(**body: object) -> int:
            return (await hub.api.call("POST", "/api/v1/plugins/re_enrich", body))["queued"]

        assert await again(since_event_id=boundary) == 2
        await hub.settled()
        assert await again(since_event_id=0, plugin_name="names") == 2
        await hub.settled()
        assert await again(since_event_id=10**9) == 0
        assert (await hub.health("words"))["runs_total"] == 4
        assert (await hub.health("names"))["runs_total"] == 6
        assert await hub.words(late) == [("late", 1)]
        assert len(await hub.events("message.enriched")) == enriched, "what is found again is no news"


async def test_findings_that_somebody_stores_leave_the_job_of_the_plugin_waiting(waiting: PluginHub) -> None:
    message = await waiting.api.post(await waiting.topic(), "hello")
    body = {"plugin_name": "words", "version": 1, "enrichments": []}
    await waiting.api.call("POST", f"/api/v1/messages/{message['id']}/findings", body)
    assert (await waiting.health("words"))["waiting"] == 1


async def test_re_enrich_queues_failed_jobs_with_all_their_attempts(waiting: PluginHub) -> None:
    message = (await waiting.api.post(await waiting.topic(), "x"))["id"]
    waiting.hub.store._writing.execute("UPDATE jobs SET state = 'failed', attempts = 3, problem = 'no'")
    body = {"since_event_id": 0, "plugin_name": "words"}
    assert await waiting.api.call("POST", "/api/v1/plugins/re_enrich", body) == {"queued": 1}
    assert waiting.jobs() == [(message, "words", "waiting", 0, None), (message, "names", "failed", 3, "no")]


async def test_a_long_history_is_queued_in_steps_that_cover_all_of_it(
    waiting: PluginHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.hub.derived.derived.HISTORY_STEP", 3)
    topic = await waiting.topic()
    messages = [(await waiting.api.post(topic, f"{number}"))["id"] for number in range(10)]
    waiting.hub.store._writing.execute("DELETE FROM jobs")
    assert await waiting.api.call("POST", "/api/v1/plugins/re_enrich", {"since_event_id": 0}) == {"queued": 20}
    assert sorted({row[0] for row in waiting.jobs()}) == messages


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "INVALID_INPUT"),
        ({"since_event_id": -1}, 400, "INVALID_INPUT"),
        ({"since_event_id": "1"}, 400, "INVALID_INPUT"),
        ({"since_event_id": 0, "plugin_name": ""}, 400, "INVALID_INPUT"),
        ({"since_event_id": 0, "plugin_name": "unknown"}, 404, "NOT_FOUND"),
        ({"since_event_id": 0, "plugin_name": "off"}, 404, "NOT_FOUND"),
    ],
)
async def test_re_enrich_refuses_what_it_cannot_do(waiting: PluginHub, body: object, status: int, code: str) -> None:
    answer = await waiting.api.call("POST", "/api/v1/plugins/re_enrich", body, status=status)
    assert answer["code"] == code
    assert waiting.jobs() == []
