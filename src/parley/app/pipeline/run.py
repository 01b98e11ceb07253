"""The whole pipeline, one stage after the other: from the logs of hubs and brokers to the report."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley.app.pipeline.audit import audit_with
from parley.app.pipeline.brokers import take_brokers
from parley.app.pipeline.build import build_stages
from parley.app.pipeline.opening import Place, brokers_of, hubs_of, open_or_create_lake, settings_of, spark_session
from parley.app.pipeline.report import summary, target
from parley.core.settings import PipelineSettings
from parley.pipeline.audit.copies import refuse_distant
from parley.pipeline.audit.report import AuditReport
from parley.pipeline.brokers.stores import BrokerRef
from parley.pipeline.hubs import HubRef
from parley.pipeline.ingest import ingest
from parley.pipeline.lake import Lake
from parley.pipeline.progress import Progress
from parley.pipeline.report.report_file import make_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_pipeline(place: Place, progress: Progress, out: Path | None, *, with_audit: bool) -> dict[str, Any]:
    """Brings the lake up to what hubs and brokers hold now, and draws it; with an audit, ``audit`` is its report."""
    hubs, brokers = hubs_of(place), brokers_of(place)
    lake, settings = open_or_create_lake(place), settings_of(place).pipeline
    target(lake, out)  # what is wrong with it is said before Spark is started
    if with_audit:
        refuse_distant(hubs)
    with spark_session(place, progress) as spark:
        look = partial(audit_with, spark, place, hubs, brokers, lake, progress) if with_audit else None
        return run_stages(spark, lake, hubs, settings, progress, out, look, brokers)


def run_stages(
    spark: "SparkSession",
    lake: Lake,
    hubs: list[HubRef],
    settings: PipelineSettings,
    progress: Progress,
    out: Path | None = None,
    look: Callable[[], AuditReport] | None = None,
    brokers: Sequence[BrokerRef] = (),
) -> dict[str, Any]:
    """Every stage in a session that is open. Each commits by itself: after a kill the next run goes on from there.

    ``damaged`` says whether a check has found damage: one of the lake's own, or one of the last audit.
    """
    path = target(lake, out)
    with progress.stage("ingest", "events") as stage:
        ingested = ingest(spark, lake, hubs, progress=stage.tell)
    taken = take_brokers(lake, brokers, progress)
    built = build_stages(spark, lake, settings, progress)
    audited = None if look is None else look()
    with progress.stage("checks and report"):
        found = make_report(spark, lake, path)
    damaged = any(check.verdict == "error" for check in found.checks)
    took = {"ingest": asdict(ingested) | {"brokers": asdict(taken)}}
    made = {**summary(lake, path, found), "damaged": damaged, **took, **built}
    return made if audited is None else {**made, "audit": audited}
