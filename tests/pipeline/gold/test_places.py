"""Topics and channels: what they hold, which are stuck and why, and what nobody answered."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from parley.pipeline.gold.answers import find_answers
from parley.pipeline.gold.places import describe_channels, describe_topics, find_unanswered, last_moments
from parley.pipeline.gold.work import count_open_tasks
from tests.pipeline.gold.worlds import (
    CHANNELS,
    EVENTS,
    HUB,
    MINUTE_MS,
    TASKS,
    TOPICS,
    event,
    frame,
    post,
    posts_frame,
    rows,
    ts,
)

pytestmark = pytest.mark.timeout(300)
"""A busy machine takes long to start Spark, and to plan a query for the first time."""

HOUR_MS = 60 * MINUTE_MS
NOW = 30 * 60
"""Minutes: the last event of the hub."""
POSTS = (
    post("m1", "ada", 0, topic="asked", asks=True),
    post("m2", "bob", 1, topic="finished", asks=True),
    post("m3", "ada", 2, topic="finished"),
    post("m4", "bob", 3, topic="open question"),
    post("m5", "ada", 4, topic="open question", asks=True),
    post("m6", "ada", 5, topic="open task", edits=1),
    post("m7", "bob", 6, topic="open task"),
    post("m8", "bob", 7, topic="retracted", deleted=True),
    post("m9", "eve", 8, topic="answered elsewhere", channel="c2"),
    post("m10", "bob", 9, topic="finished", reply_to="m9", moves=1),
    post("m11", "ada", NOW - 30, topic="just asked", asks=True),
    post("m12", "ada", NOW - 90, topic="asked a while ago", channel="c2"),
    post("m13", "bob", 10, topic="asked", deleted=True),
)
TITLES = (*dict.fromkeys(each.topic for each in POSTS), "empty")


@pytest.fixture(scope="module")
def world(spark: SparkSession) -> dict[str, DataFrame]:
    posts = posts_frame(spark, POSTS).cache()
    answers = find_answers(posts, HOUR_MS).cache()
    places = {each.topic: each.channel for each in POSTS}
    topics = frame(spark, TOPICS, [(HUB, t, places.get(t, "c1"), t.upper(), ts(0), ts(0)) for t in TITLES])
    channels = frame(spark, CHANNELS, [(HUB, name, name.upper(), None, ts(0)) for name in ("c1", "c2", "c3")])
    tasks = [
        (HUB, "task_1", "open task", "c1", "Do it", "claimed", "ada", "bob"),
        (HUB, "task_2", "finished", "c1", "Done", "completed", "ada", "bob"),
    ]
    now = last_moments(frame(spark, EVENTS, [event(1, 0), event(3, NOW), event(4, "never"), event(2, 7)]))
    open_tasks = count_open_tasks(frame(spark, TASKS, tasks))
    described = describe_topics(topics, posts, answers, open_tasks, now, 24 * HOUR_MS).cache()
    return {
        "topics": described,
        "channels": describe_channels(channels, posts, answers, described),
        "unanswered": find_unanswered(described, HOUR_MS),
    }


def test_a_topic_is_stuck_when_it_is_quiet_and_something_is_open(world: dict[str, DataFrame]) -> None:
    stuck = world["topics"].where("stuck_reason IS NOT NULL")
    assert rows(stuck, "topic_id", "stuck_reason") == [
        ("asked", "unanswered"),
        ("open question", "open question"),
        ("open task", "open task"),
    ]


def test_topics_count_what_was_said_and_what_is_left(world: dict[str, DataFrame]) -> None:
    columns = ("topic_id", "messages", "live", "agents", "answers", "edited", "moved", "deleted")
    counted = {row[0]: row[1:] for row in rows(world["topics"], *columns)}
    assert len(counted) == len(TITLES)
    assert counted["asked"] == (2, 1, 1, 0, 0, 0, 1)
    assert counted["finished"] == (3, 3, 2, 1, 0, 1, 0)
    assert counted["open task"] == (2, 2, 2, 1, 1, 0, 0)
    assert counted["retracted"] == (1, 0, 0, 0, 0, 0, 1)
    assert counted["answered elsewhere"] == (1, 1, 1, 1, 0, 0, 0)
    assert counted["empty"] == (0, 0, 0, 0, 0, 0, 0)


def test_topics_end_with_what_is_last_in_the_log_and_wait_until_the_last_event(world: dict[str, DataFrame]) -> None:
    columns = ("topic_id", "title", "first_sender", "last_sender", "quiet_ms", "p50_ms", "delete_rate")
    told: dict[str, tuple[Any, ...]] = {row[0]: row[1:] for row in rows(world["topics"], *columns)}
    assert told["finished"] == ("FINISHED", "bob", "bob", (NOW - 9) * MINUTE_MS, MINUTE_MS, 0.0)
    assert told["asked"] == ("ASKED", "ada", "ada", NOW * MINUTE_MS, None, 0.5)
    assert told["empty"] == ("EMPTY", None, None, None, None, None)


def test_a_thread_is_unanswered_when_its_time_is_up_and_only_one_spoke(world: dict[str, DataFrame]) -> None:
    columns = ("topic_id", "asker", "messages", "waiting_ms")
    assert rows(world["unanswered"], *columns) == [
        ("asked", "ada", 1, NOW * MINUTE_MS),
        ("asked a while ago", "ada", 1, 90 * MINUTE_MS),
    ]


def test_channels_sum_up_their_topics(world: dict[str, DataFrame]) -> None:
    columns = ("channel_id", "name", "messages", "topics", "stuck_topics", "agents", "answers", "edited", "deleted")
    assert rows(world["channels"], *columns) == [
        ("c1", "C1", 11, 7, 3, 2, 3, 1, 2),
        ("c2", "C2", 2, 2, 0, 2, 1, 0, 0),
        ("c3", "C3", 0, 0, 0, 0, 0, 0, 0),
    ]


def test_a_hub_without_messages_has_empty_topics_and_nothing_unanswered(spark: SparkSession) -> None:
    posts = posts_frame(spark)
    topics = frame(spark, TOPICS, [(HUB, "t1", "c1", "Quiet", ts(0), ts(0))])
    nothing = count_open_tasks(frame(spark, TASKS))
    now = last_moments(frame(spark, EVENTS))
    described = describe_topics(topics, posts, find_answers(posts, HOUR_MS), nothing, now, HOUR_MS)
    assert rows(described, "messages", "quiet_ms", "stuck_reason") == [(0, None, None)]
    assert rows(find_unanswered(described, HOUR_MS), "topic_id") == []
