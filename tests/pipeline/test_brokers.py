"""Brokers in Spark: their messages as a data source from both stores, and tables of them in SQL."""

from pathlib import Path
from typing import TYPE_CHECKING

from parley.app.pipeline.brokers import build_mesh
from parley.core.clock import ManualClock
from parley.pipeline.lake import Lake
from tests.cli.conftest import Parley, parley
from tests.pipeline.brokers.worlds import opened_world
from tests.postgres import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["parley"]


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


def test_deliveries_are_asked_for_in_sql_beside_their_messages(
    spark: "SparkSession", parley: Parley, tmp_path: Path
) -> None:
    with opened_world(str(tmp_path / "broker.db"), ManualClock()) as world:
        world.talk(9)
        states = world.rows("SELECT state, count(*) FROM delivery_queue GROUP BY state ORDER BY state")
    place = ("--lake", tmp_path / "lake")
    assert parley("pipeline", "ingest", "--broker", tmp_path / "broker.db", *place).code == 0
    build_mesh(Lake.open(tmp_path / "lake"))
    query = (
        "select d.state, count(*) from silver_mesh_deliveries d join silver_mesh_messages m"
        " using (broker_id, broker_message_id) join bronze_broker_members r on r.broker_id = d.broker_id"
        " and r.member_id = d.recipient_id where m.sender_name = 'ann' and r.display_name in ('bob', 'cid')"
        " and not d.gone group by 1 order by 1"
    )
    assert parley("pipeline", "sql", query, *place, "--json").json["rows"] == [[*row] for row in states]
    assert spark.range(3).count() == 3
