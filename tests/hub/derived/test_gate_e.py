"""Gate E: whatever a plugin does, in a real process in the real sandbox, the hub and the other plugins go on."""

from pathlib import Path

import pytest

from tests.hub.derived.modules import FILES, HURTS, WORDS
from tests.hub.derived.world import PluginWorld, jails, needs_sandbox, plugin, until

pytestmark = needs_sandbox
REASONS = {
    "hang": {"timeout"},
    "spin": {"timeout"},
    "crash": {"crash"},
    "leave": {"crash"},
    "bomb": {"timeout"},
    "allocate": {"error"},
    "large": {"error", "timeout"},  # too large, or slow about it
    "endless": {"output"},
    "raises": {"error"},
    "wrong_shape": {"invalid"},
    "wrong_span": {"invalid"},
}
NO_BREAK = {"plugin_defaults": {"attempts_max": 1, "breaker_failures": 1_000}}
HANGS = "import time\n\ndef enrich(message, config):\n    time.sleep(10_000)\n"


async def test_gate_e_hang_crash_exit_fork_bomb_10_gb_100_mb_and_endless_output_hurt_nobody(tmp_path: Path) -> None:
    """All at once, with good messages in between. Each failure is the failure of its own message, with its reason."""
    world = PluginWorld(
        tmp_path / "w",
        {"words.py": WORDS, "hurts.py": HURTS},
        [plugin("words", "words.py"), plugin("hurts", "hurts.py", deadline_seconds=6.0)],
    )
    async with world.open(NO_BREAK) as hub:
        topic = await hub.topic()
        hurting, good = {}, []
        for kind in REASONS:
            hurting[kind] = (await hub.api.post(topic, kind))["id"]
            good.append((await hub.api.post(topic, f"after {kind}"))["id"])
        await hub.settled()
        logged = {entry["message_id"]: entry["reason"] for entry in hub.logged("plugin_run_failed")}
        failed = {message_id: problem for message_id, _, state, _, problem in hub.jobs() if state == "failed"}
        assert set(failed) == set(hurting.values())
        assert all(failed.values())
        assert {kind for kind, message_id in hurting.items() if logged[message_id] not in REASONS[kind]} == set()
        for message_id in good:
            assert await hub.words(message_id, "words") == await hub.words(message_id, "hurts") != []
        for kind, message_id in hurting.items():
            assert await hub.words(message_id, "words") == [(kind, 1)]
            assert await hub.words(message_id, "hurts") == []
        health = await hub.health("hurts")
        assert (health["failed"], health["failures_total"], health["state"]) == (len(hurting), len(hurting), "ready")
        assert await hub.metric("parley_plugin_failures_total", plugin="hurts", reason="timeout") >= 3
        assert (await hub.health("words"))["failures_total"] == 0
        assert hub.opened.fold_problems() == []
    assert jails() == set()


async def test_gate_e_with_every_worker_hung_messages_are_taken_and_other_plugins_and_readers_served(
    tmp_path: Path,
) -> None:
    """The hung plugin has so long a deadline that it hangs to the end; the stop does not wait for it."""
    world = PluginWorld(
        tmp_path / "w",
        {"words.py": WORDS, "hangs.py": HANGS},
        [plugin("hangs", "hangs.py", deadline_seconds=600), plugin("words", "words.py")],
    )
    async with world.open({"plugin_defaults": {"workers": 2, "batch": 1}}, served=True) as hub:
        topic = await hub.topic()
        stuck = [(await hub.api.post(topic, f"number {number}"))["id"] for number in range(2)]
        for message_id in stuck:
            await hub.under_way("hangs", message_id)
        await until(lambda: _are_running(2))
        posted = [(await hub.api.post(topic, f"later {number}"))["id"] for number in range(30)]
        assert (await hub.api.get("/health"))["status"] == "ok"
        await hub.settled("words")
        assert [len(await hub.words(message_id)) for message_id in posted] == [2] * 30
        assert (await hub.health("hangs"))["waiting"] == 32
        assert (await hub.api.get("/api/v1/status"))["plugins"]["waiting"] == 32
    assert jails() == set()


async def _are_running(count: int) -> bool:
    """Each plugin process is one that the sandbox watches over and one that runs the plugin."""
    return len(jails()) >= count


async def test_gate_e_a_plugin_that_fails_again_and_again_is_paused_said_once_and_tried_again(tmp_path: Path) -> None:
    """The message of a failure may be quoted in its text, so the text is in the event and no log file has it."""
    world = PluginWorld(tmp_path / "w", {"hurts.py": HURTS}, [plugin("hurts", "hurts.py")])
    defaults = {"attempts_max": 2, "breaker_failures": 3, "breaker_seconds": 1.0, "retry_seconds": 0.0}
    async with world.open({"plugin_defaults": defaults}) as hub:
        topic = await hub.topic()
        bad = [(await hub.api.post(topic, "raises"))["id"] for _ in range(3)]

        async def paused() -> bool:
            return (await hub.health("hurts"))["state"] == "paused"

        async def each_tried() -> bool:
            return all(row[3] >= 1 for row in hub.jobs())

        await until(paused)
        await until(each_tried)  # so that their second runs are due before the first of the next one
        assert (await hub.health("hurts"))["failures_total"] >= 3
        good = (await hub.api.post(topic, "good words"))["id"]
        await hub.settled()
        assert not await paused()
        assert await hub.words(good, "hurts") == [("good", 1), ("words", 1)]
        assert [(row[0], row[2], row[3]) for row in hub.jobs()] == [(each, "failed", 2) for each in bad]
        event = await hub.event("plugin.failed")
        assert event["data_json"]["plugin_name"] == "hurts"
        assert "KeyError: 'what?'" in event["data_json"]["reason"]
        assert len(hub.logged("plugin_paused")) == 1
        assert "what?" not in str(hub.opened.log.entries)
        health = await hub.health("hurts")
        assert (health["runs_total"], health["failures_total"]) == (7, 6)
        assert "KeyError: 'what?'" in health["last_error"]


@pytest.mark.parametrize(
    ("module", "deadline_seconds", "reason", "text"),
    [
        ("import nothing_of_that_name\ndef enrich(m, c): return []\n", 30.0, "error", "No module named"),
        ("import time\ntime.sleep(10_000)\ndef enrich(m, c): return []\n", 0.3, "timeout", "to be loaded"),
        ("import os\nos._exit(7)\ndef enrich(m, c): return []\n", 30.0, "crash", "exit code 7"),
    ],
)
async def test_gate_e_a_module_that_cannot_be_loaded_fails_no_message_and_holds_up_no_other_plugin(
    tmp_path: Path, module: str, deadline_seconds: float, reason: str, text: str
) -> None:
    world = PluginWorld(
        tmp_path / "w",
        {"bad.py": module, "files.py": FILES},
        [plugin("bad", "bad.py", deadline_seconds=deadline_seconds), plugin("files", "files.py", "extractor")],
    )
    async with world.open({"plugin_defaults": {"breaker_failures": 2, "breaker_seconds": 60.0}}) as hub:
        topic = await hub.topic()
        message = (await hub.api.post(topic, "see a.txt"))["id"]

        async def paused() -> bool:
            return (await hub.health("bad"))["state"] == "paused"

        await until(paused)
        await hub.settled("files")
        health = await hub.health("bad")
        assert (health["waiting"], health["failed"], health["runs_total"], health["failures_total"]) == (1, 0, 0, 2)
        assert text in health["last_error"]
        assert hub.jobs() == [(message, "bad", "waiting", 0, None)]
        assert await hub.metric("parley_plugin_failures_total", plugin="bad", reason=reason) == 2
        event = await hub.event("plugin.failed")
        assert text in event["data_json"]["reason"]
        attachments = (await hub.api.get(f"/api/v1/topics/{topic}/attachments"))["attachments"]
        assert [each["value_json"] for each in attachments] == [{"path": "a.txt"}]
    assert jails() == set()


async def test_a_process_with_nothing_to_do_ends_and_the_next_message_starts_another(tmp_path: Path) -> None:
    world = PluginWorld(tmp_path / "w", {"words.py": WORDS}, [plugin("words", "words.py")])
    async with world.open({"plugin_defaults": {"idle_seconds": 0.1}}) as hub:
        topic = await hub.topic()
        for content in ("first", "second"):
            message = (await hub.api.post(topic, content))["id"]
            await hub.settled()
            assert await hub.words(message) == [(content, 1)]
            await until(_are_gone)


async def _are_gone() -> bool:
    return jails() == set()
