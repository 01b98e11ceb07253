"""Silver run by run: the same as one build of everything, and the same as what the hubs hold."""

import random
import threading
from pathlib import Path
from typing import Any, NamedTuple

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
from parley.pipeline.silver.building import SilverReport
from parley.pipeline.silver.inline import INLINE_EVENTS
from parley.pipeline.silver.reading import silver_marks
from parley.workspace import queries
from tests.pipeline.silver.lakes import LivingHub, contents, same_bronze, state_of, take_in

pytestmark = pytest.mark.timeout(1800)

NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
Rows = dict[str, list[dict[str, Any]]]


def agree(hub: LivingHub, rows: Rows, db_id: str) -> None:
    with hub.reading() as connection:
        stored = queries.stored_state(connection)
    for table in FOLDED:
        assert state_of(rows, db_id, table) == stored.table(table), table


@settings(max_examples=1, phases=NO_SHRINKING)
@given(seed=st.integers(0, 2**32))
def test_any_sequence_of_builds_is_one_build_of_everything(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """The first is the driver's: of what it writes, whatever does not change later must be what Spark writes."""
    folder, rng = tmp_path_factory.mktemp("silver"), random.Random(seed)
    lake = Lake.open_or_create(folder / "lake")
    hubs = {f"hub-{number}": LivingHub(folder / f"{number}", seed + number, f"hub-{number}") for number in range(2)}
    for turn, inline_events in enumerate((INLINE_EVENTS, 0, rng.choice((0, INLINE_EVENTS)))):
        for hub in hubs.values():
            hub.live(100 if turn == 0 else rng.randrange(10, 60))
        take_in(spark, lake, *hubs.values())
        build_silver(spark, lake, inline_events=inline_events)
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


class Story(NamedTuple):
    """A lake whose builds were overtaken, killed and taken up again, step by step."""

    overtaken: SilverReport
    """Of a build that another one overtook while it judged."""
    cursors_after_the_kill: set[int]
    """Where the tables stand that a killed build left behind."""
    resumed: SilverReport
    rows: Rows
    rows_of_a_full_build: Rows
    restored: SilverReport
    """Of a build after the quarantine was set back to its beginning."""
    rows_after_the_restore: Rows


INSERT = "INSERT INTO events (ts, name, entity_type, entity_id, data_json) VALUES ('t', ?, 'message', 'msg_x', ?)"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> LivingHub:
    return LivingHub(tmp_path_factory.mktemp("story") / "hub", 7, "hub")


@pytest.fixture(scope="module")
def story(spark: SparkSession, hub: LivingHub, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """One lake for all of it: a build in Spark takes its time, however little there is to build."""
    folder = tmp_path_factory.mktemp("lakes")
    lake = Lake.open_or_create(folder / "lake")
    hub.live(40)
    take_in(spark, lake, hub)
    overtaken = build_while_another_does(spark, lake)
    hub.live(40)
    hub.tamper(INSERT, ("message.edited", '{"message_id":"msg_x","version":2,"new_content":"y"}'))
    hub.tamper(INSERT, ("from.the_future", "{}"))
    take_in(spark, lake, hub)
    die_after_messages(spark, lake)
    stands = {silver_marks(lake, table)["hub"] for table in TABLES}
    hub.tamper(INSERT, ("message.created", "no JSON"))
    hub.live(20)
    take_in(spark, lake, hub)
    resumed, rows = build_silver(spark, lake, inline_events=0), contents(lake)
    again = same_bronze(lake, folder / "again")
    build_silver(spark, again, inline_events=0)
    full = contents(again)
    maintain.restore(again, QUARANTINE, 0)
    restored = build_silver(spark, again, inline_events=0)
    return Story(overtaken, stands, resumed, rows, full, restored, contents(again))


def build_while_another_does(spark: SparkSession, lake: Lake) -> SilverReport:
    """The other one is quicker because the driver does it alone."""
    judge, once = building.judge, [True]

    def overtaken(*given: Any, **options: Any) -> Any:
        if once.pop() if once else False:
            assert build_silver(spark, lake).tables
        return judge(*given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "judge", overtaken)
        return build_silver(spark, lake, inline_events=0)


def die_after_messages(spark: SparkSession, lake: Lake) -> None:
    merge, dead = building.merge, threading.Event()

    def dying(session: SparkSession, place: Lake, spec: building.Spec, news: building.News) -> Any:
        merged = None if dead.is_set() else merge(session, place, spec, news)
        if spec.table is MESSAGES:
            dead.set()
        if dead.is_set():
            raise KeyboardInterrupt
        return merged

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "merge", dying)
        with pytest.raises(KeyboardInterrupt):
            build_silver(spark, lake, inline_events=0)


def test_what_cannot_be_folded_is_set_aside_and_the_rest_goes_on(story: Story, hub: LivingHub) -> None:
    assert story.resumed.quarantined == {"malformed": 1}
    agree(hub, story.rows, "hub")
    assert [row["reason"] for row in sorted(story.rows["quarantine"], key=lambda row: row["event_id"])] == [
        "unknown_message",
        "unknown_name",
        "malformed",
    ]


def test_a_build_that_another_one_overtakes_begins_again(story: Story) -> None:
    assert story.overtaken.conflicts == 1
    assert story.overtaken.tables == {}


def test_a_killed_build_is_taken_up_where_it_stopped(story: Story) -> None:
    assert len(story.cursors_after_the_kill) == 2
    assert story.resumed.conflicts == 0
    assert story.rows == story.rows_of_a_full_build


def test_a_restored_quarantine_is_judged_anew(story: Story) -> None:
    assert story.restored.quarantined == {"unknown_message": 1, "unknown_name": 1, "malformed": 1}
    assert story.rows_after_the_restore == story.rows_of_a_full_build


def test_a_build_gives_up_when_others_are_always_quicker(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, hub = Lake.open_or_create(tmp_path / "lake"), LivingHub(tmp_path / "hub", 11, "hub")
    hub.live(5)
    take_in(spark, lake, hub)

    tried: list[None] = []

    def too_late(*_: Any, **__: Any) -> Any:
        tried.append(None)
        raise LakeConflict("too late", table=QUARANTINE.view)

    monkeypatch.setattr(building, "CONFLICTS_MAX", 2)
    monkeypatch.setattr(building, "judge", too_late)
    with pytest.raises(LakeConflict):
        build_silver(spark, lake, inline_events=0)
    assert tried == [None] * 3
