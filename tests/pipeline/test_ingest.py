"""Bronze holds each event once, whatever happens while it is filled."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from parley.core.pipeline_errors import LakeConflict
from parley.pipeline import session
from parley.pipeline.hubs import HubRef, hub_at, hub_of_workspace
from parley.pipeline.ingest import cursor_name, day_of, ingest, write_range
from parley.pipeline.lake import Lake, Step, commit, cursor, discard, read_table
from parley.pipeline.lake.catalogue.bronze import EVENTS
from parley.pipeline.rounds import TASKS_PER_CORE, Rounds
from parley.pipeline.session import cores_of
from parley.pipeline.source.ranges import EventRange
from parley.workspace import discovery
from tests.pipeline.bronze import bronze_problems, bronze_rows
from tests.pipeline.logs import append, make_hub
from tests.pipeline.serving import served

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_run_takes_every_event_of_every_hub_and_the_next_one_finds_nothing_new(
    spark: "SparkSession", lake: Lake, tmp_path: Path
) -> None:
    hubs = [make_hub(tmp_path / "one", 250), make_hub(tmp_path / "two", steps=60), make_hub(tmp_path / "three")]
    told: list[tuple[int, int]] = []

    report = ingest(spark, lake, hubs, progress=lambda done, total: told.append((done, total)), inline_events=0)

    assert bronze_problems(lake, hubs) == []
    assert report.events == sum(map(len, bronze_rows(lake).values()))
    assert told[0] == (0, report.events)
    assert told[-1] == (report.events, report.events)
    again = ingest(spark, lake, hubs)
    assert (again.events, again.commits, again.version) == (0, 0, report.version)


def test_a_run_goes_on_from_the_cursor_in_rounds(spark: "SparkSession", lake: Lake, tmp_path: Path) -> None:
    hub = make_hub(tmp_path / "hub", 90)
    assert ingest(spark, lake, [hub], rounds=Rounds(first=40, growth=1), inline_events=0).commits == 3
    append(discovery.at(tmp_path / "hub"), range(90, 100))
    assert ingest(spark, lake, [hub]).events == 10
    assert cursor(lake, EVENTS, cursor_name(hub.db_id)) == 100
    assert bronze_problems(lake, [hub]) == []


def test_a_round_is_as_large_as_the_cores_are_many(spark: "SparkSession", lake: Lake, tmp_path: Path) -> None:
    hub, rounds = make_hub(tmp_path / "hub", 100), Rounds(first=10, task=3, growth=1_000)
    size = cores_of(spark) * TASKS_PER_CORE * rounds.task
    report = ingest(spark, lake, [hub], rounds=rounds, inline_events=0)
    assert report.commits == 1 + -(-90 // size)
    assert bronze_problems(lake, [hub]) == []


def test_cores_are_counted_alike_with_a_context_and_without_one(spark: "SparkSession") -> None:
    assert session._cores_by_query(spark) == cores_of(spark) > 0  # pyright: ignore[reportPrivateUsage]


def test_a_cursor_that_another_run_moved_refuses_the_commit(lake: Lake, tmp_path: Path) -> None:
    hub = make_hub(tmp_path / "hub", 30)
    ours, theirs = (write_range(lake, EventRange(hub, 0, 30), 0).files for _ in range(2))
    commit(lake, EVENTS, theirs, cursors=[Step(cursor_name(hub.db_id), None, 30)])
    with pytest.raises(LakeConflict):
        commit(lake, EVENTS, ours, cursors=[Step(cursor_name(hub.db_id), None, 30)])
    discard(lake, EVENTS, [*ours, *theirs])
    assert bronze_problems(lake, [hub]) == []


def test_control_without_the_cursor_in_the_commit_events_are_doubled(lake: Lake, tmp_path: Path) -> None:
    hub = make_hub(tmp_path / "hub", 30)
    for _ in range(2):
        commit(lake, EVENTS, write_range(lake, EventRange(hub, 0, 30), 0).files)
    assert bronze_problems(lake, [hub])


def never() -> "SparkSession":
    raise AssertionError("so few events need no Spark")


def test_a_hub_whose_history_has_parted_is_named_and_left_alone_while_others_go_on(lake: Lake, tmp_path: Path) -> None:
    hub, other, before = make_hub(tmp_path / "hub", 20), make_hub(tmp_path / "other", 5), tmp_path / "before"
    shutil.copytree(tmp_path / "hub", before)
    append(discovery.at(tmp_path / "hub"), range(20, 30))
    ingest(never, lake, [hub, other])
    held = bronze_rows(lake)[hub.db_id]
    append(discovery.at(before), range(100, 120))
    append(discovery.at(tmp_path / "other"), range(5, 9))

    report = ingest(never, lake, [hub_of_workspace(before), other])

    assert (report.events, report.cursors) == (4, {hub.db_id: 30, other.db_id: 9})
    assert [problem.partition(",")[0] for problem in report.problems] == [
        f"{before} has another history than {tmp_path / 'hub'}"
    ]
    assert bronze_rows(lake)[hub.db_id] == held
    append(discovery.at(tmp_path / "hub"), range(30, 33))
    assert ingest(never, lake, [hub, other]).problems == []
    assert bronze_problems(lake, [hub, other]) == []


def test_a_parted_history_is_seen_by_a_hub_that_is_asked_and_one_that_goes_on_is_not(
    lake: Lake, tmp_path: Path
) -> None:
    make_hub(tmp_path / "hub", steps=30)
    shutil.copytree(tmp_path / "hub", tmp_path / "copy")
    taken = ingest(never, lake, [hub_of_workspace(tmp_path / "hub")])
    append(discovery.at(tmp_path / "hub"), range(10))
    with served(tmp_path / "hub") as url:
        ours = ingest(never, lake, [hub_at(url)])
        assert (ours.events >= 10, ours.problems) == (True, [])
    append(discovery.at(tmp_path / "copy"), range(50, 90))
    with served(tmp_path / "copy") as url:
        theirs = ingest(never, lake, [hub_at(url)])
        assert (theirs.events, len(theirs.problems)) == (0, 1)
    assert len(bronze_rows(lake)[next(iter(taken.cursors))]) == taken.events + ours.events


def test_a_parted_history_is_seen_in_files_that_do_not_say_what_they_hold(lake: Lake, tmp_path: Path) -> None:
    hub = make_hub(tmp_path / "hub", 20)
    shutil.copytree(tmp_path / "hub", tmp_path / "copy")
    for place, numbers in (("hub", range(20, 30)), ("copy", range(100, 120))):
        append(discovery.at(tmp_path / place), numbers)
    files = [file._replace(statistics="{}") for file in write_range(lake, EventRange(hub, 0, 25), 0).files]
    commit(lake, EVENTS, files, cursors=[Step(cursor_name(hub.db_id), None, 25)])
    theirs = ingest(never, lake, [hub_of_workspace(tmp_path / "copy")])
    assert (theirs.events, len(theirs.problems)) == (0, 1)
    ours = ingest(never, lake, [hub])
    assert (ours.events, ours.problems) == (5, [])


def test_a_lake_that_lost_the_event_at_its_cursor_goes_on(lake: Lake, tmp_path: Path) -> None:
    hub = make_hub(tmp_path / "hub", 20)
    ingest(never, lake, [hub])
    for file in Path(lake.path(EVENTS)).glob("day=*/*.parquet"):
        file.unlink()
    append(discovery.at(tmp_path / "hub"), range(20, 30))
    report = ingest(never, lake, [hub])
    assert (report.events, report.problems) == (10, [])


def test_bronze_is_a_table_for_sql(spark: "SparkSession", lake: Lake, tmp_path: Path) -> None:
    hub: HubRef = make_hub(tmp_path / "hub", 250)
    ingest(spark, lake, [hub])
    frame = read_table(spark, lake, EVENTS)
    days = {row.day: row["count"] for row in frame.groupBy("day").count().collect()}
    assert days == {"2026-01-01": 100, "2026-01-02": 100, "2026-01-03": 50}
    assert {row.source for row in frame.select("source").distinct().collect()} == {str(tmp_path / "hub")}


@pytest.mark.parametrize(
    ("ts", "day"),
    [
        ("2026-01-31T12:00:00.000Z", "2026-01-31"),
        ("", "0000-00-00"),
        ("yesterday, I think", "0000-00-00"),
        ("2026/01/31", "0000-00-00"),
        ("20٢٦-01-31", "0000-00-00"),
    ],
)
def test_the_day_of_a_time_that_is_none_is_no_day(ts: str, day: str) -> None:
    assert day_of(ts) == day
