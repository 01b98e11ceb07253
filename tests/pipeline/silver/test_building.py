"""Silver run by run: the same as one build of everything, and the same as what the hubs hold."""

import random
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from parley.core.fold import TABLES as FOLDED
from parley.core.pipeline_errors import LakeConflict
from parley.pipeline.lake import Lake, maintain
from parley.pipeline.lake.catalogue.silver import MESSAGES, QUARANTINE, TABLES
from parley.pipeline.silver import build_silver, building
from parley.pipeline.silver.inline import INLINE_EVENTS
from parley.workspace import queries
from tests.pipeline.silver.lakes import LivingHub, contents, same_bronze, state_of, take_in

pytestmark = pytest.mark.timeout(900)

NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)


def agree(hub: LivingHub, rows: dict[str, list[dict[str, Any]]], db_id: str) -> None:
    with hub.reading() as connection:
        stored = queries.stored_state(connection)
    for table in FOLDED:
        assert state_of(rows, db_id, table) == stored.table(table), table


@settings(max_examples=1, phases=NO_SHRINKING)
@given(seed=st.integers(0, 2**32))
def test_any_sequence_of_builds_is_one_build_of_everything(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    folder, rng = tmp_path_factory.mktemp("silver"), random.Random(seed)
    lake = Lake.open_or_create(folder / "lake")
    hubs = {f"hub-{number}": LivingHub(folder / f"{number}", seed + number, f"hub-{number}") for number in range(2)}
    for turn in range(3):
        for hub in hubs.values():
            hub.live(rng.randrange(10, 60))
        take_in(spark, lake, *hubs.values())
        build_silver(spark, lake, inline_events=rng.choice((0, INLINE_EVENTS)))
        rows = contents(lake)
        for db_id, hub in hubs.items():
            agree(hub, rows, db_id)
        if turn == 1:
            hubs["hub-0"].archive(rng.randrange(600_000))
    again = same_bronze(lake, folder / "again")
    build_silver(spark, again, inline_events=0)
    assert contents(again) == contents(lake)


def test_a_build_without_news_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    lake, hub = Lake.open_or_create(tmp_path / "lake"), LivingHub(tmp_path / "hub", 3, "hub")
    assert build_silver(spark, lake).events == 0
    hub.live(20)
    take_in(spark, lake, hub)
    assert build_silver(spark, lake).events > 0
    versions = [DeltaTable(lake.path(table)).version() for table in TABLES]
    report = build_silver(spark, lake)
    assert (report.events, report.tables) == (0, {})
    assert [DeltaTable(lake.path(table)).version() for table in TABLES] == versions


def test_what_cannot_be_folded_is_set_aside_and_the_rest_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    lake, hub = Lake.open_or_create(tmp_path / "lake"), LivingHub(tmp_path / "hub", 5, "hub")
    insert = "INSERT INTO events (ts, name, entity_type, entity_id, data_json) VALUES ('t', ?, 'message', 'msg_x', ?)"
    hub.live(20)
    hub.tamper(insert, ("message.edited", '{"message_id":"msg_x","version":2,"new_content":"y"}'))
    hub.tamper(insert, ("from.the_future", "{}"))
    take_in(spark, lake, hub)
    report = build_silver(spark, lake)
    assert report.quarantined == {"unknown_message": 1, "unknown_name": 1}
    hub.tamper(insert, ("message.created", "no JSON"))
    hub.live(20)
    take_in(spark, lake, hub)
    assert build_silver(spark, lake).quarantined == {"malformed": 1}
    rows = contents(lake)
    agree(hub, rows, "hub")
    assert [row["reason"] for row in sorted(rows["quarantine"], key=lambda row: row["event_id"])] == [
        "unknown_message",
        "unknown_name",
        "malformed",
    ]


def test_a_killed_build_is_taken_up_where_it_stopped(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, hub = Lake.open_or_create(tmp_path / "lake"), LivingHub(tmp_path / "hub", 7, "hub")
    hub.live(40)
    take_in(spark, lake, hub)
    build_silver(spark, lake, inline_events=0)
    hub.live(40)
    take_in(spark, lake, hub)
    merge = building.merge

    def die_after_messages(session: SparkSession, place: Lake, spec: building.Spec, news: building.News) -> Any:
        if spec.table is MESSAGES:
            merge(session, place, spec, news)
            raise KeyboardInterrupt
        return merge(session, place, spec, news)

    monkeypatch.setattr(building, "merge", die_after_messages)
    with pytest.raises(KeyboardInterrupt):
        build_silver(spark, lake, inline_events=0)
    monkeypatch.setattr(building, "merge", merge)
    hub.live(10)
    take_in(spark, lake, hub)
    build_silver(spark, lake, inline_events=0)
    agree(hub, contents(lake), "hub")
    again = same_bronze(lake, tmp_path / "again")
    build_silver(spark, again, inline_events=0)
    assert contents(again) == contents(lake)


def test_a_build_that_another_one_overtakes_begins_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, hub = Lake.open_or_create(tmp_path / "lake"), LivingHub(tmp_path / "hub", 9, "hub")
    hub.live(30)
    take_in(spark, lake, hub)
    judge, once = building.judge, [True]

    def overtaken(*given: Any, **options: Any) -> Any:
        if once.pop() if once else False:
            build_silver(spark, lake, inline_events=0)
        return judge(*given, **options)

    monkeypatch.setattr(building, "judge", overtaken)
    assert build_silver(spark, lake, inline_events=0).conflicts == 1
    agree(hub, contents(lake), "hub")


def test_a_build_gives_up_when_others_are_always_quicker(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, hub = Lake.open_or_create(tmp_path / "lake"), LivingHub(tmp_path / "hub", 11, "hub")
    hub.live(5)
    take_in(spark, lake, hub)

    def too_late(*_: Any, **__: Any) -> Any:
        raise LakeConflict("too late", table=QUARANTINE.view)

    monkeypatch.setattr(building, "judge", too_late)
    with pytest.raises(LakeConflict):
        build_silver(spark, lake, inline_events=0)


def test_a_restored_quarantine_is_judged_anew(spark: SparkSession, tmp_path: Path) -> None:
    lake, hub = Lake.open_or_create(tmp_path / "lake"), LivingHub(tmp_path / "hub", 13, "hub")
    hub.live(20)
    hub.tamper("INSERT INTO events (ts, name, entity_type, entity_id, data_json) VALUES ('t', 'new', 'x', 'y', '{}')")
    take_in(spark, lake, hub)
    build_silver(spark, lake, inline_events=0)
    before = contents(lake)
    maintain.restore(lake, QUARANTINE, 0)
    assert build_silver(spark, lake, inline_events=0).quarantined == {"unknown_name": 1}
    assert contents(lake) == before
