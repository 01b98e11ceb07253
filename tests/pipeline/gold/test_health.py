"""Hub health: hours, gaps and clocks, on logs written by hand and on random ones."""

import random
from datetime import datetime
from itertools import pairwise

import pytest
from pyspark.sql import SparkSession

from parley.pipeline.gold import health
from tests.pipeline.gold.worlds import EVENTS, MINUTE_MS, QUARANTINE, event, frame, hour, rows, ts

pytestmark = pytest.mark.timeout(300)
"""A busy machine takes long to start Spark, and to plan a query for the first time."""

LOG = (
    event(5, 0, "channel.created"),
    event(6, 1),
    event(9, 2),
    event(10, -3),
    event(11, 70),
    event(12, "no time"),
    event(13, 71),
    event(1, 0, hub="hub-b"),
)
IRREGULARITY = ("db_id", "previous_event_id", "event_id", "missing", "back_ms")


def test_gaps_and_times_that_run_backwards_are_found(spark: SparkSession) -> None:
    found = health.compare_neighbours(frame(spark, EVENTS, LOG))
    assert rows(found, *IRREGULARITY) == [("hub-a", 6, 9, 2, 0), ("hub-a", 9, 10, 0, 5 * MINUTE_MS)]


def test_neighbours_are_compared_across_the_borders_of_blocks(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "BLOCK", 7)
    chance = random.Random(3)
    log = []
    for hub in ("hub-a", "hub-b"):
        ids = sorted(chance.sample(range(1, 300), 150))
        log += [event(event_id, event_id + chance.choice((0, 0, 0, -9)), hub=hub) for event_id in ids]
    expected = []
    for before, after in pairwise(log):
        back = (datetime.fromisoformat(before[2]) - datetime.fromisoformat(after[2])).total_seconds() * 1000
        missing = after[1] - before[1] - 1
        if before[0] == after[0] and (missing or back > 0):
            expected.append((after[0], before[1], after[1], missing, max(0, back)))
    assert rows(health.compare_neighbours(frame(spark, EVENTS, log)), *IRREGULARITY) == sorted(expected)


def test_hubs_sum_up_what_was_found(spark: SparkSession) -> None:
    events = frame(spark, EVENTS, LOG)
    quarantine = frame(spark, QUARANTINE, [("hub-a", 12, "message.created", "ts", "{}")] * 2)
    hubs = health.describe_hubs(events, health.count_hours(events), health.compare_neighbours(events), quarantine)
    columns = ("db_id", "events", "first_event_id", "last_event_id", "untimed", "events_in_peak_hour", "busy_hours")
    assert rows(hubs, *columns) == [("hub-a", 7, 5, 13, 1, 3, 3), ("hub-b", 1, 1, 1, 0, 1, 1)]
    assert rows(hubs, "source") == [("/projects/hub-a",), ("/projects/hub-b",)]
    columns = ("db_id", "gaps", "missing", "clock_jumps", "back_ms_max", "quarantined")
    assert rows(hubs, *columns) == [("hub-a", 1, 2, 1, 5 * MINUTE_MS, 2), ("hub-b", 0, 0, 0, 0, 0)]
    assert rows(health.count_quarantine(quarantine), "reason", "events", "first_event_id") == [("ts", 2, 12)]


def test_events_and_messages_are_counted_by_the_hour(spark: SparkSession) -> None:
    hours = health.count_hours(frame(spark, EVENTS, LOG))
    assert rows(hours, "db_id", "start", "events", "messages") == [
        ("hub-a", hour(2, 8), 1, 1),
        ("hub-a", hour(2, 9), 3, 2),
        ("hub-a", hour(2, 10), 2, 2),
        ("hub-b", hour(2, 9), 1, 1),
    ]
    assert ts(0) == "2026-03-02T09:00:00.000Z"


def test_no_events_mean_no_hubs(spark: SparkSession) -> None:
    events, quarantine = frame(spark, EVENTS), frame(spark, QUARANTINE)
    assert (
        rows(
            health.describe_hubs(events, health.count_hours(events), health.compare_neighbours(events), quarantine),
            "db_id",
        )
        == []
    )
