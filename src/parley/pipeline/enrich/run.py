"""``parley pipeline enrich``: a plugin over every message that it has not seen at its version yet."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parley.core.clock import Clock
from parley.pipeline.enrich.plugins import Chosen
from parley.pipeline.enrich.running import MESSAGE_COLUMNS, enriching
from parley.pipeline.lake import Lake, read_table, table_version
from parley.pipeline.lake.catalogue.vectors import PLUGIN_FINDINGS
from parley.pipeline.lake.files import DataFile
from parley.pipeline.pending import Progress, Work, work_through

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(slots=True)
class EnrichReport:
    """What a run has done. Messages that were done before are counted nowhere."""

    due: int = 0
    done: int = 0
    found_in: int = 0
    """Messages in which the plugin found something."""
    failed: int = 0
    commits: int = 0
    conflicts: int = 0


def enrich(
    spark: "SparkSession",
    lake: Lake,
    messages: "DataFrame",
    chosen: Mapping[str, Chosen],
    *,
    since: int | None = None,
    retry_failed: bool = False,
    clock: Clock | None = None,
    progress: Progress = lambda done, due: None,
    chunk_messages: int | None = None,
) -> EnrichReport:
    """Runs the plugin of each hub, as ``choose`` found it, on the messages as they are now, and keeps what it finds.

    ``messages`` are those of ``silver_messages``. ``since`` takes only messages that changed after that event. What
    failed before is left alone unless ``retry_failed`` asks for it.
    """
    report = EnrichReport()
    table_version(lake, PLUGIN_FINDINGS)  # makes the table, so that it can be asked what is done

    def due() -> "DataFrame":
        return _due(spark, lake, messages, chosen, since, retry_failed)

    def count(files: list[DataFile]) -> None:
        report.found_in += sum(_not_null(file, "findings_json") for file in files)
        report.failed += sum(_not_null(file, "failure") for file in files)

    (name,) = {each.plugin.name for each in chosen.values()}
    work = Work(PLUGIN_FINDINGS, f"parley.enrich.{name}", due, enriching(lake, chosen, clock), "enrich")
    done = work_through(spark, lake, work, progress=progress, each=count, chunk_messages=chunk_messages)
    report.due, report.done, report.commits, report.conflicts = done.due, done.done, done.commits, done.conflicts
    return report


def _due(
    spark: "SparkSession",
    lake: Lake,
    messages: "DataFrame",
    chosen: Mapping[str, Chosen],
    since: int | None,
    retry_failed: bool,
) -> "DataFrame":
    from pyspark.sql import functions as F

    digests = spark.createDataFrame(
        [(db_id, each.digest) for db_id, each in chosen.items()], "db_id string, plugin_digest string"
    )
    live = messages.where("deleted_at IS NULL")
    if since is not None:
        live = live.where(F.col("last_event_id") > since)
    wanted = live.select("db_id", *MESSAGE_COLUMNS).join(F.broadcast(digests), "db_id")
    done = read_table(spark, lake, PLUGIN_FINDINGS)
    if retry_failed:
        done = done.where("failure IS NULL")
    done = done.select("db_id", F.col("message_id").alias("id"), "version", "plugin_digest")
    return wanted.join(done, ["db_id", "id", "version", "plugin_digest"], "left_anti")


def _not_null(file: DataFile, column: str) -> int:
    return file.rows - int(json.loads(file.statistics)["nullCount"][column])
