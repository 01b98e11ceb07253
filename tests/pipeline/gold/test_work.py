"""Tasks and leases: how long each step took, and how often a holder was lost."""

import pytest
from pyspark.sql import SparkSession

from parley.pipeline.gold.work import count_open_tasks, describe_leases, describe_tasks
from tests.pipeline.gold.worlds import EVENTS, HUB, LEASES, MINUTE_MS, TASKS, event, frame, rows

pytestmark = pytest.mark.timeout(300)
"""A busy machine takes long to start Spark, and to plan a query for the first time."""

LOG = (
    event(1, 0, "task.created", "done"),
    event(2, 4, "task.claimed", "done"),
    event(3, 9, "task.expired", "done"),
    event(4, 10, "task.claimed", "done"),
    event(5, 12, "task.taken_over", "done"),
    event(6, 13, "task.released", "done"),
    event(7, 14, "task.claimed", "done"),
    event(8, 30, "task.completed", "done"),
    event(9, 31, "task.created", "waiting"),
    event(10, 40, "task.created", "backwards"),
    event(11, 35, "task.claimed", "backwards"),
    event(12, 50, "lease.acquired", "l1"),
    event(13, 51, "lease.acquired", "l2"),
    event(14, 60, "lease.released", "l1"),
    event(15, 81, "lease.expired", "l2"),
    event(16, 90, "lease.acquired", "l3"),
)


def test_tasks_have_their_times_and_losses(spark: SparkSession) -> None:
    statuses = {"done": "completed", "waiting": "open", "backwards": "claimed"}
    tasks = frame(spark, TASKS, [(HUB, t, f"topic {t}", "c1", t, s, "ada", None) for t, s in statuses.items()])
    described = describe_tasks(tasks, frame(spark, EVENTS, LOG))
    columns = ("task_id", "claim_ms", "complete_ms", "claims", "releases", "takeovers", "expiries")
    assert rows(described, *columns) == [
        ("backwards", None, None, 1, 0, 0, 0),
        ("done", 4 * MINUTE_MS, 30 * MINUTE_MS, 3, 1, 1, 1),
        ("waiting", None, None, 0, 0, 0, 0),
    ]
    assert rows(count_open_tasks(tasks), "topic_id", "open_tasks") == [("topic backwards", 1), ("topic waiting", 1)]


def test_leases_are_summed_up_by_their_holder(spark: SparkSession) -> None:
    leases = frame(
        spark,
        LEASES,
        [
            (HUB, "l1", "ada", "exclusive", "released"),
            (HUB, "l2", "ada", "shared", "expired"),
            (HUB, "l3", "bob", "exclusive", "active"),
        ],
    )
    columns = ("holder", "leases", "exclusive", "active", "expired", "measured", "p50_ms", "max_ms")
    assert rows(describe_leases(leases, frame(spark, EVENTS, LOG)), *columns) == [
        ("ada", 2, 1, 0, 1, 2, 20 * MINUTE_MS, 30 * MINUTE_MS),
        ("bob", 1, 1, 1, 0, 0, None, None),
    ]


def test_without_tasks_and_leases_there_is_nothing(spark: SparkSession) -> None:
    events = frame(spark, EVENTS)
    assert rows(describe_tasks(frame(spark, TASKS), events), "task_id") == []
    assert rows(describe_leases(frame(spark, LEASES), events), "holder") == []
