"""A build of everything by the runner gives the rows that the engines before it give, whatever the logs hold."""

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from parley.pipeline.engine.hubs import PLAN
from parley.pipeline.engine.spec import Part, Plan, Spec
from parley.pipeline.fold import REASONS
from parley.pipeline.gold.building import BY_SPARK, build_gold
from parley.pipeline.lake import Lake, Table
from parley.pipeline.lake.catalogue import gold, silver
from parley.pipeline.silver import build_silver
from tests.pipeline.engine.lakes import SETTINGS, built, contents, lake_of, rows_of
from tests.pipeline.fold.logs import Event, damaged, random_log
from tests.pipeline.fold.test_fold import (
    CANONICAL,
    CHANNEL,
    DISPUTED,
    PLANTED,
    TRUNCATED,
    UNREADABLE,
    change,
    message,
    topic,
)
from tests.pipeline.fold.test_fold import hub as events_of
from tests.pipeline.silver.lakes import same_bronze

pytestmark = pytest.mark.timeout(1800)
SEED = 20

TALK = (
    CHANNEL,
    topic("p1"),
    message("m1", sender="ann", content_raw="Who?\nWhere?"),
    message("m2", sender="ann"),
    message("m3", sender="bob"),
    message("m4", sender="cem", reply_to="m1"),
    message("m5", sender="bob", reply_to="m1"),
    message("m6", sender="bob", reply_to="m1"),
    message("m7", sender="cem"),
    change("deleted", "m3", 2, deleted_by="ann"),
    message("m8", sender="bob"),
    message("m9", sender="ann"),
)
MINUTES = (0, 0, 1, 2, 3, 4, 5, 5, 8, 9, 40, 38)
"""When each of these was said: the last but one too late to be an answer, the last before it by the clock."""


@pytest.fixture(scope="module")
def lakes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, Lake]:
    """The same logs of many hubs built by the runner, and by the engines before it."""
    folder = tmp_path_factory.mktemp("full")
    ours = lake_of(folder / "ours", logs(folder))
    theirs = same_bronze(ours, folder / "theirs")
    built(spark, ours)
    build_silver(spark, theirs, inline_events=0)
    build_gold(spark, theirs, SETTINGS, inline_events=BY_SPARK)
    return ours, theirs


def logs(folder: Path) -> dict[str, list[Event]]:
    """Sound histories, one with archives and one that begins after its archive; damaged ones; and planted events."""
    sound = {
        f"sound-{at}": random_log(folder / str(at), f"sound-{at}", SEED + at, 80, archives=at == 1) for at in (0, 1)
    }
    broken = {
        f"broken-{at}": damaged(random_log(folder / f"b{at}", "", at, 60).events, random.Random(at), 12)
        for at in (*DISPUTED, SEED)
    }
    archived = [event for event in sound["sound-1"].events if event.name == "workspace.archived"]
    rest = [event for event in sound["sound-1"].events if event.event_id > archived[0].data["up_to_event_id"]]
    return {
        **{db_id: log.events for db_id, log in sound.items()},
        **broken,
        "begins-later": rest,
        "planted": events_of(*(event for event, _ in PLANTED)),
        "unreadable": events_of(*UNREADABLE),
        "canonical": events_of(*CANONICAL),
        "truncated": events_of(*TRUNCATED, first=11),
        "talk": [
            event._replace(ts=f"2026-03-02T09:{MINUTES[place]:02}:00.000Z")
            for place, event in enumerate(events_of(*TALK))
        ],
    }


@pytest.mark.parametrize("table", [*silver.TABLES, *gold.TABLES], ids=lambda table: table.view)
def test_every_table_has_the_rows_that_the_engines_before_gave_it(lakes: tuple[Lake, Lake], table: Table) -> None:
    ours, theirs = (rows_of(lake, table) for lake in lakes)
    if table in (gold.ACTIVITY_HOUR, gold.ACTIVITY_DAY):
        # Of a hub whose beginning is missing, a message may have come from a topic that nobody knows to one that is
        # known. The row of each topic has the channel of just that topic now.
        ours, theirs = ([row for row in rows if row["db_id"] != "begins-later"] for rows in (ours, theirs))
    assert ours == theirs


def test_what_was_done_in_a_topic_was_done_in_its_channel(lakes: tuple[Lake, Lake]) -> None:
    rows = contents(lakes[0])
    channels = {(row["db_id"], row["id"]): row["channel_id"] for row in rows["silver_topics"]}
    for row in (*rows["gold_activity_hour"], *rows["gold_activity_day"]):
        assert row["channel_id"] == channels.get((row["db_id"], row["topic_id"]))


def test_the_logs_hold_what_is_hard(lakes: tuple[Lake, Lake]) -> None:
    rows = contents(lakes[0])
    assert {row["reason"] for row in rows["silver_quarantine"]} == set(REASONS)
    assert any(row["first_event_id"] > 1 for row in rows["gold_hubs"])
    versions = {(row["db_id"], row["id"]) for row in rows["silver_message_versions"]}
    assert versions > {(row["db_id"], row["id"]) for row in rows["silver_messages"]}
    assert {row["kind"] for row in rows["gold_answers"]} == {"reply", "next"}
    assert all(rows[name] for name in rows if name != "gold_unanswered")


def test_a_key_names_one_row(lakes: tuple[Lake, Lake]) -> None:
    for name, spec in PLAN.specs.items():
        rows = rows_of(lakes[0], spec.table)
        assert len({tuple(row[column] for column in spec.key) for row in rows}) == len(rows), name


def test_a_plan_orders_its_tables_by_what_they_read_and_refuses_a_circle() -> None:
    def spec(name: str, sql: str) -> Spec:
        return Spec(Table("gold", name, gold.HUBS.schema, ""), sql, ("db_id",))

    plan = Plan(
        [spec("c", "{gold_b} {common}"), spec("b", "{gold_a}"), spec("a", "{events}")], [Part("common", "{gold_a}")]
    )
    assert [[each.table.name for each in wave] for wave in plan.waves] == [["a"], ["b"], ["c"]]
    with pytest.raises(ValueError, match="gold_x, gold_y read each other"):
        Plan([spec("x", "{gold_y}"), spec("y", "{gold_x}")])


def test_rules_settings_and_restores_of_what_a_table_reads_count_for_it() -> None:
    hubs, hours = (PLAN.specs[name] for name in ("gold_hubs", "gold_health_hour"))
    changed = Plan(
        [
            Spec(hours.table, str(hours.sql), hours.key, rules=2) if each is hours else each
            for each in PLAN.specs.values()
        ],
        PLAN.parts.values(),
    )
    told: dict[str, Any] = {"asks": "?"}
    number = PLAN.number_of(hubs, told, {})
    assert PLAN.number_of(hubs, told, {"silver_moves": 1}) == number == PLAN.number_of(hubs, dict(told), {})
    others = [
        changed.number_of(hubs, told, {}),
        PLAN.number_of(hubs, {"asks": "!"}, {}),
        PLAN.number_of(hubs, told, {"gold_irregularities": 1}),
    ]
    assert number not in others
