"""Gold counted by Spark: the tables are those that the driver counts, and what is in doubt is left to it."""

from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from parley.pipeline.gold.building import BY_SPARK, build_gold
from parley.pipeline.ingest import ingest
from parley.pipeline.silver import build_silver
from tests.pipeline.gold.lakes import SETTINGS, World, contents, count, sizes

pytestmark = pytest.mark.timeout(900)
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
INSERT = "INSERT INTO events (ts, name, entity_type, entity_id, data_json) VALUES (?, ?, ?, ?, ?)"


@settings(max_examples=1, phases=NO_SHRINKING)
@given(seed=st.integers(0, 2**32))
def test_what_the_driver_counts_turn_by_turn_is_what_spark_counts_at_once(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    world = World(tmp_path_factory.mktemp("gold"), seed)
    world.grow()
    world.grow("hub-1")
    world.hubs["hub-0"].archive(world.rng.randrange(600_000))
    stamp = "2026-03-02T09:00:00.000Z"
    world.hubs["hub-1"].tamper(INSERT, (stamp, "from.the_future", "x", "y", "{}"))
    world.hubs["hub-1"].tamper(INSERT, (stamp, "task.claimed", "task", "no such task", "{}"))
    for hub in world.hubs.values():
        hub.live(world.rng.randrange(20, 60))
    ingest(spark, world.lake, [hub.ref for hub in world.hubs.values()])
    assert build_silver(spark, world.lake).quarantined
    count(world.lake)
    once = world.afresh()
    assert build_gold(spark, once, SETTINGS, inline_events=BY_SPARK).tables == sizes(once)
    found = contents(world.lake)
    assert contents(once) == found
    assert found["answers"]
    assert found["quarantine_reasons"]


def test_a_time_that_no_hub_writes_is_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path, 41)
    world.grow()
    for when in ("2026-03-02 9:00", "no time"):
        world.hubs["hub-1"].tamper(INSERT, (when, "from.the_future", "x", "y", "{}"))
    ingest(spark, world.lake, [hub.ref for hub in world.hubs.values()])
    assert build_gold(spark, world.lake, SETTINGS).tables == sizes(world.lake)
    untimed = {row["db_id"]: row["untimed"] for row in contents(world.lake)["hubs"]}
    assert untimed == {"hub-0": 0, "hub-1": 1}
