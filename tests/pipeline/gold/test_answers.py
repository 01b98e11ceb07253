"""Who answers whom: each rule on a conversation that fits on one hand, and all of them on random ones.

Every conversation is a hub of its own, so that Spark counts all of them at once.
"""

import random
from collections import defaultdict
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from parley.pipeline.gold.answers import count_pairs, find_answers
from tests.pipeline.gold.plain import plain_answers, plain_percentile
from tests.pipeline.gold.worlds import MINUTE_MS, Post, post, posts_frame, rows

pytestmark = pytest.mark.timeout(300)
"""A busy machine takes long to start Spark, and to plan a query for the first time."""

HOUR_MS = 60 * MINUTE_MS


class Case(NamedTuple):
    """A conversation, and (question, answer, kind, latency in minutes) of each answer in it."""

    posts: tuple[Post, ...]
    answers: list[tuple[str, str, str, float | None]]


CASES = {
    "a reply by name answers however late": Case(
        (post("m1", "ada", 0), post("m2", "bob", 500, reply_to="m1")), [("m1", "m2", "reply", 500)]
    ),
    "the next message of another sender answers each before it": Case(
        (post("m1", "ada", 0), post("m2", "ada", 4), post("m3", "bob", 10)),
        [("m1", "m3", "next", 10), ("m2", "m3", "next", 6)],
    ),
    "the window includes its end": Case((post("m1", "ada", 0), post("m2", "bob", 60)), [("m1", "m2", "next", 60)]),
    "what comes after the window is no answer": Case((post("m1", "ada", 0), post("m2", "bob", 60.001)), []),
    "a reply to something else is not taken for what comes next": Case(
        (
            post("m1", "ada", 0),
            post("m2", "bob", 1),
            post("m3", "cem", 2, reply_to="m1"),
            post("m4", "ada", 3),
        ),
        [("m1", "m3", "reply", 2), ("m2", "m4", "next", 2), ("m3", "m4", "next", 1)],
    ),
    "nobody answers himself": Case(
        (post("m1", "ada", 0), post("m2", "ada", 1, reply_to="m1"), post("m3", "ada", 2)), []
    ),
    "an agent answers a message once, and two agents twice": Case(
        (
            post("m1", "ada", 0),
            post("m2", "bob", 1, reply_to="m1"),
            post("m3", "bob", 2, reply_to="m1"),
            post("m4", "cem", 3, reply_to="m1"),
        ),
        [("m1", "m2", "reply", 1), ("m1", "m4", "reply", 3)],
    ),
    "a deleted message neither asks nor answers": Case(
        (
            post("m1", "ada", 0),
            post("m2", "bob", 1, deleted=True),
            post("m3", "cem", 2),
            post("m4", "ada", 3, reply_to="m2"),
        ),
        [("m1", "m3", "next", 2)],
    ),
    "a reply counts across topics, and what comes next does not": Case(
        (post("m1", "ada", 0), post("m2", "bob", 1, topic="t2"), post("m3", "bob", 2, topic="t3", reply_to="m1")),
        [("m1", "m3", "reply", 2)],
    ),
    "a reply to what another hub calls by that name is none": Case((post("m7", "bob", 1, reply_to="m1"),), []),
    "the log decides the order, and a clock that ran backwards leaves the latency open": Case(
        (post("m1", "ada", 30), post("m2", "bob", 5), post("m3", "ada", None)),
        [("m1", "m2", "next", None), ("m2", "m3", "next", None)],
    ),
    "one sender alone has no answers": Case((post("m1", "ada", 0), post("m2", "ada", 1)), []),
}


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, list[tuple[Any, ...]]]:
    """The answers that Spark finds in each case, and its rows of pairs under ``pairs``."""
    posts = [each._replace(hub=name) for name, case in CASES.items() for each in case.posts]
    answers = find_answers(posts_frame(spark, posts), HOUR_MS)
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for hub, *answer in rows(answers, "db_id", "question_id", "answer_id", "kind", "latency_ms"):
        found[hub].append(tuple(answer))
    return found


@pytest.mark.parametrize("name", CASES)
def test_by_the_rule_that(name: str, found: dict[str, list[tuple[Any, ...]]]) -> None:
    minutes = [(*key, None if ms is None else ms / MINUTE_MS) for *key, ms in found[name]]
    assert minutes == CASES[name].answers


def test_pairs_count_answers_and_measure_the_known_latencies(spark: SparkSession) -> None:
    posts = [post(f"q{n}", "ada", 0, topic=f"t{n}") for n in range(4)]
    posts += [post(f"a{n}", "bob", minute, topic=f"t{n}") for n, minute in enumerate((10, 20, 40))]
    posts += [post("a3", "bob", -1, reply_to="q3", topic="t3")]
    pairs = count_pairs(find_answers(posts_frame(spark, posts), HOUR_MS))
    columns = ("asker", "answerer", "answers", "by_reply", "messages", "measured", "p50_ms", "p90_ms", "max_ms")
    assert rows(pairs, *columns) == [("ada", "bob", 4, 1, 4, 3, 20 * MINUTE_MS, 36 * MINUTE_MS, 40 * MINUTE_MS)]


def test_an_empty_hub_has_no_pairs(spark: SparkSession) -> None:
    assert rows(count_pairs(find_answers(posts_frame(spark), HOUR_MS)), "asker") == []


def test_random_conversations_are_counted_as_plain_python_counts_them(spark: SparkSession) -> None:
    posts = random_posts(random.Random(4), 900)
    answers = find_answers(posts_frame(spark, posts), HOUR_MS).localCheckpoint()
    expected = plain_answers(posts, HOUR_MS)
    columns = ("db_id", "question_id", "answer_id", "kind", "is_first", "latency_ms")
    assert rows(answers, *columns) == sorted(expected, key=lambda row: tuple((v is not None, v) for v in row))
    people = {(each.hub, each.message_id): each.sender for each in posts}
    latencies: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for hub, question, answer, _, _, ms in expected:
        latencies[hub, people[hub, question], people[hub, answer]] += [] if ms is None else [ms]
    for hub, asker, answerer, *measured in rows(count_pairs(answers), "db_id", "asker", "answerer", "p50_ms", "p99_ms"):
        known = latencies.pop((hub, asker, answerer))
        assert measured == pytest.approx([plain_percentile(known, 0.5), plain_percentile(known, 0.99)])
    assert latencies == {}


def random_posts(chance: random.Random, count: int) -> list[Post]:
    """Five hubs, few topics and senders, a clock that mostly runs, replies to anything, also to what is not there."""
    posts: list[Post] = []
    minute = 0.0
    for number in range(count):
        minute += chance.choice((0.01, 1, 5, 30, 90, -20))
        hub = f"hub-{chance.randrange(5)}"
        earlier = [each.message_id for each in posts if each.hub == hub]
        posts.append(
            Post(
                f"m{number}",
                chance.choice(("ada", "bob", "cem", "dan")),
                minute if chance.random() < 0.97 else None,
                reply_to=chance.choice([*earlier, "lost"]) if chance.random() < 0.3 else None,
                topic=chance.choice(("t1", "t2", "t3")),
                deleted=chance.random() < 0.1,
                hub=hub,
            )
        )
    return posts
