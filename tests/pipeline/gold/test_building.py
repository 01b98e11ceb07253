"""Gold count by count: whatever came in between, the tables are those of one count of everything.

The driver counts alone here; that Spark counts the same is shown in a file of its own.
"""

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from parley.core.pipeline_errors import LakeConflict
from parley.core.settings import PipelineSettings
from parley.pipeline.gold import building, provenance
from parley.pipeline.lake import Lake, Step, Table, commit, maintain
from parley.pipeline.lake.catalogue.bronze import EVENTS
from parley.pipeline.lake.catalogue.gold import ANSWERS, TABLES, TOPICS
from parley.pipeline.lake.catalogue.silver import MESSAGE_VERSIONS, QUARANTINE
from parley.pipeline.lake.commit import open_table
from tests.pipeline.gold.lakes import World, contents, count, sizes

pytestmark = pytest.mark.timeout(900)
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
EVERY = {table.name for table in TABLES}


@settings(max_examples=2, phases=NO_SHRINKING)
@given(seed=st.integers(0, 2**32))
def test_any_sequence_of_counts_is_one_count_of_everything(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    world = World(tmp_path_factory.mktemp("gold"), seed, hubs=3)
    names = list(world.hubs)
    for _ in range(3):
        world.grow(*world.rng.sample(names, world.rng.randrange(1, 4)))
        if world.rng.random() < 0.5:
            maintain.compact(world.lake, world.rng.choice((EVENTS, MESSAGE_VERSIONS, ANSWERS)))
    assert contents(world.lake) == world.counted_at_once()


def test_a_count_without_news_writes_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, 3)
    world.grow()
    versions = [DeltaTable(world.lake.path(table)).version() for table in TABLES]
    report = count(world.lake)
    assert (report.tables, report.unchanged) == ({}, len(TABLES))
    assert [DeltaTable(world.lake.path(table)).version() for table in TABLES] == versions


def test_a_lake_without_events_has_tables_without_rows(lake: Lake) -> None:
    assert count(lake).tables == sizes(lake) == dict.fromkeys(EVERY, 0)


def test_only_hubs_with_news_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, asked = World(tmp_path, 5, hubs=3), list[Any]()
    reader = building.Reader

    def noted(lake: Lake, origin: Any, hubs: Any) -> Any:
        asked.append(hubs)
        return reader(lake, origin, hubs)

    monkeypatch.setattr(building, "Reader", noted)
    world.grow()
    world.grow("hub-1")
    maintain.compact(world.lake, EVENTS)
    count(world.lake)
    world.grow("hub-0", "hub-2")
    assert asked == [None, {"hub-1"}, set(), {"hub-0", "hub-2"}]
    assert contents(world.lake) == world.counted_at_once()


def test_rows_of_hubs_without_news_stay_in_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.pipeline.gold.writing.FILE_ROWS", 1)
    world = World(tmp_path, 7)
    world.grow()
    before = set(open_table(world.lake, TOPICS).file_uris())
    world.grow("hub-1")
    assert len(before & set(open_table(world.lake, TOPICS).file_uris())) == 1


@pytest.mark.parametrize("table", [EVENTS, MESSAGE_VERSIONS, QUARANTINE])
def test_a_source_that_was_restored_is_counted_whole(tmp_path: Path, table: Table) -> None:
    world = World(tmp_path, 11)
    world.grow()
    version = open_table(world.lake, table).version()
    world.grow("hub-0")
    newer = open_table(world.lake, table).version()
    maintain.restore(world.lake, table, version)
    assert count(world.lake).tables == sizes(world.lake)
    assert contents(world.lake) == world.counted_at_once()
    maintain.restore(world.lake, table, version)
    maintain.restore(world.lake, table, newer)
    assert count(world.lake).tables == sizes(world.lake)
    assert contents(world.lake) == world.counted_at_once()


def test_a_restored_gold_table_is_brought_up_again(tmp_path: Path) -> None:
    world = World(tmp_path, 13)
    world.grow()
    version = open_table(world.lake, ANSWERS).version()
    world.grow("hub-0")
    world.grow("hub-1")
    for back in (version, 0):
        maintain.restore(world.lake, ANSWERS, back)
        assert count(world.lake).tables.keys() == {"answers"}
        assert contents(world.lake) == world.counted_at_once()


def test_other_settings_and_other_rules_count_everything_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, 17)
    world.grow()
    other = PipelineSettings(answer_window_minutes=1, stuck_after_hours=0.1)
    assert count(world.lake, other).tables.keys() == EVERY
    assert contents(world.lake) == world.counted_at_once(other)
    monkeypatch.setattr(provenance, "RULES", provenance.RULES + 1)
    assert count(world.lake, other).tables == sizes(world.lake)


def test_a_table_that_does_not_know_its_sources_is_counted_whole(tmp_path: Path) -> None:
    """As those that were counted before tables remembered them."""
    world = World(tmp_path, 19)
    world.live()
    commit(world.lake, ANSWERS, [], cursors=[Step(provenance.CURSOR, None, 1)])
    count(world.lake)
    world.grow("hub-0")
    assert contents(world.lake) == world.counted_at_once()


def test_a_source_with_commits_of_others_is_counted_whole(tmp_path: Path) -> None:
    world = World(tmp_path, 23)
    world.grow()
    DeltaTable(world.lake.path(EVENTS)).delete("event_id = 2")
    assert count(world.lake).tables.keys() == EVERY
    assert contents(world.lake) == world.counted_at_once()


def test_a_killed_count_is_taken_up_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, left = World(tmp_path, 29), [5]
    world.grow()
    world.live("hub-0")
    replace = building.replace_hubs

    def dying(*given: Any) -> int:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return replace(*given)

    with monkeypatch.context() as patch:
        patch.setattr(building, "replace_hubs", dying)
        with pytest.raises(KeyboardInterrupt):
            count(world.lake)
    world.live("hub-1")
    assert count(world.lake).tables.keys() == EVERY
    assert contents(world.lake) == world.counted_at_once()


def test_a_count_that_another_one_overtakes_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, once = World(tmp_path, 31), [True]
    world.grow()
    world.live("hub-0")
    replace = building.replace_hubs

    def overtaken(*given: Any) -> int:
        if once and once.pop():
            world.live("hub-1")
            count(world.lake)
        return replace(*given)

    monkeypatch.setattr(building, "replace_hubs", overtaken)
    report = count(world.lake)
    assert (report.conflicts, report.unchanged) == (1, len(TABLES))
    assert contents(world.lake) == world.counted_at_once()


def test_a_count_gives_up_when_others_are_always_quicker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, 37)
    world.live()

    def too_late(*_: Any) -> int:
        raise LakeConflict("too late", table=ANSWERS.view)

    monkeypatch.setattr(building, "replace_hubs", too_late)
    with pytest.raises(LakeConflict):
        count(world.lake)
