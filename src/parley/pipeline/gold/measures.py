"""The few measures that the gold tables share: times, latencies and their percentiles, and rates.

Percentiles are exact and interpolated between neighbours, so that two runs over the same rows give the same numbers.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

PERCENTILES: Mapping[str, float] = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}
MEASURED = ("measured", *PERCENTILES, "max_ms")
"""The columns of a latency's distribution."""


def moment(name: str) -> Column:
    """A logged time as a timestamp; null where the text is no time."""
    return F.try_to_timestamp(F.col(name))


def latency_ms(start: str, end: str) -> Column:
    """Milliseconds from one moment to the other; null where one is unknown or the clock ran backwards."""
    between = F.unix_millis(F.col(end)) - F.unix_millis(F.col(start))
    return F.when(between >= 0, between)


def latencies(column: str = "latency_ms") -> list[Column]:
    """How many latencies are known, their percentiles and their maximum; unknown ones are left out."""
    # One function for all of them: each keeps every value of its group.
    shares = F.percentile(column, [*PERCENTILES.values()])
    measured = [shares[place].alias(name) for place, name in enumerate(PERCENTILES)]
    return [F.count(column).alias("measured"), *measured, F.max(column).alias("max_ms")]


def fates() -> list[Column]:
    """Of a group of posts: how many there are, and how many of them were ever edited, moved or deleted."""
    return [
        F.count("*").alias("messages"),
        F.count_if(F.col("edits") > 0).alias("edited"),
        F.count_if(F.col("moves") > 0).alias("moved"),
        F.count_if(F.col("is_deleted")).alias("deleted"),
    ]


def with_rates(counted: DataFrame) -> DataFrame:
    """Adds which share of the messages was edited, moved and deleted; null where there are none."""
    return counted.withColumns(
        {
            f"{verb}_rate": F.when(F.col("messages") > 0, F.col(part) / F.col("messages"))
            for verb, part in (("edit", "edited"), ("move", "moved"), ("delete", "deleted"))
        }
    )
