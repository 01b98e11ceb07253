"""The rules of gold in arrays: held against plain Python, and where patterns and numbers are told by others, Spark."""

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from parley.pipeline.gold import facts
from parley.pipeline.gold.inline import reading
from parley.pipeline.gold.inline.answers import answers_table, find_answers
from parley.pipeline.gold.inline.arrays import UNKNOWN, Groups, Keys, Names, Words, grouped
from parley.pipeline.gold.inline.posts import Posts, Vocabulary
from parley.pipeline.gold.measures import latencies
from tests.pipeline.gold.plain import plain_answers
from tests.pipeline.gold.test_answers import CASES, HOUR_MS, random_posts
from tests.pipeline.gold.worlds import Post, at


def texts(values: Sequence[str | None]) -> pa.ChunkedArray:
    return pa.chunked_array([list(values)], pa.string())


def in_arrays(posts: Sequence[Post]) -> tuple[Posts, Vocabulary]:
    words, ids = Vocabulary(), texts([each.message_id for each in posts])
    names, hub = Names(ids), words.hubs.numbers(texts([each.hub for each in posts]))
    replied = names.numbers(texts([each.reply_to for each in posts]))
    times = [UNKNOWN if each.minute is None else round(at(each.minute).timestamp() * 1e6) for each in posts]
    nothing = np.zeros(len(posts), bool)
    arrays = Posts(
        hub=hub,
        message=names.numbers(ids),
        names=names,
        event_id=np.arange(len(posts)),
        sender=words.agents.numbers(texts([each.sender for each in posts])),
        at=np.array(times, np.int64),
        replies=np.array([each.reply_to is not None for each in posts]),
        reply_to=Keys(hub, names.numbers(ids)).find(hub, replied),
        topic=words.topics.numbers(texts([each.topic for each in posts])),
        channel=words.channels.numbers(texts([each.channel for each in posts])),
        asks=nothing,
        is_deleted=np.array([each.deleted for each in posts]),
        is_edited=nothing,
        is_moved=nothing,
    )
    return arrays, words


@pytest.mark.parametrize("seed", range(3))
def test_answers_are_those_that_plain_python_finds(seed: int) -> None:
    told = [each._replace(hub=name) for name, case in CASES.items() for each in case.posts]
    for posts in (told, random_posts(random.Random(seed), 700), told[:1]):
        arrays, words = in_arrays(posts)
        found = pa.table(answers_table(arrays, find_answers(arrays, HOUR_MS), words))
        columns = ("db_id", "question_id", "answer_id", "kind", "is_first", "latency_ms")
        rows = [tuple(row[name] for name in columns) for row in found.to_pylist()]
        assert sorted(rows, key=repr) == sorted(plain_answers(posts, HOUR_MS), key=repr)


ASKED = [
    *("So?", "So? ", "So?\n", "So?\t\nYes.", "Yes.\nSo?\r\nNo.", "So?\x0b", "So？", "هل؟", "?"),
    *("So?\u0085Yes.", "So?\u2028Yes.", "So?\u2029", "So?\r", "So? \x0c\u2028no"),
    *("x = a ? b : c", "https://a.example/?q=1", "So? Yes.", "", "So?\u00a0", "So?\x1c", "So?!", "So?\u2003\n"),
]


def test_what_asks_for_spark_asks_for_arrow(spark: SparkSession) -> None:
    asked = spark.createDataFrame([(text,) for text in ASKED], "text string")
    by_spark = [row["asks"] for row in asked.select(F.col("text").rlike(facts.ASKS).alias("asks")).collect()]
    assert pc.match_substring_regex(pa.array(ASKED), reading.ASKS).to_pylist() == by_spark
    assert len(set(by_spark)) == 2


def test_percentiles_are_those_of_spark_to_the_last_bit(spark: SparkSession) -> None:
    rng = random.Random(8)
    rows = [(rng.randrange(40), rng.choice((None, rng.randrange(10 ** rng.randrange(1, 10))))) for _ in range(900)]
    frame = spark.createDataFrame(rows, "key bigint, latency_ms bigint")
    by_spark = {row["key"]: row.asDict() for row in frame.groupBy("key").agg(*latencies()).collect()}
    values = np.array([UNKNOWN if ms is None else ms for _, ms in rows])
    found = Groups(np.array([key for key, _ in rows]), 41).latencies(values)
    counted = [{"key": key, **row} for key, row in enumerate(pa.table(found).to_pylist())]
    assert {row["key"]: row for row in counted[:40]} == by_spark
    assert counted[40] == {"key": 40, "measured": 0, "p50_ms": None, "p90_ms": None, "p99_ms": None, "max_ms": None}


def test_words_get_numbers_as_they_come_and_null_has_none() -> None:
    words = Words()
    assert words.numbers(texts(["b", None, "a", "b"])).tolist() == [0, -1, 1, 0]
    assert words.numbers(pa.array(["a", "c"])).tolist() == [1, 2]
    assert words.column(np.array([2, -1, 0])).to_pylist() == ["c", None, "b"]
    assert words.numbers(texts([])).tolist() == []


def test_groups_keep_apart_what_differs_however_large_the_numbers_are() -> None:
    large = np.array([0, 1 << 40, 0, 1 << 40, -(1 << 40)])
    groups, rows = grouped(large, large[::-1].copy(), np.array([1, 1, 1, -1, 1]))
    assert groups.size == len(rows) == 5
    assert grouped(large, large)[0].size == 3
    assert grouped(np.empty(0, np.int64))[0].size == 0
