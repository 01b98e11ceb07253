"""The scenarios that check themselves: in a tiny size they run to their end, and notice what would make them lie."""

import os
import tempfile
from pathlib import Path

import pytest

from bench.load.chromium import find_chromium
from bench.load.hub import MESSAGE_BYTES, Hub
from bench.load.peer import UnexpectedReply
from bench.plan import Plan
from bench.rivals import nats_requests
from bench.scenarios import bus, crowd, derived, hung, mesh, page, tools
from parley.plugin.builtin import links
from parley.plugin.contract import Message
from parley.sandbox import missing

TINY = Plan(
    repeat=1,
    derived=40,
    derived_1=5,
    hung_1=5,
    hung_16=40,
    tools=5,
    claims=20,
    page=1_500,
    page_screens=12,
    mesh_closed=40,
    mesh_burst=40,
    bus_1=25,
    bus_50=100,
    bus_large=5,
    crowd=8,
    crowd_idle_seconds=1,
)
pytestmark = pytest.mark.timeout(600)
needs_sandbox = pytest.mark.skipif(
    bool(missing()) and os.environ.get("CI") != "true", reason=f"no plugin runs here: {'; '.join(missing())}"
)


def test_every_measured_message_points_at_two_things_and_is_as_long_as_the_others() -> None:
    for number in range(0, 10_000, 7):
        text = derived.pointing(number)
        assert len(text.encode()) == MESSAGE_BYTES
        found = links.enrich(Message("msg_1", "topic_1", "ch_1", "bench", text, 1, ""), {})
        assert [each.kind for each in found] == ["code_ref", "file_path"]


@needs_sandbox
def test_the_linkifier_is_measured_in_its_sandbox_beside_the_same_function_here(tmp_path: Path) -> None:
    figures = derived.functions(tmp_path, TINY)
    assert figures["linkify_in_process"]["cpu_us"] > 0
    jailed = figures["linkify_sandboxed"]
    assert jailed["cpu_us"] > jailed["worker_cpu_us"] > 0


@pytest.mark.slow
@needs_sandbox
async def test_derived_work_is_measured_until_its_last_event(tmp_path: Path) -> None:
    figures = await derived.derived(tmp_path, TINY)
    assert figures["derived_16"]["worker_cpu_us"] > 0
    assert figures["derived_16"]["per_second"] <= figures["derived_16"]["posted_per_second"]
    assert figures["derived_1"]["p99_ms"] >= figures["derived_1"]["p50_ms"] > 0


@pytest.mark.slow
@needs_sandbox
async def test_inserts_are_measured_beside_plugins_that_hang_and_beside_busy_ones(tmp_path: Path) -> None:
    figures = await hung.hung(tmp_path, TINY)
    assert set(figures) == {f"insert_{n}_plugins_{kind}" for n in (1, 16) for kind in ("none", "hung", "busy")}
    assert "cpu_us_ratio" in figures["insert_16_plugins_hung"]
    assert "cpu_us_ratio" not in figures["insert_16_plugins_none"]


@needs_sandbox
async def test_a_plugin_that_answers_is_not_taken_for_one_that_hangs(tmp_path: Path) -> None:
    with Hub(tmp_path / "busy", config=hung.BUSY) as hub, pytest.raises(UnexpectedReply, match="did not hang"):
        await hung.expect_asleep(hub)


@pytest.mark.slow
async def test_the_page_is_loaded_and_scrolled(tmp_path: Path) -> None:
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium was found (Debian package chromium)")
    with Hub(tmp_path / "page") as hub:
        figures = await page.page(hub, program, TINY)
    assert figures["page_load_short"]["requests"] > 1
    assert figures["page_load_long"]["messages"] == TINY.page
    assert figures["page_load_long"]["first_message_ms"] > 0
    assert figures["page_scroll_last"]["nodes"] > 100


@pytest.mark.slow
async def test_tools_are_measured_beside_the_sdk_and_every_task_is_claimed_once(tmp_path: Path) -> None:
    with Hub(tmp_path / "tools") as hub:
        figures = await tools.tools(hub, TINY)
    assert set(figures) == {"sdk_post", "tool_post", "mcp_cold_start", "claims_8"}
    assert figures["tool_post"]["p50_ms_ratio"] > 0
    assert figures["claims_8"]["per_second"] > 0


@pytest.mark.slow
async def test_messages_are_measured_from_one_daemons_program_to_anothers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mesh, "DAEMONS", 2)
    monkeypatch.setattr(mesh, "MESHES", 2)
    with tempfile.TemporaryDirectory(prefix="mesh-") as folder:  # a socket's path must be short
        figures = await mesh.mesh(Path(folder) / "m", TINY, None, "mesh")
    assert figures["mesh_closed_100"]["p99_ms"] >= figures["mesh_closed_100"]["p50_ms"] > 0
    assert figures["mesh_burst"]["broker_cpu_us"] > 0
    assert figures["mesh_burst"]["daemons_cpu_us"] > 0


@pytest.mark.slow
async def test_a_crowd_gets_a_broadcast_and_comes_back_after_its_broker_was_killed(tmp_path: Path) -> None:
    figures = await crowd.crowd(tmp_path / "crowd", TINY)
    assert figures["crowd_idle"]["peers"] == 8
    assert figures["crowd_broadcast"]["last_ms"] >= figures["crowd_broadcast"]["first_ms"] > 0
    assert figures["crowd_storm"]["all_back_seconds"] > 0


async def test_requests_on_the_bus_are_measured_beside_bare_commits(tmp_path: Path) -> None:
    figures = await bus.bus(tmp_path / "bus", TINY)
    assert figures["bus_1k"]["p99_ms"] >= figures["bus_1k"]["p50_ms"] > 0
    for size in ("1k", "1m"):
        asked, bare = figures[f"bus_durable_{size}"], figures[f"bus_bare_{size}"]
        assert asked["bare_ratio"] == round(asked["per_second"] / bare["per_second"], 3)
    assert figures["bus_durable_1k_50"]["sequential_ratio"] > 0
    assert ("nats_ratio" in figures["bus_1k"]) == nats_requests.is_here()


async def test_an_answer_that_is_not_what_was_asked_for_is_no_measurement(tmp_path: Path) -> None:
    async def lie(body: bytes) -> bytes:
        return body[:-1]

    with pytest.raises(UnexpectedReply):
        await bus.asked(nats_requests.Way(lie, []), 10, 1)
