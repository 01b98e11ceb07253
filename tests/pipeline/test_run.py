"""The whole pipeline in one go, as a user calls it, and once more; then what a build of its own adds."""

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import parley.pipeline as parley_pipeline
from parley.core.clock import ManualClock
from parley.pipeline.lake import Lake, read_table
from parley.pipeline.lake.catalogue.gold import TABLES
from parley.pipeline.lake.catalogue.silver import MESSAGE_VERSIONS
from parley.workspace import discovery
from tests.cli.conftest import Parley, parley
from tests.pipeline.brokers.worlds import opened_world
from tests.pipeline.logs import append, log_rows, make_hub

__all__ = ["parley"]
SOURCE = Path(__file__).parent.parent.parent / "examples" / "pipeline" / "source.py"
OWN_CHECKS = {"cursors", "event ids", "doubles", "clocks", "times", "quarantine"}


def test_a_run_leads_from_the_logs_to_the_report_and_the_next_does_only_what_is_new(
    spark: SparkSession, parley: Parley, tmp_path: Path
) -> None:
    hub = make_hub(tmp_path / "hub", steps=60)
    place = ("--workspace", tmp_path / "hub")
    with opened_world(str(tmp_path / "broker.db"), ManualClock()) as world:
        world.talk(9)
        deliveries = world.counts()["delivery_queue"]
    done = parley("pipeline", "run", "--audit", *place, "--broker", tmp_path / "broker.db", "--json")
    made: dict[str, Any] = done.json
    assert (done.code, made["damaged"], made["audit"]["damaged"]) == (0, False, False)
    lake = Lake.open(Path(made["lake"]))
    posted = read_table(spark, lake, MESSAGE_VERSIONS).where("change = 'created'").count()
    assert posted > 0
    assert made["totals"]["messages"] == posted
    assert made["ingest"]["events"] == len(log_rows(str(hub.database)))
    assert set(made["gold"]["tables"]) == {table.name for table in TABLES}
    report = Path(made["report"]).read_text()
    assert report.startswith("<!doctype html>")
    assert "Delivery across machines" in report
    assert made["ingest"]["brokers"]["messages"] == 10
    assert made["mesh"]["tables"] == {"mesh_messages": 10, "mesh_deliveries": deliveries, "delivery_times": 1}
    verdicts = {check["name"]: check["verdict"] for check in made["checks"]}
    assert {check["name"] for check in made["audit"]["checks"]} | OWN_CHECKS == verdicts.keys()
    assert {verdicts[name] for name in OWN_CHECKS - {"clocks"}} == {"ok"}

    again = parley("pipeline", "run", *place, "--json").json
    assert (again["ingest"]["events"], again["totals"]) == (0, made["totals"])
    assert again["gold"] == {"tables": {}, "unchanged": len(TABLES), "conflicts": 0}

    append(discovery.at(tmp_path / "hub"), range(3))
    assert parley("pipeline", "ingest", *place).code == 0
    built = parley("pipeline", "build", *place)
    assert (built.code, built.stdout) == (0, f"3 new events are folded in {lake.root}.\n")
    assert "Set aside: 3 events, unknown_name; see silver_quarantine." in built.stderr
    asked = parley("pipeline", "build", *place, "--json").json
    assert (asked["silver"]["events"], asked["gold"]["unchanged"]) == (0, len(TABLES))


def test_the_example_of_the_data_source_counts_senders_and_streams_names(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_hub(tmp_path / "hub", 5)
    with monkeypatch.context() as patch:
        patch.setattr(parley_pipeline, "open_session", lambda: spark)
        patch.setattr(type(spark), "stop", lambda _: None)
        patch.setattr(sys, "argv", ["source.py", str(tmp_path / "hub")])
        runpy.run_path(str(SOURCE))
    printed = capsys.readouterr().out
    assert "|sender|count|" in printed
    assert "|test.kind_0|3    |" in printed
    assert "|test.kind_1|2    |" in printed
