"""The whole pipeline, one stage after the other: from the hubs' logs to the report."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley.app.pipeline.build import build_stages
from parley.app.pipeline.opening import Place, hubs_of, open_or_create_lake, settings_of, spark_session
from parley.app.pipeline.report import summary, target
from parley.core.settings import PipelineSettings
from parley.pipeline.hubs import HubRef
from parley.pipeline.ingest import ingest
from parley.pipeline.lake import Lake
from parley.pipeline.progress import Progress
from parley.pipeline.report.making import make_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_pipeline(place: Place, progress: Progress, out: Path | None) -> dict[str, Any]:
    """Brings the lake up to what the hubs hold now, and draws it."""
    hubs, lake, settings = hubs_of(place), open_or_create_lake(place), settings_of(place).pipeline
    with spark_session(place, progress) as spark:
        return run_stages(spark, lake, hubs, settings, progress, out)


def run_stages(
    spark: "SparkSession",
    lake: Lake,
    hubs: list[HubRef],
    settings: PipelineSettings,
    progress: Progress,
    out: Path | None = None,
) -> dict[str, Any]:
    """Every stage in a session that is open. Each commits by itself: after a kill the next run goes on from there."""
    path = target(lake, out)
    with progress.stage("ingest", "events") as stage:
        ingested = ingest(spark, lake, hubs, progress=stage.tell)
    built = build_stages(spark, lake, settings, progress)
    with progress.stage("checks and report"):
        made = summary(lake, path, make_report(spark, lake, path))
    return {**made, "ingest": asdict(ingested), **built}
