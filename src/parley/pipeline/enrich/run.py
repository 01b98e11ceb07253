"""``parley pipeline enrich``: a plugin over every message that it has not seen at its version yet."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from parley.core.clock import Clock, SystemClock
from parley.pipeline.enrich.plugins import Chosen, choose
from parley.pipeline.enrich.running import MESSAGE_COLUMNS, enriching
from parley.pipeline.hubs import HubRef
from parley.pipeline.lake import Lake, read_table, table_version
from parley.pipeline.lake.catalogue.vectors import PLUGIN_FINDINGS
from parley.pipeline.lake.files import DataFile
from parley.pipeline.pending import Progress, Work, work_through

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(slots=True)
class EnrichReport:
    """What a run has done. Messages that were done before are counted nowhere."""

    plugin: str
    digests: dict[str, str] = field(default_factory=dict[str, str])
    """By the id of the hub."""
    without: list[str] = field(default_factory=list[str])
    """Hubs whose workspace has no such plugin."""
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
    hubs: Sequence[HubRef],
    messages: "DataFrame",
    plugin: str,
    *,
    since: int | None = None,
    retry_failed: bool = False,
    home: Path | None = None,
    clock: Clock | None = None,
    progress: Progress = lambda done, due: None,
    chunk_messages: int | None = None,
) -> tuple[EnrichReport, Mapping[str, Chosen]]:
    """Runs the plugin on the messages as they are now, those of ``silver_messages``, and keeps what it finds.

    ``since`` takes only messages that changed after that event. What failed before is left alone unless
    ``retry_failed`` asks for it. Raises ``NotFound`` or ``PluginUnavailable`` before anything is done.
    """
    chosen = choose(hubs, plugin, clock or SystemClock(), home)
    report = EnrichReport(plugin, {db_id: each.digest for db_id, each in chosen.items()})
    report.without = [hub.source for hub in hubs if hub.db_id not in chosen]
    table_version(lake, PLUGIN_FINDINGS)  # makes the table, so that it can be asked what is done

    def due() -> "DataFrame":
        return _due(spark, lake, messages, chosen, since, retry_failed)

    def count(files: list[DataFile]) -> None:
        report.found_in += sum(_not_null(file, "findings_json") for file in files)
        report.failed += sum(_not_null(file, "failure") for file in files)

    work = Work(PLUGIN_FINDINGS, f"parley.enrich.{plugin}", due, enriching(lake, chosen, clock), "enrich")
    done = work_through(spark, lake, work, progress=progress, each=count, chunk_messages=chunk_messages)
    report.due, report.done, report.commits, report.conflicts = done.due, done.done, done.commits, done.conflicts
    return report, chosen


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
