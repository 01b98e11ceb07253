"""Silver built by the driver alone: what it folds is what the hub holds, and what is in doubt it leaves to Spark.

That its rows are those that Spark writes is shown beside Spark's own builds.
"""

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from parley.core.fold import TABLES as FOLDED
from parley.core.pipeline_errors import LakeConflict
from parley.pipeline.ingest import ingest
from parley.pipeline.lake import Lake
from parley.pipeline.lake.catalogue.silver import MESSAGES, QUARANTINE
from parley.pipeline.lake.commit import exists
from parley.pipeline.silver.inline import INLINE_EVENTS, Built, build_inline
from parley.pipeline.silver.inline import building as building_inline
from parley.pipeline.silver.reading import bronze_marks
from parley.workspace import queries
from tests.pipeline.silver.lakes import LivingHub, contents, same_bronze, state_of

NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)


def take_in(lake: Lake, *hubs: LivingHub) -> None:
    ingest(no_spark, lake, [hub.ref for hub in hubs])


def no_spark() -> SparkSession:
    raise AssertionError("so few events need no Spark")


def build(lake: Lake) -> Built | None:
    return build_inline(lake, bronze_marks(lake), INLINE_EVENTS)


@pytest.mark.timeout(600)
@settings(max_examples=2, phases=NO_SHRINKING)
@given(seed=st.integers(0, 2**32))
def test_any_sequence_of_builds_in_the_driver_is_one_build_and_what_the_hubs_hold(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    folder, rng = tmp_path_factory.mktemp("inline"), random.Random(seed)
    lake = Lake.open_or_create(folder / "lake")
    hubs = {f"hub-{number}": LivingHub(folder / f"{number}", seed + number, f"hub-{number}") for number in range(2)}
    for _ in range(3):
        for hub in hubs.values():
            hub.live(rng.randrange(10, 60))
        take_in(lake, *hubs.values())
        assert build(lake) is not None
        rows = contents(lake)
        for db_id, hub in hubs.items():
            with hub.reading() as connection:
                stored = queries.stored_state(connection)
            for table in FOLDED:
                assert state_of(rows, db_id, table) == stored.table(table), table
    again = same_bronze(lake, folder / "again")
    assert build(again) is not None
    assert contents(again) == contents(lake)


TS = "2026-01-01T00:00:00.000Z"
CHANNEL = '{"id":"c","name":"%s","description":null,"created_at":"%s"}'
LONE = "\\ud800"
ARCHIVE = '{"archive":"a","sha256":"s","up_to_event_id":1,"events":1,"messages":0}'
DOUBTFUL = {
    "an unknown name": ("from.the_future", "x", "y", "{}"),
    "no JSON": ("plugin.failed", "plugin", "y", "no JSON"),
    "an unknown message": ("message.deleted", "message", "m", '{"message_id":"m","deleted_by":"p","version":2}'),
    "another entity": ("channel.created", "channel", "other", f'{{"channel":{CHANNEL % ("n", TS)}}}'),
    "no time": ("channel.created", "channel", "c", f'{{"channel":{CHANNEL % ("n", "some day")}}}'),
    "no text": ("channel.created", "channel", "c", f'{{"channel":{CHANNEL % (LONE, TS)}}}'),
    "an archive": ("workspace.archived", "workspace", "w", ARCHIVE),
}


@pytest.mark.parametrize("doubtful", DOUBTFUL.values(), ids=DOUBTFUL)
def test_what_is_in_doubt_is_left_to_spark_before_anything_is_written(
    tmp_path: Path, doubtful: tuple[str, str, str, str]
) -> None:
    lake, hub = Lake.open_or_create(tmp_path / "lake"), LivingHub(tmp_path / "hub", 19, "hub")
    hub.live(20)
    take_in(lake, hub)
    assert build(lake) is not None
    before = contents(lake)
    hub.live(5)
    insert = "INSERT INTO events (ts, name, entity_type, entity_id, data_json) VALUES (?, ?, ?, ?, ?)"
    hub.tamper(insert, (TS, *doubtful))
    take_in(lake, hub)
    assert build(lake) is None
    assert contents(lake) == before


def test_a_thing_that_is_created_twice_is_left_to_spark(tmp_path: Path) -> None:
    lake, hub = Lake.open_or_create(tmp_path / "lake"), LivingHub(tmp_path / "hub", 23, "hub")
    hub.live(30)
    hub.tamper(
        "INSERT INTO events (ts, name, entity_type, entity_id, data_json) SELECT ts, name, entity_type, entity_id,"
        " data_json FROM events WHERE name = 'message.created' LIMIT 1"
    )
    take_in(lake, hub)
    assert build(lake) is None
    assert not exists(lake, QUARANTINE)


def test_more_news_than_the_driver_takes_are_left_to_spark(tmp_path: Path) -> None:
    lake, hub = Lake.open_or_create(tmp_path / "lake"), LivingHub(tmp_path / "hub", 29, "hub")
    hub.live(30)
    take_in(lake, hub)
    assert build_inline(lake, bronze_marks(lake), 10) is None
    assert not exists(lake, MESSAGES)


def test_tables_that_a_killed_build_left_behind_are_left_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, hub = Lake.open_or_create(tmp_path / "lake"), LivingHub(tmp_path / "hub", 31, "hub")
    hub.live(30)
    take_in(lake, hub)
    commit, done = building_inline.commit, [0]

    def killed(*given: Any, **options: Any) -> Any:
        done[0] += 1
        if done[0] > 3:
            raise KeyboardInterrupt
        return commit(*given, **options)

    monkeypatch.setattr(building_inline, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        build(lake)
    monkeypatch.setattr(building_inline, "commit", commit)
    assert build(lake) is None


def test_a_build_that_another_one_overtakes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, hub = Lake.open_or_create(tmp_path / "lake"), LivingHub(tmp_path / "hub", 37, "hub")
    hub.live(30)
    take_in(lake, hub)
    commit = building_inline.commit

    def overtaken(place: Lake, table: Any, *given: Any, **options: Any) -> Any:
        monkeypatch.setattr(building_inline, "commit", commit)
        assert build(lake) is not None
        return commit(place, table, *given, **options)

    monkeypatch.setattr(building_inline, "commit", overtaken)
    with pytest.raises(LakeConflict):
        build(lake)
    assert len(contents(lake)[QUARANTINE.name]) == 0
