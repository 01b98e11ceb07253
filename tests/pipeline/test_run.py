"""The whole pipeline in one go, and once more."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from parley.app.pipeline.run import run_stages
from parley.core.settings import PipelineSettings
from parley.pipeline.lake import Lake, read_table
from parley.pipeline.lake.catalogue.gold import TABLES
from parley.pipeline.lake.catalogue.silver import MESSAGE_VERSIONS
from parley.pipeline.progress import Silent
from tests.pipeline.logs import make_hub

pytestmark = pytest.mark.timeout(600)
"""A busy machine takes long to plan so many queries for the first time."""


def test_a_run_leads_from_the_logs_to_the_report_and_the_next_does_only_what_is_new(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    hub = make_hub(tmp_path / "hub", steps=120)
    made: dict[str, Any] = run_stages(spark, lake, [hub], PipelineSettings(), Silent())
    posted = read_table(spark, lake, MESSAGE_VERSIONS).where("change = 'created'").count()
    assert posted > 0
    assert made["totals"]["messages"] == posted
    assert made["ingest"]["events"] > posted
    assert set(made["gold"]["tables"]) == {table.name for table in TABLES}
    assert Path(made["report"]).read_text().startswith("<!doctype html>")
    again = run_stages(spark, lake, [hub], PipelineSettings(), Silent())
    assert again["ingest"]["events"] == 0
    assert again["gold"] == {"tables": {}, "unchanged": len(TABLES)}
    assert again["totals"] == made["totals"]
