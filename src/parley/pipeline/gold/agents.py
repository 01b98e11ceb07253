"""What each agent did, as far as the log tells: how much it said, what became of it, and how fast it answers."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from parley.pipeline.gold.measures import fates, latencies, with_rates

_KEYS = ["db_id", "agent"]


def describe_agents(posts: DataFrame, answers: DataFrame) -> DataFrame:
    """One row per agent that ever posted: the table ``agents``. The latencies are those of the answers it gave."""
    said = posts.groupBy("db_id", F.col("sender").alias("agent")).agg(
        *fates(),
        F.count_distinct("topic_id").alias("topics"),
        F.count_distinct("channel_id").alias("channels"),
        F.min("at").alias("first_at"),
        F.max("at").alias("last_at"),
    )
    gave = answers.groupBy("db_id", F.col("answerer").alias("agent")).agg(
        F.count("*").alias("answers_given"), *latencies()
    )
    got = answers.groupBy("db_id", F.col("asker").alias("agent")).agg(
        F.count_distinct("question_id").alias("messages_answered")
    )
    joined = said.join(gave, _KEYS, "left").join(got, _KEYS, "left")
    return with_rates(joined.fillna(0, ["answers_given", "measured", "messages_answered"]))
