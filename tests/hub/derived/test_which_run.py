"""Which plugins run: those that are trusted, whole and configured; and what becomes of the work of the others."""

from pathlib import Path
from typing import Any

import pytest

from parley.core.clock import SystemClock
from parley.core.errors import PluginUnavailable, ServiceUnavailable
from parley.hub.derived.loading import PluginSource
from tests.hub.derived.modules import FILES, WORDS
from tests.hub.derived.world import PluginWorld, held_still, needs_sandbox, plugin, until
from tests.hub.hubs import rows, settings_of, workspace_in

pytestmark = needs_sandbox


def words_world(folder: Path, module: str = WORDS, **keys: Any) -> PluginWorld:
    return PluginWorld(folder, {"words.py": module}, [plugin("words", "words.py", **keys)])


async def test_an_untrusted_plugin_waits_and_works_off_what_waited_once_it_is_trusted(tmp_path: Path) -> None:
    world = words_world(tmp_path / "w")
    async with world.open(trusted=False) as hub:
        topic = await hub.topic()
        messages = [(await hub.api.post(topic, f"number {number}"))["id"] for number in range(3)]
        health = await hub.health("words")
        assert (health["state"], health["waiting"], health["runs_total"]) == ("untrusted", 3, 0)
        assert "parley trust" in health["problem"]
        assert [entry["state"] for entry in hub.logged("plugin_not_run")] == ["untrusted"]
        hub.hub.monitor.look()
        assert (await hub.health("words"))["state"] == "untrusted"
        world.trust()
        hub.hub.monitor.look()
        assert (await hub.health("words"))["state"] == "ready"
        await hub.settled()
        for number, message in enumerate(messages):
            assert await hub.words(message) == [("number", 1), (str(number), 1)]
        assert await hub.events("plugin.failed") == []


async def test_what_is_wrong_in_a_module_is_told_when_it_is_trusted_and_the_hub_goes_on(tmp_path: Path) -> None:
    """Nobody looks into a module before that."""
    world = words_world(tmp_path / "w", "def enrich(message, config:\n")
    async with world.open(trusted=False) as hub:
        assert (await hub.health("words"))["state"] == "untrusted"
        world.trust()
        hub.hub.monitor.look()
        assert (await hub.health("words"))["state"] == "broken"
        event = await hub.event("plugin.failed")
        assert event["data_json"]["plugin_name"] == "words"
        assert [entry["state"] for entry in hub.logged("plugin_not_run")] == ["untrusted", "broken"]
        hub.hub.monitor.look()
        assert len(await hub.events("plugin.failed")) == 1


async def test_a_change_of_the_module_after_it_was_trusted_is_not_run(tmp_path: Path) -> None:
    world = words_world(tmp_path / "w")
    world.trust()
    (tmp_path / "w" / "words.py").write_text(WORDS.replace("word", "WORD"))
    async with world.open(trusted=False) as hub:
        assert (await hub.health("words"))["state"] == "untrusted"


async def test_part_x_a_missing_module_is_a_warning_and_an_event_and_the_hub_serves(tmp_path: Path) -> None:
    world = PluginWorld(tmp_path / "w", {"words.py": WORDS}, [plugin("gone", "gone.py"), plugin("words", "words.py")])
    async with world.open() as hub:
        event = await hub.event("plugin.failed")
        assert (event["data_json"]["plugin_name"], event["scope"]) == (
            "gone",
            {"channel_id": None, "topic_id": None, "topic_id2": None},
        )
        assert "gone.py does not exist" in event["data_json"]["reason"]
        assert [(entry["plugin"], entry["state"]) for entry in hub.logged("plugin_not_run")] == [("gone", "broken")]
        message = (await hub.api.post(await hub.topic(), "still served"))["id"]
        await hub.settled("words")
        assert await hub.words(message) == [("still", 1), ("served", 1)]
        assert (await hub.health("gone"))["waiting"] == 1, "it finds what it missed once it is there"


@pytest.mark.parametrize(("module", "trusted"), [("gone.py", True), ("words.py", False), ("needs.py", True)])
def test_a_required_plugin_that_cannot_run_refuses_the_start(tmp_path: Path, module: str, trusted: bool) -> None:
    files = {"words.py": WORDS, "needs.py": f"import no_such_package\n{WORDS}"}
    world = PluginWorld(tmp_path / "w", files, [plugin("words", module, required=True)])
    if trusted:
        world.trust()
    workspace, settings = workspace_in(world.folder), settings_of(world.tables())
    source = PluginSource(workspace, settings, world.home)
    with pytest.raises(PluginUnavailable, match="required plugin words"):
        source.refuse_without_required(SystemClock())


async def test_a_disabled_plugin_gets_no_jobs_and_a_required_one_that_runs_is_no_problem(tmp_path: Path) -> None:
    world = PluginWorld(
        tmp_path / "w",
        {"words.py": WORDS},
        [plugin("off", "words.py", enabled=False, required=True), plugin("words", "words.py", required=True)],
    )
    async with world.open() as hub:
        world.source(hub.opened.workspace, hub.hub.settings).refuse_without_required(SystemClock())
        message = (await hub.api.post(await hub.topic(), "hello"))["id"]
        await hub.settled()
        assert await hub.words(message) == [("hello", 1)]
        health = await hub.health("off")
        assert (health["state"], health["waiting"]) == ("disabled", 0)
        assert hub.jobs() == []


async def test_jobs_of_a_plugin_that_was_removed_are_dropped_at_the_start(tmp_path: Path) -> None:
    world = PluginWorld(tmp_path / "w", {"words.py": WORDS}, [plugin("old", "words.py"), plugin("words", "words.py")])
    async with world.open(trusted=False) as hub:
        message = (await hub.api.post(await hub.topic(), "hello"))["id"]
        assert [row[1] for row in hub.jobs()] == ["old", "words"]
    world.plugins = world.plugins[1:]
    async with world.open(trusted=False) as hub:
        assert [row[:2] for row in hub.jobs()] == [(message, "words")]
        assert [entry["jobs"] for entry in hub.logged("jobs_dropped")] == [1]
    world.plugins = []
    async with world.open(trusted=False) as hub:
        assert hub.jobs() == []


async def test_part_x_several_plugins_see_the_same_message_and_one_attachment_is_added_once(tmp_path: Path) -> None:
    world = PluginWorld(
        tmp_path / "w",
        {"words.py": WORDS, "files.py": FILES},
        [
            plugin("words", "words.py"),
            plugin("files", "files.py", "extractor"),
            plugin("again", "files.py", "extractor"),
        ],
    )
    async with world.open({"plugin_defaults": {"workers": 2}}) as hub:
        topic = await hub.topic()
        messages = [(await hub.api.post(topic, f"see a.txt and b{number}.txt"))["id"] for number in range(5)]
        await hub.settled()
        for message in messages:
            assert len(await hub.words(message)) == 4
        added = [event["data_json"]["attachment"] for event in await hub.events("topic.attachment_added")]
        assert sorted(each["value_json"]["path"] for each in added) == ["a.txt", *(f"b{n}.txt" for n in range(5))]
        assert rows(hub.opened.workspace, "SELECT count(*) FROM topic_attachments") == [(6,)]
        assert len(await hub.events("message.enriched")) == 5
        for name in ("words", "files", "again"):
            assert (await hub.health(name))["runs_total"] == 5
        assert hub.opened.fold_problems() == []


async def test_the_built_in_plugins_need_no_trust(tmp_path: Path) -> None:
    world = PluginWorld(tmp_path / "w", {}, [plugin("links"), plugin("urls", kind="extractor")])
    async with world.open({"urls": {"extract": False}}, trusted=False) as hub:
        topic = await hub.topic()
        message = (await hub.api.post(topic, "see src/parley/core/ids.py and https://example.org/x"))["id"]
        await hub.settled()
        assert "src/parley/core/ids.py" in str(await hub.found(message, "links"))
        attachments = (await hub.api.get(f"/api/v1/topics/{topic}/attachments"))["attachments"]
        assert [each["value_json"]["url"] for each in attachments] == ["https://example.org/x"]
        assert (await hub.health("links"))["source"] == "built-in"


async def test_a_stopped_hub_leaves_what_it_did_not_do_and_the_next_one_does_it(tmp_path: Path) -> None:
    hang_once = WORDS.replace("    found, start", '    while config["hang"]:\n        pass\n    found, start', 1)
    world = words_world(tmp_path / "w", hang_once, config={"hang": True})
    async with world.open() as hub:
        message = (await hub.api.post(await hub.topic(), "hello"))["id"]
        await hub.under_way("words", message)
    assert hub.jobs() == [(message, "words", "waiting", 0, None)], "its end was ours, not a failure"
    world.plugins = [plugin("words", "words.py", config={"hang": False})]
    async with world.open() as hub:
        await hub.settled()
        assert await hub.words(message) == [("hello", 1)]


async def test_results_that_the_writer_refuses_are_worked_out_again(tmp_path: Path) -> None:
    """As when the disk is nearly full; nothing is lost, since the job is still there."""
    world = words_world(tmp_path / "w")
    async with world.open() as hub:
        topic = await hub.topic()
        await hub.api.post(topic, "warm")
        await hub.settled()
        with held_still():
            message = (await hub.api.post(topic, "hello"))["id"]
            await hub.under_way("words", message)
            hub.hub.store.writer.refuse_with = ServiceUnavailable("The disk is nearly full", reason="disk_low")

        async def refused() -> bool:
            return bool(hub.logged("plugin_results_refused"))

        await until(refused)
        assert [row[:4] for row in hub.jobs()] == [(message, "words", "waiting", 0)]
        hub.hub.store.writer.refuse_with = None
        await hub.settled()
        assert await hub.words(message) == [("hello", 1)]
