"""The report of a lake: read from its gold tables, checked, written."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from parley.core.clock import ManualClock
from parley.core.pipeline_errors import LakeNotFound
from parley.core.settings import PipelineSettings
from parley.pipeline.ingest import cursor_name
from parley.pipeline.lake import Lake, Step, Table
from parley.pipeline.lake.catalogue import silver
from parley.pipeline.lake.catalogue.bronze import EVENTS
from parley.pipeline.report.checks import all_checks, audit_path
from parley.pipeline.report.findings import Findings
from parley.pipeline.report.report_file import make_report, report_path
from tests.pipeline.gold import worlds
from tests.pipeline.gold.lakes import count, put
from tests.pipeline.gold.worlds import HUB, event, ts

pytestmark = pytest.mark.timeout(300)
"""A busy machine takes long to start Spark, and to plan a query for the first time."""


def version(
    message: str, event_id: int, actor: str, hub: str = HUB, change: str = "created", topic: str = "t1"
) -> tuple[Any, ...]:
    return (hub, message, 1, event_id, None, ts(event_id), change, actor, topic, "Is it so?", None)


ROWS: dict[Table, tuple[str, list[tuple[Any, ...]]]] = {
    silver.MESSAGE_VERSIONS: (
        worlds.VERSIONS,
        [
            version("m1", 1, "ada"),
            version("m2", 2, "bob"),
            version("m3", 3, "ada", hub="hub-b"),
            version("m4", 9, "bob", hub="hub-b"),
            version("m2", 4, "bob", change="edited"),
            version("m5", 5, "eve", topic="t2"),
        ],
    ),
    silver.TOPICS: (
        worlds.TOPICS,
        [(hub, t, "c1", f"Topic {t}", ts(0), ts(0)) for hub in (HUB, "hub-b") for t in ("t1", "t2")],
    ),
    silver.CHANNELS: (worlds.CHANNELS, [(hub, "c1", "general", None, ts(0)) for hub in (HUB, "hub-b")]),
    silver.TASKS: (worlds.TASKS, [(HUB, "task_1", "t1", "c1", "Do it", "open", "ada", None)]),
    silver.QUARANTINE: (worlds.QUARANTINE, [(HUB, 7, "message.created", "no JSON", "{")]),
}
LOGS = {
    HUB: [*(event(n, n) for n in (1, 2, 4, 5)), event(6, 6, "task.created", "task_1")],
    "hub-b": [event(3, 3, hub="hub-b"), event(9, 9, hub="hub-b")],
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with bronze and silver by hand, and the gold that the driver counts from them."""
    lake = Lake.open_or_create(tmp_path_factory.mktemp("report") / "lake")
    for table, (columns, rows) in ROWS.items():
        put(lake, table, columns, rows)
    for hub, log in LOGS.items():
        put(lake, EVENTS, worlds.EVENTS, log, Step(cursor_name(hub), None, log[-1][1]))
    count(lake, PipelineSettings())
    return lake


@pytest.fixture(scope="module")
def made(spark: SparkSession, written: Lake) -> tuple[Lake, Findings, Path]:
    lake = written
    audit = {"checks": [{"name": "replay", "verdict": "error", "message": "2 rows differ"}]}
    audit_path(lake).write_text(json.dumps(audit))
    return lake, make_report(spark, lake, report_path(lake), clock=ManualClock()), report_path(lake)


def test_it_tells_of_all_hubs_together_and_takes_a_name_for_one_agent(made: tuple[Lake, Findings, Path]) -> None:
    found = made[1]
    assert [hub["db_id"] for hub in found.hubs] == [HUB, "hub-b"]
    assert [(row["agent"], row["messages"], row["edited"]) for row in found.agents] == [
        ("ada", 2, 0),
        ("bob", 2, 1),
        ("eve", 1, 0),
    ]
    assert [(row["asker"], row["answerer"], row["answers"], row["p50_ms"]) for row in found.pairs] == [
        ("ada", "bob", 2, 3.5 * worlds.MINUTE_MS)
    ]
    totals = found.totals
    assert (totals["messages"], totals["agents"], totals["topics"], totals["answers"]) == (5, 3, 4, 2)
    assert (totals["unanswered"], totals["stuck_topics"]) == (0, 0)


def test_it_shows_a_short_history_by_the_hour_and_counts_what_took_how_long(made: tuple[Lake, Findings, Path]) -> None:
    found = made[1]
    assert found.grain == "hour"
    assert {(row["agent"], row["messages"]) for row in found.timeline} == {("ada", 2), ("bob", 2), ("eve", 1)}
    assert found.hours == [{"weekday": 0, "hour": 9, "messages": 5}]
    assert {row["up_to"]: row["next"] for row in found.latencies if row["next"]} == {"1m": 1, "15m": 1}
    assert sum(row["reply"] for row in found.latencies) == 0
    assert (found.tasks["tasks"], found.tasks["open"], found.tasks["claim_p50_ms"]) == (1, 1, None)


def test_its_checks_are_those_of_the_audit_and_those_that_the_tables_show(made: tuple[Lake, Findings, Path]) -> None:
    verdicts = {check.name: check.verdict for check in made[1].checks}
    own = {"cursors": "ok", "event ids": "warn", "doubles": "ok", "clocks": "ok", "times": "ok", "quarantine": "warn"}
    assert verdicts == {"replay": "error", **own}


def test_it_is_one_private_file(made: tuple[Lake, Findings, Path]) -> None:
    path = made[2]
    assert path.stat().st_mode & 0o777 == 0o600
    html = path.read_text()
    assert "Topic t1" in html
    assert "2 rows differ" in html


def test_a_lake_without_messages_has_a_report_and_one_without_gold_has_none(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    with pytest.raises(LakeNotFound):
        make_report(spark, lake, tmp_path / "none.html")
    count(lake)
    found = make_report(spark, lake, tmp_path / "empty.html")
    assert (found.hubs, found.totals["messages"]) == ([], 0)
    assert [check.verdict for check in found.checks if check.name == "audit"] == ["unknown"]


def test_a_summary_of_an_audit_that_is_broken_is_said_to_be(lake: Lake) -> None:
    for broken in ("{", "[]", '{"checks": [{"name": "replay"}]}'):
        audit_path(lake).write_text(broken)
        first = all_checks(lake, [])[0]
        assert first.verdict == "unknown"
        assert "cannot be read" in first.message
