"""Topics and channels: how busy each is, which topics are stuck and why, and which threads nobody answered.

How long something waits is told as of the last event of its hub, so that building the tables again gives the same
rows. A topic is stuck when nothing was said in it for longer than the configured time although something is open: a
task of it is neither completed nor cancelled, its last message asks something, or nobody but its first sender has
spoken. A finished conversation is merely quiet.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from parley.pipeline.gold.measures import fates, latencies, latency_ms, moment, with_rates

OPEN_TASK, OPEN_QUESTION, UNANSWERED = "open task", "open question", "unanswered"
_TOPIC = ["db_id", "topic_id"]
_CHANNEL = ["db_id", "channel_id"]


def last_moments(events: DataFrame) -> DataFrame:
    """Per hub, the latest time in its log: what "now" means in these tables."""
    return events.groupBy("db_id").agg(F.max(moment("ts")).alias("as_of"))


def describe_topics(
    topics: DataFrame,
    posts: DataFrame,
    answers: DataFrame,
    open_tasks: DataFrame,
    now: DataFrame,
    stuck_ms: int,
) -> DataFrame:
    """One row per topic, with what it holds and whether it is stuck: the table ``topics``."""
    named = topics.select(
        "db_id", F.col("id").alias("topic_id"), "channel_id", "title", moment("created_at").alias("created_at")
    )
    counted = posts.groupBy(*_TOPIC).agg(*fates())
    answered = answers.groupBy(*_TOPIC).agg(F.count("*").alias("answers"), *latencies())
    joined = (
        named.join(counted, _TOPIC, "left")
        .join(_conversations(posts), _TOPIC, "left")
        .join(answered, _TOPIC, "left")
        .join(open_tasks, _TOPIC, "left")
        .join(now, "db_id", "left")
        .fillna(0, ["messages", "edited", "moved", "deleted", "live", "agents", "answers", "measured", "open_tasks"])
        .withColumn("quiet_ms", latency_ms("last_at", "as_of"))
    )
    told = joined.withColumn("stuck_reason", F.when(F.col("quiet_ms") > stuck_ms, _what_is_open()))
    return with_rates(told).drop("last_asks")


def _conversations(posts: DataFrame) -> DataFrame:
    """What is left in each topic after deletions: its beginning and its end, in the log's order."""
    live = posts.where(~F.col("is_deleted"))
    ends = live.groupBy(*_TOPIC).agg(
        F.count("*").alias("live"),
        F.count_distinct("sender").alias("agents"),
        F.min_by(F.struct("sender", "at"), "event_id").alias("first"),
        F.max_by(F.struct("sender", "at", "asks"), "event_id").alias("last"),
    )
    return ends.select(
        *_TOPIC,
        "live",
        "agents",
        F.col("first.sender").alias("first_sender"),
        F.col("first.at").alias("first_at"),
        F.col("last.sender").alias("last_sender"),
        F.col("last.at").alias("last_at"),
        F.col("last.asks").alias("last_asks"),
    )


def _what_is_open() -> Column:
    return (
        F.when(F.col("open_tasks") > 0, OPEN_TASK)
        .when(_nobody_answered(), UNANSWERED)
        .when(F.col("last_asks"), OPEN_QUESTION)
    )


def _nobody_answered() -> Column:
    return (F.col("agents") == 1) & (F.col("answers") == 0)


def find_unanswered(topics: DataFrame, window_ms: int) -> DataFrame:
    """The threads in which one agent spoke and nobody answered in time: the table ``unanswered``."""
    return topics.where(_nobody_answered() & (F.col("quiet_ms") > window_ms)).select(
        "db_id",
        "channel_id",
        "topic_id",
        "title",
        F.col("first_sender").alias("asker"),
        F.col("first_at").alias("asked_at"),
        F.col("live").alias("messages"),
        F.col("quiet_ms").alias("waiting_ms"),
    )


def describe_channels(channels: DataFrame, posts: DataFrame, answers: DataFrame, topics: DataFrame) -> DataFrame:
    """One row per channel: the table ``channels``. ``topics`` is the gold table of that name."""
    named = channels.select("db_id", F.col("id").alias("channel_id"), "name", moment("created_at").alias("created_at"))
    counted = posts.groupBy(*_CHANNEL).agg(
        *fates(),
        F.count_distinct("sender").alias("agents"),
        F.min("at").alias("first_at"),
        F.max("at").alias("last_at"),
    )
    held = topics.groupBy(*_CHANNEL).agg(
        F.count("*").alias("topics"), F.count_if(F.col("stuck_reason").isNotNull()).alias("stuck_topics")
    )
    answered = answers.groupBy(*_CHANNEL).agg(F.count("*").alias("answers"), *latencies())
    joined = named.join(counted, _CHANNEL, "left").join(held, _CHANNEL, "left").join(answered, _CHANNEL, "left")
    numbers = ["messages", "edited", "moved", "deleted", "agents", "topics", "stuck_topics", "answers", "measured"]
    return with_rates(joined.fillna(0, numbers))
