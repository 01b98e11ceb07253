"""All gold tables together: each has the columns and types that the catalogue promises."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from parley.core.settings import PipelineSettings
from parley.pipeline.gold.counting import Counted, Sources
from parley.pipeline.lake.catalogue.gold import TABLES
from tests.pipeline.gold import worlds
from tests.pipeline.gold.worlds import HUB, event, frame, rows, ts

pytestmark = pytest.mark.timeout(300)
"""A busy machine takes long to start Spark, and to plan a query for the first time."""


def version(message: str, event_id: int, actor: str) -> tuple[object, ...]:
    return (HUB, message, 1, event_id, None, ts(event_id), "created", actor, "t1", "So?", None)


@pytest.fixture(scope="module")
def counted(spark: SparkSession) -> Counted:
    sources = Sources(
        events=frame(spark, worlds.EVENTS, [event(1, 1), event(2, 2), event(3, 3_000, "topic.created")]),
        message_versions=frame(spark, worlds.VERSIONS, [version("m1", 1, "ada"), version("m2", 2, "bob")]),
        topics=frame(spark, worlds.TOPICS, [(HUB, "t1", "c1", "One", ts(0), ts(0))]),
        channels=frame(spark, worlds.CHANNELS, [(HUB, "c1", "general", None, ts(0))]),
        tasks=frame(spark, worlds.TASKS),
        leases=frame(spark, worlds.LEASES),
        quarantine=frame(spark, worlds.QUARANTINE),
    )
    return Counted(sources, PipelineSettings(answer_window_minutes=1, stuck_after_hours=48))


@pytest.mark.parametrize("name", [table.name for table in TABLES])
def test_each_table_has_the_columns_that_the_catalogue_promises(counted: Counted, name: str) -> None:
    table = next(table for table in TABLES if table.name == name)
    promised = from_arrow_schema(table.schema)
    found = counted.tables[name]
    assert set(found.columns) == set(promised.names)
    assert types(found.select(*promised.names).schema) == types(promised)


def types(schema: StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def test_there_is_no_table_that_the_catalogue_does_not_know(counted: Counted) -> None:
    assert set(counted.tables) == {table.name for table in TABLES}


def test_the_settings_decide_what_is_an_answer_and_what_is_stuck(counted: Counted) -> None:
    assert rows(counted.tables["answers"], "question_id", "answer_id", "latency_ms") == [("m1", "m2", 60_000)]
    assert rows(counted.tables["topics"], "stuck_reason") == [("open question",)]
    counted.release()
