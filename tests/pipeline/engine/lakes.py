"""Lakes for the tests of the runner: logs put into bronze as they are, and what all tables hold afterwards."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from parley.core.settings import PipelineSettings
from parley.pipeline.engine.hubs import PLAN, settings_of
from parley.pipeline.engine.runner import BuildReport, build
from parley.pipeline.ingest import cursor_name, day_of
from parley.pipeline.lake import Lake, Step, Table, commit, cursor
from parley.pipeline.lake.catalogue import gold, silver
from parley.pipeline.lake.catalogue.bronze import EVENTS
from parley.pipeline.lake.files import TableWriter
from tests.pipeline.fold.logs import Event

SETTINGS = PipelineSettings(answer_window_minutes=20, stuck_after_hours=1)
Tables = dict[str, list[dict[str, Any]]]


def put_events(lake: Lake, logs: Mapping[str, Sequence[Event]]) -> None:
    """Takes these events in, each log as far as it is told, as an ingest would."""
    told = [
        {**event._asdict(), "db_id": db_id, "source": f"/projects/{db_id}", "day": day_of(event.ts)}
        for db_id, log in logs.items()
        for event in log
    ]
    with TableWriter(lake, EVENTS) as writer:
        for batch in pa.Table.from_pylist(told, schema=EVENTS.schema).to_batches():
            writer.write(batch)
    steps = [
        Step(cursor_name(db_id), cursor(lake, EVENTS, cursor_name(db_id)), log[-1].event_id)
        for db_id, log in logs.items()
        if log
    ]
    commit(lake, EVENTS, writer.files, cursors=steps, about={"parley": "ingest"})


def lake_of(folder: Path, logs: Mapping[str, Sequence[Event]]) -> Lake:
    lake = Lake.open_or_create(folder)
    put_events(lake, logs)
    return lake


def built(spark: SparkSession, lake: Lake, settings: PipelineSettings = SETTINGS) -> BuildReport:
    return build(lake, PLAN, lambda events: spark, settings_of(settings))


def contents(lake: Lake, *, wide: bool = True) -> Tables:
    """The rows of every table, in an order of their own; without those columns that only the runner gives them."""
    tables = {table.view: table for table in (*silver.TABLES, *gold.TABLES)}
    specs = {name: spec.table for name, spec in PLAN.specs.items()}
    return {name: rows_of(lake, specs[name] if wide else table) for name, table in tables.items()}


def rows_of(lake: Lake, table: Table) -> list[dict[str, Any]]:
    rows = polars.read_delta(DeltaTable(lake.path(table))).select(table.schema.names).to_dicts()
    return sorted(rows, key=lambda row: sorted(map(repr, row.items())))
