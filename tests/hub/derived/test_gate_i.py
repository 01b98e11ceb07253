"""Gate I: what happens to a message while a plugin looks at it. The plugins' processes are real; the test holds them
still, changes the message, and lets them go on with what they had read."""

from pathlib import Path
from typing import Any

import pytest

from parley.core.clock import SystemClock
from tests.hub.derived.modules import FILES, WORDS
from tests.hub.derived.world import PluginHub, PluginWorld, held_still, needs_sandbox, plugin, until

pytestmark = needs_sandbox
MODULES = {"words.py": WORDS, "files.py": FILES}
PLUGINS = [plugin("words", "words.py"), plugin("files", "files.py", "extractor")]


async def warm(hub: PluginHub) -> str:
    """Has both processes started, so that there is something to hold still; the topic."""
    topic = await hub.topic()
    await hub.api.post(topic, "warm")
    await hub.settled()
    return topic


async def outcomes(hub: PluginHub, name: str) -> dict[str, float]:
    return {
        outcome: await hub.metric("parley_plugin_runs_total", plugin=name, outcome=outcome)
        for outcome in ("stored", "stale", "gone", "failed")
    }


async def attachments(hub: PluginHub, topic: str) -> list[Any]:
    found = (await hub.api.get(f"/api/v1/topics/{topic}/attachments"))["attachments"]
    return sorted(each["value_json"]["path"] for each in found)


async def test_gate_i_aba_an_edit_and_an_edit_back_during_a_run_publish_only_the_newest_version(tmp_path: Path) -> None:
    async with PluginWorld(tmp_path / "w", MODULES, PLUGINS).open() as hub:
        topic = await warm(hub)
        with held_still():
            message = (await hub.api.post(topic, "A a.txt"))["id"]
            for name in ("words", "files"):
                await hub.under_way(name, message)
            await hub.api.patch(message, "edit", content_raw="B b.txt")
            await hub.api.patch(message, "edit", content_raw="A a.txt")
        await hub.settled()
        assert await hub.words(message) == [("A", 3), ("a.txt", 3)]
        (event,) = [each for each in await hub.events("message.enriched") if each["entity"]["id"] == message]
        assert event["data_json"]["version"] == 3
        for name in ("words", "files"):
            assert await outcomes(hub, name) == {"stored": 2, "stale": 1, "gone": 0, "failed": 0}
        assert await attachments(hub, topic) == ["a.txt"], "B was never looked at and A is there once"
        assert hub.opened.fold_problems() == []


async def test_gate_i_many_edits_during_a_run_cost_one_more_run(tmp_path: Path) -> None:
    async with PluginWorld(tmp_path / "w", MODULES, PLUGINS).open() as hub:
        topic = await warm(hub)
        with held_still():
            message = (await hub.api.post(topic, "first"))["id"]
            await hub.under_way("words", message)
            for number in range(10):
                await hub.api.patch(message, "edit", content_raw=f"edit {number}")
        await hub.settled()
        assert await hub.words(message) == [("edit", 11), ("9", 11)]
        assert await outcomes(hub, "words") == {"stored": 2, "stale": 1, "gone": 0, "failed": 0}


async def test_gate_i_a_delete_during_a_run_leaves_no_derived_row_and_no_event(tmp_path: Path) -> None:
    async with PluginWorld(tmp_path / "w", MODULES, PLUGINS).open() as hub:
        topic = await warm(hub)
        before = len(await hub.events("message.enriched", "topic.attachment_added"))
        with held_still():
            message = (await hub.api.post(topic, "secret secret.txt"))["id"]
            for name in ("words", "files"):
                await hub.under_way(name, message)
            await hub.api.patch(message, "delete", actor="ann")
        for name in ("words", "files"):
            await until(lambda name=name: _counted(hub, name, "gone"))
        assert hub.jobs() == []
        assert await hub.found(message) == []
        assert len(await hub.events("message.enriched", "topic.attachment_added")) == before
        assert await attachments(hub, topic) == []
        assert hub.opened.fold_problems() == []


async def _counted(hub: PluginHub, name: str, outcome: str) -> bool:
    return (await outcomes(hub, name))[outcome] == 1


async def test_gate_i_a_move_during_a_run_has_it_run_again_and_its_findings_go_where_the_message_is(
    tmp_path: Path,
) -> None:
    async with PluginWorld(tmp_path / "w", MODULES, PLUGINS).open() as hub:
        topic = await warm(hub)
        channel = (await hub.api.get(f"/api/v1/topics/{topic}"))["topic"]["channel_id"]
        target = await hub.api.topic(channel, "elsewhere")
        with held_still():
            message = (await hub.api.post(topic, "see a.txt"))["id"]
            for name in ("words", "files"):
                await hub.under_way(name, message)
            await hub.api.patch(message, "move_topic", to_topic_id=target, mode="one")
        await hub.settled()
        assert (await attachments(hub, topic), await attachments(hub, target)) == ([], ["a.txt"])
        assert await hub.words(message) == [("see", 2), ("a.txt", 2)]
        (event,) = [each for each in await hub.events("message.enriched") if each["entity"]["id"] == message]
        assert event["scope"]["topic_id"] == target
        for name in ("words", "files"):
            assert await outcomes(hub, name) == {"stored": 2, "stale": 1, "gone": 0, "failed": 0}


async def test_gate_i_a_move_of_a_message_whose_plugins_are_done_runs_nothing(tmp_path: Path) -> None:
    async with PluginWorld(tmp_path / "w", MODULES, PLUGINS).open() as hub:
        topic = await warm(hub)
        message = (await hub.api.post(topic, "hello"))["id"]
        await hub.settled()
        channel = (await hub.api.get(f"/api/v1/topics/{topic}"))["topic"]["channel_id"]
        target = await hub.api.topic(channel, "elsewhere")
        await hub.api.patch(message, "move_topic", to_topic_id=target, mode="one")
        last = (await hub.api.post(topic, "the last one"))["id"]
        await hub.settled()
        assert await hub.words(last) != []
        assert await hub.words(message) == [("hello", 1)]
        assert (await outcomes(hub, "words"))["stored"] == 3


@pytest.mark.parametrize("workers", [1, 3])
async def test_gate_i_edits_at_any_time_leave_each_message_with_the_findings_of_its_newest_version(
    tmp_path: Path, workers: int
) -> None:
    """Many messages under constant editing, deleting and moving, with one process and with several."""
    world = PluginWorld(tmp_path / "w", MODULES, PLUGINS)
    async with world.open({"plugin_defaults": {"workers": workers, "batch": 4, "settle_ms": 1}}) as hub:
        topic = await hub.topic()
        channel = (await hub.api.get(f"/api/v1/topics/{topic}"))["topic"]["channel_id"]
        target = await hub.api.topic(channel, "elsewhere")
        messages = [(await hub.api.post(topic, f"message {number} a{number}.txt"))["id"] for number in range(24)]
        for turn in range(5):
            for number, message in enumerate(messages):
                if (number + turn) % 3 == 0:
                    await hub.api.patch(message, "edit", content_raw=f"edit {turn} of {number}")
        for message in messages[::6]:
            await hub.api.patch(message, "delete", actor="ann")
        for message in messages[1::6]:
            await hub.api.patch(message, "move_topic", to_topic_id=target, mode="one")
        await hub.settled()
        assert hub.jobs() == []
        for message in messages:
            now = (await hub.api.get(f"/api/v1/messages/{message}"))["message"]
            found = await hub.words(message)
            if now["deleted_at"] is not None:
                assert found == []
                continue
            assert [word for word, _ in found] == now["content_raw"].split(" ")
            assert len({version for _, version in found}) == 1
        enriched = [
            (each["entity"]["id"], each["data_json"]["version"]) for each in await hub.events("message.enriched")
        ]
        assert len(enriched) == len(set(enriched)), "no version was told of twice"
        assert hub.opened.fold_problems() == []


class HastyClock(SystemClock):
    """Time passes with every look at it, as on a machine that is very busy."""

    def __init__(self) -> None:
        self._hurried_ms = 0

    def now_ms(self) -> int:
        self._hurried_ms += 10
        return super().now_ms() + self._hurried_ms


async def test_a_job_that_becomes_due_while_it_is_looked_for_is_not_forgotten(tmp_path: Path) -> None:
    """Nothing else happens that would have the plugin's jobs looked for again."""
    world = PluginWorld(tmp_path / "w", MODULES, PLUGINS[:1])
    async with world.open({"plugin_defaults": {"settle_ms": 15}}, clock=HastyClock()) as hub:
        topic = await warm(hub)
        message = (await hub.api.post(topic, "0"))["id"]
        await hub.settled()
        for number in range(1, 8):
            await hub.api.patch(message, "edit", content_raw=str(number))
            await hub.settled()
            assert await hub.words(message) == [(str(number), number + 1)]
