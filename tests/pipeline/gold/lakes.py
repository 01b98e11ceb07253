"""Lakes for the tests of gold's builds: hubs whose histories go on, silver beside them, and what gold's tables hold."""

import random
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from parley.core.settings import PipelineSettings
from parley.pipeline.gold.building import GoldReport, build_gold
from parley.pipeline.ingest import ingest
from parley.pipeline.lake import Lake, Step, Table, commit
from parley.pipeline.lake.catalogue.gold import TABLES
from parley.pipeline.lake.catalogue.silver import time_column
from parley.pipeline.lake.files import TableWriter
from parley.pipeline.silver.inline import INLINE_EVENTS, build_inline
from parley.pipeline.silver.reading import bronze_marks
from tests.pipeline.silver.lakes import LivingHub

SETTINGS = PipelineSettings(answer_window_minutes=20, stuck_after_hours=1)
Tables = dict[str, list[dict[str, Any]]]


def no_spark() -> SparkSession:
    raise AssertionError("this needs no Spark")


def count(lake: Lake, settings: PipelineSettings = SETTINGS) -> GoldReport:
    """A count by the driver alone."""
    return build_gold(no_spark, lake, settings)


class World:
    """A lake of some hubs, each history by the hub's own rules, built without Spark."""

    def __init__(self, folder: Path, seed: int, hubs: int = 2) -> None:
        self.folder, self.rng = folder, random.Random(seed)
        self.lake = Lake.open_or_create(folder / "lake")
        names = [f"hub-{number}" for number in range(hubs)]
        self.hubs = {name: LivingHub(folder / name, seed + at, name) for at, name in enumerate(names)}
        self._copies = 0

    def live(self, *names: str) -> None:
        """Lets these hubs, or all, go on, and takes in what came of it."""
        for name in names or self.hubs:
            self.hubs[name].live(self.rng.randrange(10, 50))
        ingest(no_spark, self.lake, [hub.ref for hub in self.hubs.values()])
        assert build_inline(self.lake, bronze_marks(self.lake), INLINE_EVENTS) is not None

    def grow(self, *names: str) -> None:
        """The same, with gold."""
        self.live(*names)
        count(self.lake)

    def afresh(self) -> Lake:
        """Another lake with the same bronze and silver, and no gold."""
        self._copies += 1
        folder = self.folder / f"copy-{self._copies}"
        shutil.copytree(self.lake.root, folder, ignore=shutil.ignore_patterns("gold"))
        return Lake.open(folder)

    def counted_at_once(self, settings: PipelineSettings = SETTINGS) -> Tables:
        """What a count of everything gives."""
        lake = self.afresh()
        count(lake, settings)
        return contents(lake)


def put(lake: Lake, table: Table, columns: str, rows: Sequence[tuple[Any, ...]], *steps: Step) -> None:
    """Commits rows that were written by hand. ``columns`` are those that they have, as Spark would be told them.

    Of the others, those are filled in that follow from a time; the rest is null.
    """
    names = [column.split()[0] for column in columns.split(",")]
    told = [dict(zip(names, row, strict=True)) for row in rows]
    moments = {time_column(name): name for name in names}
    for row in told:
        row["day"], row["bucket"] = str(row.get("ts"))[:10], "by-hand"
        row |= {moment: datetime.fromisoformat(row[name]) for moment, name in moments.items() if moment is not None}
    with TableWriter(lake, table) as writer:
        for batch in pa.Table.from_pylist(told, schema=table.schema).to_batches():
            writer.write(batch)
    commit(lake, table, writer.files, cursors=steps)


def contents(lake: Lake) -> Tables:
    """The rows of every gold table, in an order of their own, read by delta-rs and Polars."""
    return {
        table.name: sorted(
            polars.read_delta(DeltaTable(lake.path(table))).to_dicts(), key=lambda row: sorted(map(repr, row.items()))
        )
        for table in TABLES
    }


def sizes(lake: Lake) -> dict[str, int]:
    """How many rows each gold table has: what a count of all hubs reports."""
    return {name: len(rows) for name, rows in contents(lake).items()}
