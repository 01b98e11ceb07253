"""Hubs that are archived or restored while the lake takes them in, and lakes whose tables are restored.

The audit of November 2026 found what is tested here, each under its number there: short reads that were committed as
complete (P2), silver that was built from a history which is no longer there (P3), and archives that were made between
the plan and the read (P4). Nothing is patched: a run tells its progress between the two, and that is when hubs change.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from parley.core.errors import SchemaTooNew
from parley.core.pipeline_errors import LakeConflict
from parley.pipeline import lost_events
from parley.pipeline.gold.news import hubs_with_news
from parley.pipeline.histories import Histories
from parley.pipeline.hubs import TOKEN_VARIABLE, HubRef, hub_at, hub_of_workspace
from parley.pipeline.ingest import IngestReport, cursor_name, ingest
from parley.pipeline.lake import Lake, Step, cursor, maintain
from parley.pipeline.lake.catalogue.bronze import EVENTS, LOST_EVENTS
from parley.pipeline.lake.catalogue.silver import MESSAGES
from parley.pipeline.lake.commit import open_table
from parley.pipeline.lake.cursors import read_cursors
from parley.pipeline.lake.epochs import epoch_of
from parley.pipeline.lake.place import FORMAT
from parley.pipeline.lost_events import begin_epoch
from parley.pipeline.rounds import Rounds
from parley.pipeline.silver import build_silver
from parley.workspace import discovery
from tests.pipeline.bronze import bronze_problems, bronze_rows
from tests.pipeline.gold.lakes import SETTINGS, build_gold
from tests.pipeline.gold.lakes import contents as gold_contents
from tests.pipeline.logs import append, log_rows, make_hub
from tests.pipeline.serving import served
from tests.pipeline.silver.lakes import LivingHub, contents, same_bronze
from tests.workspace.databases import writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BY_SPARK, BY_THE_DRIVER = 0, 1 << 60


def take(spark: Any, lake: Lake, hub: HubRef, events: int, happens: Callable[[], Any] | None = None) -> IngestReport:
    """A run during which something happens, once, when all is planned and nothing is read."""
    left = [happens] if happens else []

    def between(done: int, total: int) -> None:
        if left and total:
            left.pop()()

    return ingest(spark, lake, [hub], progress=between, inline_events=events)


def put_back(backup: Path, hub: Path) -> None:
    """What ``parley backup`` says about restoring: the copy takes the place of the database."""
    target = discovery.at(hub).db
    for file in target.parent.glob(f"{target.name}*"):
        file.unlink()
    shutil.copy(discovery.at(backup).db, target)


def archive(hub: Path, up_to: int) -> None:
    with writing(discovery.at(hub)) as connection:
        connection.execute("INSERT INTO meta VALUES ('archive_in_progress', 'x')")
        connection.execute("DELETE FROM events WHERE event_id <= ?", (up_to,))
        connection.execute("DELETE FROM meta WHERE key = 'archive_in_progress'")


def lost(lake: Lake, hub: HubRef) -> list[tuple[int, int]]:
    """The epochs and ids of what is kept of the hub's lost events."""
    rows = open_table(lake, LOST_EVENTS).to_pyarrow_table().to_pylist()
    return sorted((row["epoch"], row["event_id"]) for row in rows if row["db_id"] == hub.db_id)


@pytest.mark.parametrize("events", [BY_SPARK, BY_THE_DRIVER], ids=["spark", "driver"])
def test_p2_a_hub_restored_between_plan_and_read_loses_nothing(
    spark: "SparkSession", lake: Lake, tmp_path: Path, events: int
) -> None:
    hub = make_hub(tmp_path / "hub", 20)
    shutil.copytree(tmp_path / "hub", tmp_path / "backup")
    append(discovery.at(tmp_path / "hub"), range(20, 200))

    def restored() -> None:
        put_back(tmp_path / "backup", tmp_path / "hub")

    report = take(spark, lake, hub, events, restored)
    assert (report.events, report.conflicts, report.problems) == (20, 1, [])
    assert cursor(lake, EVENTS, cursor_name(hub.db_id)) == 20
    append(discovery.at(tmp_path / "hub"), range(300, 380))
    assert take(spark, lake, hub, events).events == 80
    assert bronze_problems(lake, [hub]) == []


@pytest.mark.parametrize("events", [BY_SPARK, BY_THE_DRIVER], ids=["spark", "driver"])
def test_p2_a_hub_that_is_restored_and_goes_on_past_the_plan_before_it_is_read_loses_nothing(
    spark: "SparkSession", lake: Lake, tmp_path: Path, events: int
) -> None:
    """All of the planned ids are there; only the event that they follow is another one."""
    hub = make_hub(tmp_path / "hub", 20)
    shutil.copytree(tmp_path / "hub", tmp_path / "backup")
    append(discovery.at(tmp_path / "hub"), range(20, 40))
    take(spark, lake, hub, events)
    append(discovery.at(tmp_path / "hub"), range(40, 50))

    def restored() -> None:
        put_back(tmp_path / "backup", tmp_path / "hub")
        append(discovery.at(tmp_path / "hub"), range(500, 560))

    report = take(spark, lake, hub, events, restored)
    assert report.conflicts == 1
    assert report.problems[0].startswith(f"{tmp_path / 'hub'} was restored: what came after event 20, up to event 40,")
    take(spark, lake, hub, events)
    assert bronze_problems(lake, [hub]) == []
    assert lost(lake, hub) == [(1, event_id) for event_id in range(21, 41)]


def test_p2_a_hub_with_holes_in_its_log_is_taken_as_it_is(lake: Lake, tmp_path: Path) -> None:
    hub = make_hub(tmp_path / "hub", 30)
    with writing(discovery.at(tmp_path / "hub")) as connection:
        connection.execute("INSERT INTO meta VALUES ('archive_in_progress', 'x')")
        connection.execute("DELETE FROM events WHERE event_id BETWEEN 10 AND 20")
    assert take(_no_spark, lake, hub, BY_THE_DRIVER).events == 19
    assert bronze_problems(lake, [hub]) == []


def test_p3_a_restored_hub_goes_on_under_a_new_epoch_and_what_it_lost_stays(lake: Lake, tmp_path: Path) -> None:
    hub, other = make_hub(tmp_path / "hub", 20), make_hub(tmp_path / "other", 30)
    shutil.copytree(tmp_path / "hub", tmp_path / "backup")
    append(discovery.at(tmp_path / "hub"), range(20, 50))
    ingest(_no_spark, lake, [hub, other])
    maintain.compact(lake, EVENTS)
    gone = log_rows(str(hub.database))[20:]
    put_back(tmp_path / "backup", tmp_path / "hub")

    report = ingest(_no_spark, lake, [hub, other])
    assert (report.events, report.cursors[hub.db_id], len(report.problems)) == (0, 20, 1)
    assert bronze_problems(lake, [hub, other]) == []
    kept = open_table(lake, LOST_EVENTS).to_pyarrow_table().sort_by("event_id").to_pylist()
    assert [(row["epoch"], row["db_id"], row["event_id"]) for row in kept] == [(1, hub.db_id, row[0]) for row in gone]
    assert [row["data_json"] for row in kept] == [row[-1] for row in gone]
    assert epoch_of(read_cursors(lake, EVENTS), hub.db_id) == 2
    assert ingest(_no_spark, lake, [hub, other]).problems == []

    append(discovery.at(tmp_path / "hub"), range(700, 760))
    assert ingest(_no_spark, lake, [hub, other]).events == 60
    put_back(tmp_path / "backup", tmp_path / "hub")
    append(discovery.at(tmp_path / "hub"), range(800, 990))
    assert ingest(_no_spark, lake, [hub, other]).events == 190
    assert bronze_problems(lake, [hub, other]) == []
    assert {epoch for epoch, _ in lost(lake, hub)} == {1, 2}
    assert epoch_of(read_cursors(lake, EVENTS), hub.db_id) == 3
    assert epoch_of(read_cursors(lake, EVENTS), other.db_id) == 1


def test_p3_a_run_that_died_between_the_two_tables_is_made_good(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = make_hub(tmp_path / "hub", 20)
    shutil.copytree(tmp_path / "hub", tmp_path / "backup")
    append(discovery.at(tmp_path / "hub"), range(20, 50))
    take(_no_spark, lake, hub, BY_THE_DRIVER)
    put_back(tmp_path / "backup", tmp_path / "hub")
    exchange = lost_events.exchange

    def dying(place: Lake, table: Any, *given: Any, **options: Any) -> int:
        if table is EVENTS:
            raise KeyboardInterrupt
        return exchange(place, table, *given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(lost_events, "exchange", dying)
        with pytest.raises(KeyboardInterrupt):
            take(_no_spark, lake, hub, BY_THE_DRIVER)
    assert len(bronze_rows(lake)[hub.db_id]) == 50
    take(_no_spark, lake, hub, BY_THE_DRIVER)
    assert bronze_problems(lake, [hub]) == []
    assert lost(lake, hub) == [(1, event_id) for event_id in range(21, 51)]


def test_p3_of_two_runs_that_find_a_restored_hub_one_begins_the_epoch(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = make_hub(tmp_path / "hub", 20)
    take(_no_spark, lake, hub, BY_THE_DRIVER)
    table, exchange, once = open_table(lake, EVENTS), lost_events.exchange, [True]
    files = Histories(lake, table).files_beyond(hub.db_id, 12)
    step = Step(cursor_name(hub.db_id), 20, 12)

    def overtaken(*given: Any, **options: Any) -> int:
        if once and once.pop():
            assert begin_epoch(lake, table, files, hub.db_id, step, 0) == 2
        return exchange(*given, **options)

    monkeypatch.setattr(lost_events, "exchange", overtaken)
    for _ in range(2):
        with pytest.raises(LakeConflict):
            begin_epoch(lake, table, files, hub.db_id, step, 0)
        assert lost(lake, hub) == [(1, event_id) for event_id in range(13, 21)]
    assert len(bronze_rows(lake)[hub.db_id]) == 12


def test_p3_a_restored_hub_that_is_back_at_the_same_number_has_news(lake: Lake, tmp_path: Path) -> None:
    hub = make_hub(tmp_path / "hub", 20)
    shutil.copytree(tmp_path / "hub", tmp_path / "backup")
    append(discovery.at(tmp_path / "hub"), range(20, 30))
    then = {"events": take(_no_spark, lake, hub, BY_THE_DRIVER).version}
    put_back(tmp_path / "backup", tmp_path / "hub")
    append(discovery.at(tmp_path / "hub"), range(500, 511))
    report = ingest(_no_spark, lake, [hub], rounds=Rounds(first=10))
    assert report.commits == 2
    before_the_last = report.version - 1
    assert read_cursors(lake, EVENTS, before_the_last)[cursor_name(hub.db_id)] == 30
    assert hubs_with_news(lake, then, {"events": before_the_last}) == {hub.db_id}


def test_p3_silver_and_gold_of_a_restored_hub_and_of_a_restored_bronze_are_built_anew(
    spark: "SparkSession", lake: Lake, tmp_path: Path
) -> None:
    """The second of the two interleavings that lost events: bronze restored, then ingested."""
    hub, other = LivingHub(tmp_path / "hub", 3, "hub"), LivingHub(tmp_path / "other", 5, "other")
    other.live(30)

    def build() -> None:
        build_silver(spark, lake)
        build_gold(_no_spark, lake, SETTINGS)

    def is_as_if_built_at_once(number: int) -> bool:
        once = same_bronze(lake, tmp_path / f"once-{number}")
        build_silver(spark, once)
        build_gold(_no_spark, once, SETTINGS)
        return (contents(once), gold_contents(once)) == (contents(lake), gold_contents(lake))

    hub.live(40)
    shutil.copytree(tmp_path / "hub", tmp_path / "backup")
    version = ingest(spark, lake, [hub.ref, other.ref]).version
    build()
    hub.live(40)
    ingest(spark, lake, [hub.ref, other.ref])
    build()
    put_back(tmp_path / "backup", tmp_path / "hub")
    hub.live(45)
    assert len(ingest(spark, lake, [hub.ref, other.ref]).problems) == 1
    build()
    assert bronze_problems(lake, [hub.ref, other.ref]) == []
    assert is_as_if_built_at_once(1)

    put_back(tmp_path / "backup", tmp_path / "hub")
    hub.live(50)
    maintain.restore(lake, EVENTS, version)
    assert ingest(spark, lake, [hub.ref, other.ref]).problems == []
    build()
    assert bronze_problems(lake, [hub.ref, other.ref]) == []
    assert is_as_if_built_at_once(2)
    maintain.restore(lake, MESSAGES, 1)
    build()
    assert is_as_if_built_at_once(3)


def test_p3_a_lake_with_a_restored_hub_is_refused_by_who_knows_no_epochs(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = make_hub(tmp_path / "hub", 20)
    version = take(_no_spark, lake, hub, BY_THE_DRIVER).version
    monkeypatch.setattr("parley.pipeline.lake.place.FORMAT", FORMAT - 1)
    assert Lake.open(Path(lake.root)) == lake
    maintain.restore(lake, EVENTS, version)
    with pytest.raises(SchemaTooNew):
        Lake.open(Path(lake.root))


@pytest.mark.parametrize("way", ["spark", "driver", "spark, over http", "driver, over http"])
def test_p4_an_archive_between_plan_and_read_is_planned_again(
    spark: "SparkSession", lake: Lake, tmp_path: Path, way: str
) -> None:
    make_hub(tmp_path / "hub", 60)
    with ExitStack() as stack:
        hub = hub_of_workspace(tmp_path / "hub")
        if way.endswith("http"):
            url, token = stack.enter_context(served(tmp_path / "hub")), tmp_path / "token"
            token.write_text(os.environ[TOKEN_VARIABLE])  # Spark's workers may be older than the environment
            hub = hub_at(url, str(token))
        events = BY_SPARK if way.startswith("spark") else BY_THE_DRIVER
        report = take(spark, lake, hub, events, lambda: archive(tmp_path / "hub", 25))
    assert (report.events, report.conflicts) == (35, 1)
    assert report.problems == [f"events 1 to 25 of {hub.source} were archived before the lake had them"]
    assert bronze_problems(lake, [hub_of_workspace(tmp_path / "hub")]) == []


def _no_spark() -> "SparkSession":
    raise AssertionError("this needs no Spark")
