"""Brokers in Spark: their messages as a data source, from both stores at once."""

from pathlib import Path
from typing import TYPE_CHECKING

from parley.core.clock import ManualClock
from tests.pipeline.brokers.worlds import opened_world
from tests.postgres import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_messages_of_brokers_are_a_data_source(spark: "SparkSession", postgresql: Server, tmp_path: Path) -> None:
    places = [str(tmp_path / "broker.db"), postgresql.new_url()]
    for place in places:
        with opened_world(place, ManualClock()) as world:
            world.talk(9)
    source = spark.read.format("parley_broker").option("brokers", ",".join(places))
    rows = source.option("messages_per_partition", 4).load().groupBy("broker_id", "mesh", "kind").count().collect()
    assert sorted((row["mesh"], row["kind"], row["count"]) for row in rows) == sorted(
        [("red", "dm", 3), ("red", "topic", 3), ("red", "queue", 3), ("blue", "queue", 1)] * 2
    )
    assert len({row["broker_id"] for row in rows}) == 2
