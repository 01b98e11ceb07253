"""``parley pipeline enrich`` and ``embed``, from the words of the command to the lake and back to the hub.

The lake then has every table that there is, and readers other than Spark are tried on all of them.
"""

import json
import runpy
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars
import pyarrow
import pytest
from deltalake import DeltaTable

import parley.pipeline
from parley.app.pipeline import embed as embed_work
from parley.app.pipeline import enrich as enrich_work
from parley.cli.root import run
from parley.client import Client
from parley.core.clock import ManualClock
from parley.pipeline.lake import Lake, Table, read_table
from parley.pipeline.lake.catalogue import TABLES
from parley.workspace.trust import HOME_VARIABLE
from tests.client.hubs import HubProcess
from tests.pipeline.brokers.worlds import opened_world
from tests.pipeline.enrich.world import Workbench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "pipeline"
Pipeline = Callable[..., dict[str, Any]]


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path / "w", ["see T-1", "nothing", "T-2, T-3"])


@pytest.fixture
def pipeline(bench: Workbench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """Calls a command of the pipeline on the workspace."""
    monkeypatch.setenv(HOME_VARIABLE, str(bench.home))

    def call(*words: str, code: int = 0) -> dict[str, Any]:
        capsys.readouterr()
        assert run(["pipeline", *words, "--workspace", str(bench.root), "--json"]) == code
        printed = capsys.readouterr()
        return json.loads(printed.out or printed.err)

    return call


@pytest.fixture
def shared_spark(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> "SparkSession":
    """The Spark that is there, for whoever would start one and end it."""

    @contextmanager
    def shared(*_: object) -> Generator["SparkSession"]:
        yield spark

    for work in (enrich_work, embed_work):
        monkeypatch.setattr(work, "spark_session", shared)
    return spark


def test_history_is_taken_in_enriched_sent_back_embedded_and_searched(
    shared_spark: "SparkSession",
    pipeline: Pipeline,
    bench: Workbench,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = str(bench.workspace.state / "lake")
    hub = HubProcess(bench.root).start()
    try:
        report = pipeline("enrich", "--plugin", "tickets", "--write-back")
        with Client(bench.root) as client:
            assert len(client.list_enrichments(bench.ids).enrichments) == 3
    finally:
        hub.stop()
    assert [report[name] for name in ("lake", "due", "done", "found_in", "failed")] == [lake, 3, 3, 2, 0]
    assert (list(report["digests"]), report["without"]) == ([bench.hub.db_id], [])
    sent = {"due": 2, "stored": 2, "unchanged": 0, "stale": 0, "gone": 0, "refused": 0}
    assert report["write_back"] == sent
    report = pipeline("embed")
    assert (report["model"], report["done"], report["failed"]) == ("6f368c636d3fb84f", 3, 0)
    report = pipeline("embed", "--model", f"{EXAMPLES / 'model.py'}:Letters")
    assert (report["identity"]["model"], report["done"]) == ("letters", 3)
    with monkeypatch.context() as patch:
        patch.setattr(parley.pipeline, "open_session", lambda: shared_spark)
        patch.setattr(type(shared_spark), "stop", lambda _: None)
        patch.setattr(sys, "argv", ["nearest.py", lake, "see T-1"])
        runpy.run_path(str(EXAMPLES / "nearest.py"))
    assert capsys.readouterr().out.splitlines()[0] == "1.000 ann: see T-1"
    with opened_world(str(bench.root / "broker.db"), ManualClock()) as world:
        world.talk(9)
    pipeline("ingest", "--broker", str(bench.root / "broker.db"))
    pipeline("build")
    for table in TABLES:
        by_polars, by_delta = read_without_spark(Lake.open(Path(lake)), table)
        assert by_polars.columns == by_delta.column_names == table.schema.names, table.view
        assert by_polars.height == by_delta.num_rows == read_table(shared_spark, Lake.open(Path(lake)), table).count()


def read_without_spark(lake: Lake, table: Table) -> tuple[polars.DataFrame, pyarrow.Table]:
    """All of a table by Polars, and by delta-rs."""
    path = lake.path(table)
    return polars.read_delta(path).select(table.schema.names), DeltaTable(path).to_pyarrow_table(
        columns=table.schema.names
    )


def test_what_keeps_a_plugin_or_a_model_from_running_is_said_before_spark_is_started(
    pipeline: Pipeline, bench: Workbench
) -> None:
    assert pipeline("enrich", "--plugin", "unknown", code=1)["code"] == "NOT_FOUND"
    assert pipeline("embed", "--model", "unknown", code=1)["code"] == "INVALID_INPUT"
    bench.write(module="# somebody else's\n", trusted=False)
    assert pipeline("enrich", "--plugin", "tickets", code=26)["code"] == "PLUGIN_UNAVAILABLE"
    assert pipeline("embed", "--model", "no_such_module:Model", code=26)["code"] == "PLUGIN_UNAVAILABLE"
