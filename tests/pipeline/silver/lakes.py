"""Lakes for the tests of silver: a hub whose history goes on between two builds, and what the tables hold."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import polars
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from parley.core.clock import ManualClock
from parley.core.fold import TABLES as FOLDED
from parley.hub.archive import archive_before
from parley.pipeline.hubs import HubRef, hub_of_workspace
from parley.pipeline.ingest import ingest
from parley.pipeline.lake import Lake
from parley.pipeline.lake.catalogue.silver import NOT_FOLDED_UNDER_THIS_NAME, TABLES
from parley.workspace.layout import Workspace
from tests.hub.histories import History
from tests.workspace.databases import START_MS, new_workspace, prepared, writing


class LivingHub:
    """A workspace whose history goes on by the hub's own rules, while nobody serves it."""

    def __init__(self, root: Path, seed: int, db_id: str) -> None:
        self.workspace: Workspace = new_workspace(root)
        self.clock = ManualClock(START_MS)
        self._seed, self._steps = seed, 0
        with writing(self.workspace) as connection:
            prepared(connection, self.workspace, fts=False)
            connection.execute("UPDATE meta SET value = ? WHERE key = 'db_id'", (db_id,))

    @property
    def ref(self) -> HubRef:
        return hub_of_workspace(self.workspace.root)

    def live(self, steps: int) -> None:
        with self._history() as history:
            history.run(steps)

    def archive(self, age_ms: int) -> None:
        with writing(self.workspace) as connection:
            now_ms = self.clock.now_ms()
            archive_before(connection, self.workspace, before_ms=now_ms - age_ms, now_ms=now_ms)

    def tamper(self, statement: str, parameters: tuple[Any, ...] = ()) -> None:
        with writing(self.workspace) as connection:
            connection.execute(statement, parameters)

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        with writing(self.workspace) as connection:
            yield connection

    @contextmanager
    def _history(self) -> Iterator[History]:
        self._seed += 1
        with writing(self.workspace) as connection:
            history = History(connection, self._seed, self.clock)
            history.steps = self._steps  # names that were given are not given again
            yield history
            self._steps = history.steps


def take_in(spark: SparkSession, lake: Lake, *hubs: LivingHub) -> None:
    assert ingest(spark, lake, [hub.ref for hub in hubs]).problems == []


def same_bronze(lake: Lake, folder: Path) -> Lake:
    """Another lake with the same events and nothing else."""
    copy = Lake.open_or_create(folder)
    shutil.copytree(Path(lake.root) / "bronze", folder / "bronze")
    return copy


def contents(lake: Lake) -> dict[str, list[dict[str, Any]]]:
    """The rows of every silver table, in an order of their own, read by delta-rs and Polars."""
    return {
        table.name: sorted(
            polars.read_delta(DeltaTable(lake.path(table))).to_dicts(), key=lambda row: sorted(map(repr, row.items()))
        )
        for table in TABLES
    }


def state_of(rows: dict[str, list[dict[str, Any]]], db_id: str, table: str) -> dict[str, dict[str, Any]]:
    """What silver says a hub's table holds."""
    name = {folded: name for name, folded in NOT_FOLDED_UNDER_THIS_NAME.items()}.get(table, table)
    columns = FOLDED[table]
    return {row[columns[0]]: {column: row[column] for column in columns} for row in rows[name] if row["db_id"] == db_id}
