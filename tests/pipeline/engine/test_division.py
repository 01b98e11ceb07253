"""However a log is divided into news, the tables are those of one build of everything.

The cases are hubs of one lake, each divided in its own way, that are built together: it costs Spark nearly the same.
Times are stretched, so that few events lie in many hours and days, and buckets are small, so that what changes a row
lies in another one than the row.
"""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from parley.core.clock import iso
from parley.pipeline.engine import division, views
from parley.pipeline.lake import Lake
from tests.pipeline.engine.lakes import built, contents, put_events
from tests.pipeline.fold.logs import Event, damaged, random_log
from tests.pipeline.fold.test_fold import PLANTED, TRUNCATED
from tests.pipeline.fold.test_fold import hub as events_of
from tests.workspace.databases import START_MS

pytestmark = pytest.mark.timeout(1800)
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
TURNS = 3
STEP_MS = 25 * 60_000
"""Between two events: a few in each hour, a log of some days."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(division, "EVENTS_MIN", 0)
    monkeypatch.setattr(division, "NEWS_SHARE_MAX", 1.0)
    monkeypatch.setattr(views, "BUCKET_EVENTS", 10)


def stretched(log: Sequence[Event]) -> list[Event]:
    """The events at times of their own, one of which runs backwards."""
    return [
        event._replace(ts=iso(START_MS + (event.event_id - (3 if event.event_id == 9 else 0)) * STEP_MS))
        for event in log
    ]


@settings(max_examples=1, phases=NO_SHRINKING)
@given(seed=st.integers(0, 2**32))
def test_any_division_into_news_gives_what_one_build_gives(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Beside each hub that is divided there is the same one at last, whole: one build has both."""
    folder, rng = tmp_path_factory.mktemp("division"), random.Random(seed)
    logs = {db_id: stretched(log) for db_id, log in cases(folder, seed).items()}
    cuts = {db_id: [0, *sorted(rng.choices(range(len(log) + 1), k=TURNS - 1)), len(log)] for db_id, log in logs.items()}
    lake = Lake.open_or_create(folder / "lake")
    for turn in range(TURNS):
        news = {db_id: log[cuts[db_id][turn] : cuts[db_id][turn + 1]] for db_id, log in logs.items()}
        whole = {f"{db_id}-at-once": log for db_id, log in logs.items()} if turn == TURNS - 1 else {}
        put_events(lake, news | whole)
        grown = {db_id for db_id, log in news.items() if log and cuts[db_id][turn]}
        assert built(spark, lake).divided == len(grown - {"truncated"} - with_archives(news))
    found = contents(lake)
    for db_id in logs:
        for name, rows in found.items():
            assert of(rows, db_id) == of(rows, f"{db_id}-at-once"), (name, db_id, cuts[db_id])


def of(rows: list[dict[str, Any]], db_id: str) -> list[dict[str, Any]]:
    """The rows of a hub, but for what they say of it alone."""
    own = [{**row, "db_id": None, "bucket": None, "source": None} for row in rows if row["db_id"] == db_id]
    return sorted(own, key=lambda row: sorted(map(repr, row.items())))


def with_archives(logs: Mapping[str, Sequence[Event]]) -> set[str]:
    return {db_id for db_id, log in logs.items() if any(event.name == "workspace.archived" for event in log)}


def cases(folder: Path, seed: int) -> dict[str, list[Event]]:
    def history(name: str, number: int, **options: Any) -> list[Event]:
        return random_log(folder / name, name, number, 90, **options).events

    return {
        **{f"sound-{at}": history(f"sound-{at}", seed + at) for at in range(3)},
        "archived": history("archived", seed + 3, archives=True),
        **{
            f"broken-{at}": damaged(history(f"broken-{at}", seed + at), random.Random(seed + at), 12)
            for at in range(4, 7)
        },
        "planted": events_of(*(event for event, _ in PLANTED)),
        "truncated": events_of(*TRUNCATED, first=11),
    }
