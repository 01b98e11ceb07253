"""Who answers whom, and how long it takes.

A message that names the one it replies to answers that one. A message that nobody replied to by name is answered by
the next message of another sender in its topic, if that came within the window and does not itself reply to something
else. Conversations are read as they stand now: in the topics where the messages are, without those that were deleted.
An agent answers a message once, the first time it does, and nobody answers himself.

What comes first is decided by the log's order, never by the clock. Where the clock ran backwards between a message and
its answer, the answer counts and its latency is unknown.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from parley.pipeline.gold.measures import latencies, latency_ms

EXPLICIT, NEXT = "reply", "next"
"""How an answer is known: by its ``reply_to``, or by coming next."""


def find_answers(posts: DataFrame, window_ms: int) -> DataFrame:
    """One row per message and agent who answered it: the table ``answers``."""
    live = posts.where(~F.col("is_deleted"))
    explicit = _replies(live)
    replied_to = explicit.select("db_id", "question_id").distinct()
    coming_next = _coming_next(live, window_ms).join(replied_to, ["db_id", "question_id"], "left_anti")
    found = explicit.unionByName(coming_next)
    first = Window.partitionBy("db_id", "question_id").orderBy("answer_event_id")
    return found.withColumn("is_first", F.row_number().over(first) == 1).withColumn(
        "latency_ms", latency_ms("asked_at", "answered_at")
    )


def _replies(live: DataFrame) -> DataFrame:
    """Each agent's first reply by name to a message of somebody else."""
    answers = live.where(F.col("reply_to").isNotNull()).select(
        "db_id",
        F.col("reply_to").alias("question_id"),
        F.col("sender").alias("answerer"),
        F.struct("event_id", "message_id", "at").alias("answer"),
    )
    firsts = answers.groupBy("db_id", "question_id", "answerer").agg(F.min_by("answer", "answer.event_id").alias("a"))
    questions = live.select(
        "db_id",
        F.col("message_id").alias("question_id"),
        F.col("sender").alias("asker"),
        F.col("event_id").alias("question_event_id"),
        "channel_id",
        "topic_id",
        F.col("at").alias("asked_at"),
    )
    named = firsts.join(questions, ["db_id", "question_id"]).where(F.col("asker") != F.col("answerer"))
    return named.select(*_QUESTION, *_answer("a"), F.lit(EXPLICIT).alias("kind"))


_QUESTION = ("db_id", "channel_id", "topic_id", "question_id", "asker", "answerer", "asked_at")


def _answer(name: str) -> list[Column]:
    return [
        F.col(f"{name}.message_id").alias("answer_id"),
        F.col(f"{name}.event_id").alias("answer_event_id"),
        F.col(f"{name}.at").alias("answered_at"),
    ]


def _coming_next(live: DataFrame, window_ms: int) -> DataFrame:
    """Each message with the next one of another sender in its topic that replies to nothing by name.

    The rows of a topic are walked from its end to its beginning, since a frame that grows costs one step a row, where
    one that shrinks is computed anew for each. ``turn`` marks where another sender takes over.
    """
    topic = Window.partitionBy("db_id", "topic_id")
    before = topic.orderBy("event_id").rowsBetween(Window.unboundedPreceding, -1)
    after = topic.orderBy(F.desc("event_id")).rowsBetween(Window.unboundedPreceding, -1)
    speaks = F.col("reply_to").isNull()
    spoke_before = F.last(F.when(speaks, F.col("sender")), ignorenulls=True).over(before)
    this = F.struct("event_id", "message_id", "sender", "at")
    turns = (
        live.withColumn("spoke_before", spoke_before)
        .withColumn("turn", F.when(speaks & ~F.col("sender").eqNullSafe(F.col("spoke_before")), this))
        .withColumn("next_turn", F.last("turn", ignorenulls=True).over(after))
    )
    speaker = F.when(speaks, F.struct(this.alias("it"), F.col("next_turn").alias("then")))
    following = turns.withColumn("following", F.last(speaker, ignorenulls=True).over(after))
    is_other = F.col("following.it.sender") != F.col("sender")
    answered = following.withColumn("a", F.when(is_other, F.col("following.it")).otherwise(F.col("following.then")))
    in_time = F.coalesce(latency_ms("at", "a.at") <= window_ms, F.lit(True))
    return (
        answered.where(F.col("a").isNotNull() & in_time)
        .withColumns(
            {
                "question_id": F.col("message_id"),
                "asker": F.col("sender"),
                "answerer": F.col("a.sender"),
                "asked_at": F.col("at"),
            }
        )
        .select(*_QUESTION, *_answer("a"), F.lit(NEXT).alias("kind"))
    )


def count_pairs(answers: DataFrame) -> DataFrame:
    """Who answers whom, how often and how fast: the table ``pairs``."""
    return answers.groupBy("db_id", "asker", "answerer").agg(
        F.count("*").alias("answers"),
        F.count_if(F.col("kind") == EXPLICIT).alias("by_reply"),
        F.count_distinct("answer_id").alias("messages"),
        *latencies(),
    )
