"""The history that the pipeline is measured on is one that a hub could have left behind."""

import shutil
from pathlib import Path

from bench.load.long_history import TOPICS, LongHistory
from bench.plan import Plan
from bench.scenarios import lake
from tests.hub.hubs import fold_problems, rows


def test_the_tables_of_a_made_history_equal_the_fold_of_its_log(tmp_path: Path) -> None:
    history = LongHistory(tmp_path, events_planned=6_000)
    before = history.events
    assert before >= 1 + TOPICS
    history.extend(5_000)
    history.extend(1_000)
    history.close()
    assert history.events == before + 6_000
    assert fold_problems(history.workspace) == []
    counted = dict(rows(history.workspace, "SELECT name, count(*) FROM events GROUP BY name"))
    assert counted["message.created"] == 300 * 11
    assert counted["message.edited"] == 300 * 4
    assert rows(history.workspace, "SELECT count(*) FROM messages WHERE version > 1")[0][0] > 0
    (days,) = rows(history.workspace, "SELECT count(DISTINCT substr(ts, 1, 10)) FROM events")
    assert days[0] >= 28


def test_a_kept_history_goes_on_where_it_ended(tmp_path: Path) -> None:
    first = LongHistory(tmp_path / "history", events_planned=6_000)
    first.extend(2_000)
    first.close()
    shutil.copytree(tmp_path / "history", tmp_path / "copy")
    later = LongHistory(tmp_path / "copy", events_planned=6_000)
    later.extend(1_000)
    later.close()
    assert later.events == first.events + 1_000
    assert fold_problems(later.workspace) == []
    assert len(rows(first.workspace, "SELECT event_id FROM events")) == first.events


def test_the_bench_keeps_a_history_and_adds_to_a_copy_of_it(tmp_path: Path) -> None:
    plan = Plan(lake_large=5_000, lake_keep=tmp_path / "kept")
    for run in ("one", "two"):
        history = lake.history_of(tmp_path / run, 2_000, plan)
        made = history.events
        history.extend(100)
        history.close()
        assert 2_000 <= made < 2_020
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["2000"]


def test_growth_is_told_as_a_fixed_part_and_a_slope() -> None:
    small, large = {"events": 1_000_000, "seconds": 5.0}, {"events": 5_000_000, "seconds": 17.0}
    assert lake.growth(small, large) == {
        "fixed_seconds": 2.0,
        "seconds_per_million": 3.0,
        "seconds_per_event_ratio": 0.68,
    }


def test_a_run_after_few_new_events_stands_beside_the_full_one_with_gold_and_without() -> None:
    full = {name: {"seconds": 10.0, "cpu_seconds": 20.0} for name in ("ingest", "build", "gold")}
    again = {
        "ingest": {"seconds": 1.0, "cpu_seconds": 1.0},
        "build": {"seconds": 1.0, "cpu_seconds": 1.0},
        "gold": {"seconds": 4.0, "cpu_seconds": 10.0},
    }
    assert lake.beside(full, again) == {
        "seconds": 2.0,
        "of_full_ratio": 0.1,
        "cpu_seconds": 2.0,
        "cpu_of_full_ratio": 0.05,
        "seconds_with_gold": 6.0,
        "of_full_ratio_with_gold": 0.2,
        "cpu_seconds_with_gold": 12.0,
        "cpu_of_full_ratio_with_gold": 0.2,
    }
    del full["gold"]
    assert "seconds_with_gold" not in lake.beside(full, again)
