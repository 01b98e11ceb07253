"""Posts and changes, from the versions of messages."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from parley.pipeline.gold.facts import find_changes, find_posts
from tests.pipeline.gold.worlds import HUB, TOPICS, VERSIONS, frame, rows, ts

pytestmark = pytest.mark.timeout(300)
"""A busy machine takes long to start Spark, and to plan a query for the first time."""


def version(message: str, number: int, event_id: int, change: str, **known: Any) -> tuple[Any, ...]:
    said = {"actor": None, "topic_id": "t1", "content_raw": "so", "reply_to": None, "ts": ts(event_id)} | known
    columns = ("ts", "change", "actor", "topic_id", "content_raw", "reply_to")
    return (HUB, message, number, event_id, None, *((said | {"change": change})[column] for column in columns))


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    versions = frame(
        spark,
        VERSIONS,
        [
            version("m1", 1, 1, "created", actor="ada", content_raw="Shall we?\nSee https://a.example/?q=1"),
            version("m1", 2, 3, "edited"),
            version("m1", 3, 4, "moved", topic_id="t2"),
            version("m1", 4, 8, "edited", topic_id="t2", content_raw="Shall we?  "),
            version("m2", 1, 2, "created", actor="bob", reply_to="m1", content_raw="x = a ? b : c"),
            version("m2", 2, 7, "deleted", actor="eve", content_raw="[deleted]"),
            version("m3", 5, 5, "edited", content_raw="posted before the lake began"),
            version("m4", 1, 6, "created", actor="ada", topic_id="lost", ts="no time"),
        ],
    ).cache()
    topics = frame(spark, TOPICS, [(HUB, "t1", "c1", "", ts(0), ts(0)), (HUB, "t2", "c2", "", ts(0), ts(0))])
    posts = find_posts(versions, topics).cache()
    return posts, find_changes(versions, posts)


def test_a_post_is_told_as_it_was_posted_and_where_it_is(found: tuple[DataFrame, DataFrame]) -> None:
    columns = ("message_id", "event_id", "sender", "channel_id", "topic_id", "reply_to", "characters")
    assert rows(found[0], *columns) == [
        ("m1", 1, "ada", "c2", "t2", None, 36),
        ("m2", 2, "bob", "c1", "t1", "m1", 13),
        ("m4", 6, "ada", None, "lost", None, 2),
    ]


def test_a_post_knows_what_happened_to_it(found: tuple[DataFrame, DataFrame]) -> None:
    assert rows(found[0], "message_id", "edits", "moves", "is_deleted", "asks") == [
        ("m1", 2, 1, False, True),
        ("m2", 0, 0, True, False),
        ("m4", 0, 0, False, False),
    ]


def test_each_change_has_its_agent_time_and_topic(found: tuple[DataFrame, DataFrame]) -> None:
    plain = [f"2026-03-02 09:{minute:02d}:00" for minute in range(9)]
    assert rows(found[1], "at", "kind", "agent", "channel_id", "topic_id") == [
        (None, "created", "ada", None, "lost"),
        (plain[1], "created", "ada", "c2", "t1"),
        (plain[2], "created", "bob", "c1", "t1"),
        (plain[3], "edited", "ada", "c2", "t1"),
        (plain[4], "moved", "ada", "c2", "t2"),
        (plain[7], "deleted", "eve", "c1", "t1"),
        (plain[8], "edited", "ada", "c2", "t2"),
    ]
