"""The Spark side: a source that reads the logs, a lake of open tables, audit, bulk enrichment, embedding, reports.

    from parley.pipeline import open_session, register

    spark = open_session()
    register(spark)
    spark.read.format("parley_hub").option("workspaces", "/projects/*").load().groupBy("name").count().show()

Importing this package loads neither Spark nor Arrow; the functions do when they are called. Everything in this room
runs through Spark Connect too: outside ``session`` nothing touches a ``SparkContext``, an RDD or the JVM, and work that
is to run in tasks is written as a function of Arrow batches (``DataFrame.mapInArrow``) that can be pickled.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["open_session", "register"]


def open_session(
    *, master: str | None = None, remote: str | None = None, settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """A Spark session as the pipeline needs it; see ``session.open_session``."""
    from parley.pipeline import session

    return session.open_session(master=master, remote=remote, settings=settings)


def register(spark: "SparkSession") -> None:
    """Makes the formats ``parley_hub`` and ``parley_broker`` known to a session; see the modules ``datasource``."""
    from parley.pipeline.brokers.datasource import BrokerDataSource
    from parley.pipeline.source.datasource import HubDataSource

    spark.dataSource.register(HubDataSource)
    spark.dataSource.register(BrokerDataSource)
