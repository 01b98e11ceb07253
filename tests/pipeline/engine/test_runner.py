"""The runner builds what is missing, of the hubs that it is missing of, whatever happened to the tables before.

Two small tables stand for all: hours are counted from bronze, days from hours.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from parley.core.pipeline_errors import LakeConflict
from parley.pipeline.engine import division, runner
from parley.pipeline.engine import gold as specs
from parley.pipeline.engine.runner import BuildReport, build
from parley.pipeline.engine.spec import Plan, Spec
from parley.pipeline.ingest import cursor_name
from parley.pipeline.lake import Lake, Step, Table, maintain
from parley.pipeline.lake.catalogue.bronze import EVENTS
from parley.pipeline.lake.catalogue.gold import HEALTH_HOUR, IRREGULARITIES
from parley.pipeline.lake.commit import ensure_table, exchange, open_table
from tests.pipeline.engine.lakes import lake_of, put_events, rows_of
from tests.pipeline.fold.logs import Event

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOURS = Spec(HEALTH_HOUR, specs.HEALTH_HOUR, ("db_id", "start"))
"""As it is built of a hub whole."""
DAYS = Spec(
    Table("gold", "days", pa.schema([("db_id", pa.string()), ("hours", pa.int64()), ("events", pa.int64())]), "days"),
    "SELECT db_id, count(*) AS hours, sum(events) * :weight AS events FROM {gold_health_hour} GROUP BY db_id",
    ("db_id",),
)
PLAN = Plan([DAYS, HOURS])
TOUCHED = "SELECT db_id, date_trunc('hour', try_to_timestamp(ts)) AS start FROM {events}"


def log(db_id: str, first: int, last: int) -> dict[str, list[Event]]:
    """An event every half hour."""
    return {
        db_id: [
            Event(db_id, number, _time(number), "x", None, None, None, "y", "z", "{}")
            for number in range(first, last + 1)
        ]
    }


def _time(number: int) -> str:
    return f"2026-03-{1 + number // 48:02}T{number % 48 // 2:02}:00:00.000Z"


class World:
    """A lake and a session; whoever builds without news must not ask for it."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        self.spark, self.asked = spark, list[int]()
        self.lake = lake_of(folder / "lake", log("a", 1, 20) | log("b", 1, 6))

    def build(self, plan: Plan = PLAN, weight: int = 1) -> BuildReport:
        return build(self.lake, plan, self.open, {"weight": weight})

    def open(self, events: int) -> "SparkSession":
        self.asked.append(events)
        return self.spark

    def days(self) -> dict[str, tuple[int, int]]:
        return {row["db_id"]: (row["hours"], row["events"]) for row in rows_of(self.lake, DAYS.table)}

    def files(self, table: Table) -> set[str]:
        return set(open_table(self.lake, table).file_uris())


@pytest.fixture
def world(spark: "SparkSession", tmp_path: Path) -> World:
    return World(spark, tmp_path)


def test_a_build_without_news_asks_for_no_spark_and_commits_nothing(world: World) -> None:
    assert world.build().tables == {"gold_health_hour": 15, "gold_days": 2}
    assert world.days() == {"a": (11, 20), "b": (4, 6)}
    versions = [open_table(world.lake, table).version() for table in (HEALTH_HOUR, DAYS.table)]
    assert world.build() == BuildReport()
    assert world.asked == [26]
    assert [open_table(world.lake, table).version() for table in (HEALTH_HOUR, DAYS.table)] == versions


def test_a_lake_without_events_has_tables_without_rows(spark: "SparkSession", lake: Lake) -> None:
    ensure_table(lake, EVENTS)
    assert build(lake, PLAN, lambda events: spark, {"weight": 1}).tables == {"gold_health_hour": 0, "gold_days": 0}
    assert build(lake, PLAN, _no_spark, {"weight": 1}).tables == {}


def test_only_hubs_with_news_are_built_and_the_rows_of_others_stay(world: World) -> None:
    world.build()
    put_events(world.lake, log("b", 7, 10) | log("c", 1, 2))
    report = world.build()
    assert (report.hubs, report.tables.keys(), world.asked[1:]) == (2, PLAN.specs.keys(), [6])
    assert world.days() == {"a": (11, 20), "b": (6, 10), "c": (2, 2)}


def test_a_table_that_was_left_behind_is_brought_up_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def dying(lake: Lake, table: Table, *given: Any, **options: Any) -> int:
        if table is DAYS.table:
            raise KeyboardInterrupt
        return exchange(lake, table, *given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(runner, "exchange", dying)
        with pytest.raises(KeyboardInterrupt):
            world.build()
    files = set(Path(world.lake.path(DAYS.table)).rglob("*.parquet"))
    assert files == set()
    assert world.build().tables == {"gold_days": 2}
    assert world.days() == {"a": (11, 20), "b": (4, 6)}


def test_a_build_that_another_one_overtakes_begins_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    once = [True]

    def overtaken(*given: Any, **options: Any) -> int:
        if once and once.pop():
            put_events(world.lake, log("a", 21, 30))
            assert world.build().conflicts == 0
        return exchange(*given, **options)

    monkeypatch.setattr(runner, "exchange", overtaken)
    assert world.build() == BuildReport(hubs=2, tables={}, conflicts=1)
    assert world.days() == {"a": (16, 30), "b": (4, 6)}


def test_a_build_gives_up_when_others_are_always_quicker(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_late(*_: Any, **__: Any) -> int:
        raise LakeConflict("too late", table=HEALTH_HOUR.view)

    monkeypatch.setattr(runner, "exchange", too_late)
    monkeypatch.setattr(runner, "CONFLICTS_MAX", 1)
    with pytest.raises(LakeConflict):
        world.build()
    assert len(world.asked) == 2


def test_a_hub_that_was_restored_is_built_anew_also_where_it_is_back_at_the_same_number(world: World) -> None:
    world.build()
    lost = lost_after(world.lake, "a", 10)
    put_events(world.lake, {"a": [event._replace(ts="2026-04-01T00:00:00.000Z") for event in log("a", 11, 20)["a"]]})
    assert lost == 2
    assert world.build().hubs == 1
    assert world.days() == {"a": (7, 20), "b": (4, 6)}


def lost_after(lake: Lake, db_id: str, event_id: int) -> int:
    from parley.pipeline.histories import Histories
    from parley.pipeline.lost_events import begin_epoch

    table = open_table(lake, EVENTS)
    files = Histories(lake, table).files_beyond(db_id, event_id)
    return begin_epoch(lake, table, files, db_id, Step(cursor_name(db_id), 20, event_id), 0)


def test_other_rules_and_other_settings_build_a_table_and_what_reads_it(world: World) -> None:
    world.build()
    assert world.build(weight=2).tables.keys() == {"gold_health_hour", "gold_days"}
    assert world.days()["b"] == (4, 12)
    assert world.build(Plan([replace(DAYS, rules=2), HOURS]), weight=2).tables.keys() == {"gold_days"}
    assert world.build(Plan([replace(HOURS, rules=2), replace(DAYS, rules=2)]), 2).tables.keys() == PLAN.specs.keys()


def test_a_restored_table_is_brought_up_again_and_what_was_built_from_it_too(world: World) -> None:
    world.build()
    version = open_table(world.lake, HEALTH_HOUR).version()
    put_events(world.lake, log("a", 21, 24))
    world.build()
    maintain.restore(world.lake, DAYS.table, 0)
    assert world.build().tables == {"gold_days": 2}
    maintain.restore(world.lake, HEALTH_HOUR, version)
    assert world.build().tables.keys() == PLAN.specs.keys()
    assert world.days() == {"a": (13, 24), "b": (4, 6)}


def test_of_a_large_hub_only_what_news_touch_is_built(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(division, "EVENTS_MIN", 20)
    monkeypatch.setattr(division, "NEWS_SHARE_MAX", 0.5)
    oddities = Spec(IRREGULARITIES, specs.IRREGULARITIES, ("db_id", "event_id"), appends=True)
    plan = Plan([DAYS, replace(HOURS, unit="start", touched=TOUCHED), oddities])
    put_events(world.lake, log("a", 23, 24))
    world.build(plan)
    files = world.files(IRREGULARITIES)
    put_events(world.lake, log("a", 26, 29) | log("b", 9, 9))
    report = world.build(plan)
    assert (report.hubs, report.divided) == (2, 1)
    assert world.days() == {"a": (15, 26), "b": (5, 7)}
    found = {(row["db_id"], row["event_id"], row["missing"]) for row in rows_of(world.lake, IRREGULARITIES)}
    assert found == {("a", 23, 2), ("a", 26, 1), ("b", 9, 2)}
    assert files <= world.files(IRREGULARITIES)
    put_events(world.lake, log("a", 30, 90))
    assert world.build(plan).divided == 0


def test_a_hub_that_bronze_has_no_more_goes(world: World) -> None:
    before = open_table(world.lake, EVENTS).version()
    put_events(world.lake, log("c", 1, 2))
    world.build()
    maintain.restore(world.lake, EVENTS, before)
    world.build()
    assert world.days() == {"a": (11, 20), "b": (4, 6)}


def _no_spark(events: int) -> "SparkSession":
    raise AssertionError("this needs no Spark")
