"""The JSON of the pipeline's commands keeps what programs know of it, as ``tests/compat`` has it for all others."""

from pathlib import Path

import pytest

from parley.core.clock import ManualClock
from parley.workspace.trust import HOME_VARIABLE
from tests.client.hubs import HubProcess
from tests.compat.cli_wire import Shell
from tests.compat.frozen import held
from tests.compat.recorder import Recorder
from tests.pipeline.brokers.worlds import opened_world
from tests.pipeline.enrich.world import Workbench

MAPS = ("by_day", "cursors", "digests", "files", "quarantined", "tables")


@pytest.mark.usefixtures("spark")
def test_commands_of_the_pipeline_print_what_programs_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(MAPS)
    bench = Workbench(tmp_path / "w", ["see T-1", "nothing", "T-2, T-3"])
    with opened_world(str(tmp_path / "broker.db"), ManualClock()) as world:
        world.talk(9)
    shell = Shell(monkeypatch, recorder)
    shell.at(bench.root, **{HOME_VARIABLE: bench.home})
    shell.types("pipeline report", code=1)
    shell.types("pipeline ingest", "--workspace", bench.root, "--broker", tmp_path / "broker.db")
    shell.types("pipeline run", "--workspace", bench.root, "--broker", tmp_path / "broker.db")
    shell.types("pipeline build")
    shell.types("pipeline report")
    shell.types("pipeline audit")
    shell.types("pipeline sql", "select name, event_id from bronze_events")
    hub = HubProcess(bench.root).start()
    try:
        shell.types("pipeline enrich", "--plugin", "tickets", "--write-back")
    finally:
        hub.stop()
    shell.types("pipeline embed")
    shell.types("pipeline compact")
    newest = shell.types("pipeline history", "bronze_events")["versions"][0]["version"]
    shell.types("pipeline restore", "bronze_events", "--version", str(newest))
    shell.types("pipeline vacuum")
    held("cli_json_pipeline", recorder.contract())
