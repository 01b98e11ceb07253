"""Which plugin runs: what keeps one from running is told before any work is done."""

import pickle
from pathlib import Path

import pytest

from parley.core.clock import SystemClock
from parley.core.errors import NotFound, PluginUnavailable
from parley.pipeline.enrich import plugins
from parley.pipeline.enrich.plugins import Chosen, choose
from parley.pipeline.hubs import HubRef
from parley.plugin import Message
from parley.plugin.session import Done
from tests.pipeline.enrich.world import SETTINGS, TICKETS, Workbench


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path / "w")


def chosen(bench: Workbench, name: str = "tickets") -> Chosen:
    hub = bench.hub
    return choose([hub], name, SystemClock(), bench.home)[hub.db_id]


def test_a_plugin_travels_to_a_task_whole(bench: Workbench) -> None:
    found = pickle.loads(pickle.dumps(chosen(bench)))
    (bench.root / "tickets.py").unlink()
    message = Message("msg_1", "topic_1", "ch_1", "ann", "see T-42", 1, "2026-01-01T00:00:00.000Z")
    with found.session(SystemClock()) as session:
        (outcome,) = session.run_many([message])
    assert isinstance(outcome, Done)
    assert [each.data for each in outcome.findings.enrichments] == [{"number": 42}]


def test_the_digest_is_of_what_decides_the_findings(bench: Workbench) -> None:
    first = chosen(bench).digest
    assert chosen(bench).digest == first
    bench.write(SETTINGS.replace("60.0", "61.0"))
    assert chosen(bench).digest == first
    changed = {chosen(bench, "notes").digest}
    bench.write(SETTINGS.replace('module = "tickets.py"\n', 'module = "tickets.py"\nconfig = {a = 1}\n', 1))
    changed.add(chosen(bench).digest)
    bench.write(module=TICKETS + "# changed\n")
    changed.add(chosen(bench).digest)
    assert len(changed | {first}) == 4


def test_a_built_in_needs_neither_settings_nor_trust_nor_files(bench: Workbench) -> None:
    bench.write("", trusted=False)
    there = HubRef("db_1", "http://127.0.0.1:1", url="http://127.0.0.1:1")
    by_hub = choose([bench.hub, there], "links", SystemClock(), bench.home)
    assert len(by_hub) == 2
    assert len({each.digest for each in by_hub.values()}) == 1


def test_of_a_hub_known_by_its_address_only_built_ins_run(bench: Workbench) -> None:
    there = HubRef("db_1", "http://127.0.0.1:1", url="http://127.0.0.1:1")
    with pytest.raises(NotFound, match=r"No plugin tickets in http://127\.0\.0\.1:1"):
        choose([there], "tickets", SystemClock(), bench.home)


def test_an_unknown_plugin_is_not_found(bench: Workbench) -> None:
    with pytest.raises(NotFound, match="No plugin unknown in"):
        chosen(bench, "unknown")


def test_one_that_nobody_trusts_as_it_is_now_is_refused(bench: Workbench) -> None:
    bench.write(module=TICKETS + "# by somebody else\n", trusted=False)
    with pytest.raises(PluginUnavailable, match="trust"):
        chosen(bench)


def test_one_that_is_disabled_is_refused(bench: Workbench) -> None:
    with pytest.raises(PluginUnavailable, match="disabled"):
        chosen(bench, "off")


@pytest.mark.parametrize("module", ["def enrich(message, config)", "import no_such_module\ndef enrich(m, c): ..."])
def test_one_that_cannot_be_loaded_is_refused(bench: Workbench, module: str) -> None:
    bench.write(module=module)
    with pytest.raises(PluginUnavailable):
        chosen(bench)


def test_without_a_sandbox_nothing_runs(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "missing", lambda **_: ("The kernel has no Landlock",))
    with pytest.raises(PluginUnavailable, match="The sandbox cannot lock it in here: The kernel has no Landlock"):
        chosen(bench)
