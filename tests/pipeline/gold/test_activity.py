"""Activity and agents, on changes written by hand and on random ones."""

import random
from collections import Counter

import pytest
from pyspark.sql import SparkSession

from parley.pipeline.gold.activity import by_day, count_activity
from parley.pipeline.gold.agents import describe_agents
from parley.pipeline.gold.answers import find_answers
from tests.pipeline.gold.worlds import CHANGES, HUB, MINUTE_MS, at, frame, hour, post, posts_frame, rows

pytestmark = pytest.mark.timeout(300)
"""A busy machine takes long to start Spark, and to plan a query for the first time."""

HOUR_MS = 60 * MINUTE_MS
COUNTS = ("messages", "edits", "deletions", "moves", "characters")


def change(minute: float | None, kind: str, agent: str, topic: str = "t1", characters: int = 5) -> tuple[object, ...]:
    when = None if minute is None else at(minute)
    return (HUB, when, kind, agent, "c1", topic, characters)


def test_each_change_counts_in_its_hour_and_day_for_its_agent_and_topic(spark: SparkSession) -> None:
    changes = frame(
        spark,
        CHANGES,
        [
            change(0, "created", "ada"),
            change(59, "created", "ada", characters=7),
            change(60, "edited", "ada"),
            change(61, "deleted", "bob"),
            change(62, "moved", "ada", topic="t2"),
            change(-600, "created", "ada"),
            change(None, "created", "ada"),
        ],
    )
    hours = rows(count_activity(changes), "start", "agent", "topic_id", *COUNTS)
    assert hours == [
        (hour(1, 23), "ada", "t1", 1, 0, 0, 0, 5),
        (hour(2, 9), "ada", "t1", 2, 0, 0, 0, 12),
        (hour(2, 10), "ada", "t1", 0, 1, 0, 0, 0),
        (hour(2, 10), "ada", "t2", 0, 0, 0, 1, 0),
        (hour(2, 10), "bob", "t1", 0, 0, 1, 0, 0),
    ]
    days = rows(by_day(count_activity(changes)), "start", "agent", "topic_id", *COUNTS)
    assert days == [
        (hour(1, 0), "ada", "t1", 1, 0, 0, 0, 5),
        (hour(2, 0), "ada", "t1", 2, 1, 0, 0, 12),
        (hour(2, 0), "ada", "t2", 0, 0, 0, 1, 0),
        (hour(2, 0), "bob", "t1", 0, 0, 1, 0, 0),
    ]


def test_random_changes_are_counted_as_plain_python_counts_them(spark: SparkSession) -> None:
    chance = random.Random(7)
    kinds = ("created", "edited", "deleted", "moved")
    made = [
        change(chance.uniform(0, 4_000), chance.choice(kinds), chance.choice("abc"), chance.choice(("t1", "t2")))
        for _ in range(500)
    ]
    plain = Counter((str(row[1])[:13], row[3], row[5], row[2]) for row in made)
    counted: Counter[tuple[str, object, object, object]] = Counter()
    for start, agent, topic, *counts in rows(
        count_activity(frame(spark, CHANGES, made)), "start", "agent", "topic_id", *COUNTS[:4]
    ):
        counted.update({(str(start)[:13], agent, topic, kind): n for kind, n in zip(kinds, counts, strict=True) if n})
    assert counted == plain


def test_agents_have_their_counts_rates_and_latencies(spark: SparkSession) -> None:
    posts = posts_frame(
        spark,
        [
            post("m1", "ada", 0, edits=2),
            post("m2", "bob", 6, moves=1),
            post("m3", "ada", 10, topic="t2", channel="c2", edits=1, deleted=True),
            post("m4", "bob", 16, reply_to="m1"),
            post("m5", "eve", 900, topic="t3"),
        ],
    )
    agents = describe_agents(posts, find_answers(posts, HOUR_MS))
    counts = ("agent", "messages", "edited", "moved", "deleted", "topics", "channels")
    assert rows(agents, *counts) == [
        ("ada", 2, 2, 0, 1, 2, 2),
        ("bob", 2, 0, 1, 0, 1, 1),
        ("eve", 1, 0, 0, 0, 1, 1),
    ]
    assert rows(agents, "agent", "edit_rate", "move_rate", "delete_rate") == [
        ("ada", 1.0, 0.0, 0.5),
        ("bob", 0.0, 0.5, 0.0),
        ("eve", 0.0, 0.0, 0.0),
    ]
    assert rows(agents, "agent", "answers_given", "messages_answered", "measured", "p50_ms", "max_ms") == [
        ("ada", 0, 1, 0, None, None),
        ("bob", 1, 0, 1, 16 * MINUTE_MS, 16 * MINUTE_MS),
        ("eve", 0, 0, 0, None, None),
    ]


def test_an_empty_hub_has_no_agents_and_no_activity(spark: SparkSession) -> None:
    posts = posts_frame(spark)
    assert rows(describe_agents(posts, find_answers(posts, HOUR_MS)), "agent") == []
    assert rows(by_day(count_activity(frame(spark, CHANGES))), "agent") == []
