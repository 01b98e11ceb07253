"""Random histories of hubs, taken into lakes and built in every way that there is: what comes of them is the same.

Each lake has a few hubs and grows turn by turn, each turn built by the driver alone or by Spark, as chance has it. One
of its hubs archives in between, and into the log of another events are planted that its hub never wrote. At the end
silver is what each hub's own tables hold, of the disturbed one what the pure fold makes of the events that both folds
accept; and a build of everything at once, in Spark, gives every table of silver and gold once more.
"""

import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars
from deltalake import DeltaTable

from parley.core.fold import TABLES as FOLDED
from parley.core.settings import PipelineSettings
from parley.pipeline.gold.building import BY_SPARK, build_gold
from parley.pipeline.ingest import ingest
from parley.pipeline.lake import Lake
from parley.pipeline.lake.catalogue import gold, silver
from parley.pipeline.session import open_session
from parley.pipeline.silver import build_silver
from parley.pipeline.silver.inline import INLINE_EVENTS
from parley.pipeline.source.schema import LOG_COLUMNS
from parley.workspace import queries
from tests.campaign.report import Report
from tests.pipeline.fold.logs import BY_ITSELF, Event, damage, pure, refused_by_the_pure_fold
from tests.pipeline.logs import log_rows
from tests.pipeline.sessions import FOR_SMALL_QUERIES
from tests.pipeline.silver.lakes import LivingHub, same_bronze, state_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from parley.core.fold import HubState

HUBS_PER_LAKE = 10
"""Histories that share a build: it costs Spark nearly the same for one hub as for a few."""
TURNS = 3
STEPS = (15, 60)
PLANTED = 8
ARCHIVED_AGE_MS = 600_000
_INSERT = f"INSERT INTO events ({', '.join(LOG_COLUMNS[1:])}) VALUES ({', '.join('?' * len(LOG_COLUMNS[1:]))})"

Tables = dict[str, list[dict[str, Any]]]


def pipeline_properties(folder: Path, *, histories: int, seed: int) -> Report:
    """Control: a hub whose table was changed past its log."""
    report = Report("pipeline_properties", seed)
    spark = open_session(settings=FOR_SMALL_QUERIES)
    events = refused = 0
    try:
        for first in range(0, histories, HUBS_PER_LAKE):
            world = World(folder / f"world-{first}", seed + first, min(HUBS_PER_LAKE, histories - first))
            world.grow(spark)
            report.violations += [f"lake of seed {seed + first}: {each}" for each in world.problems(spark)]
            report.runs += len(world.hubs)
            events += sum(len(log_rows(str(hub.ref.database))) for hub in world.hubs.values())
            refused += len(world.contents(silver.TABLES)["quarantine"])
            if not report.control:
                world.hubs["hub-0"].tamper("UPDATE topics SET title = title || '!'")
                report.control = world.state_problems(world.contents(silver.TABLES))
            shutil.rmtree(world.folder)
    finally:
        spark.stop()
    report.facts = {"lakes": -(-histories // HUBS_PER_LAKE), "events": events, "refused": refused}
    return report


class World:
    """A lake and its hubs. The first archives; into the log of the last one events are planted."""

    def __init__(self, folder: Path, seed: int, hubs: int) -> None:
        self.folder = folder
        self._rng = random.Random(seed)
        self._lake = Lake.open_or_create(folder / "lake")
        names = [f"hub-{number}" for number in range(hubs)]
        self.hubs = {name: LivingHub(folder / name, seed + at, name) for at, name in enumerate(names)}
        self.disturbed = names[-1] if hubs > 1 else None

    def grow(self, spark: "SparkSession") -> None:
        """History goes on, and is taken in and built, turn by turn."""
        for turn in range(TURNS):
            for hub in self.hubs.values():
                hub.live(self._rng.randrange(*STEPS))
            if self.disturbed is not None:
                self._plant(self.hubs[self.disturbed])
            ingest(spark, self._lake, [hub.ref for hub in self.hubs.values()])
            build_silver(spark, self._lake, inline_events=self._rng.choice((0, INLINE_EVENTS)))
            build_gold(spark, self._lake, PipelineSettings())
            if turn == 1:
                self.hubs["hub-0"].archive(self._rng.randrange(ARCHIVED_AGE_MS))

    def problems(self, spark: "SparkSession") -> list[str]:
        """Where silver is not what the hubs hold, or a build of everything gives something else."""
        again = same_bronze(self._lake, self.folder / "again")
        build_silver(spark, again, inline_events=0)
        build_gold(spark, again, PipelineSettings(), inline_events=BY_SPARK)
        found = self.state_problems(self.contents(silver.TABLES))
        for tables in (silver.TABLES, gold.TABLES):
            one, other = self.contents(tables), read_all(again, tables)
            found += [f"{name}: {len(one[name])} rows, by a full build {len(other[name])}, or others"
                      for name in one if one[name] != other[name]]  # fmt: skip
        return found

    def contents(self, tables: tuple[Any, ...]) -> Tables:
        return read_all(self._lake, tables)

    def state_problems(self, rows: Tables) -> list[str]:
        found: list[str] = []
        for db_id, hub in self.hubs.items():
            wanted = self._accepted(db_id, rows, found) if db_id == self.disturbed else stored(hub)
            found += [
                f"{db_id}: {table} is not what the log adds up to"
                for table in FOLDED
                if state_of(rows, db_id, table) != wanted.table(table)
            ]
        return found

    def _accepted(self, db_id: str, rows: Tables, found: list[str]) -> "HubState":
        """What the events that Spark accepts add up to; the pure fold must refuse just the others."""
        log = [Event(db_id, *row) for row in log_rows(str(self.hubs[db_id].ref.database))]
        refused = {row["event_id"]: row["reason"] for row in rows["quarantine"] if row["db_id"] == db_id}
        by_itself = {event_id for event_id, reason in refused.items() if reason in BY_ITSELF}
        by_pure = refused_by_the_pure_fold([event for event in log if event.event_id not in by_itself])
        if by_pure != refused.keys() - by_itself:
            found.append(f"{db_id}: the folds disagree about events {sorted(by_pure ^ (refused.keys() - by_itself))}")
        return pure([event for event in log if event.event_id not in refused])

    def _plant(self, hub: LivingHub) -> None:
        """Writes events again with something wrong about them, as no hub does."""
        rows = log_rows(str(hub.ref.database))
        for row in self._rng.sample(rows, PLANTED):
            for event in damage(Event("", *row), self._rng):
                hub.tamper(_INSERT, event[2:])


def stored(hub: LivingHub) -> "HubState":
    with hub.reading() as connection:
        return queries.stored_state(connection)


def read_all(lake: Lake, tables: tuple[Any, ...]) -> Tables:
    """The rows of the tables, in an order of their own, read by delta-rs and Polars."""
    return {
        table.name: sorted(
            polars.read_delta(DeltaTable(lake.path(table))).to_dicts(), key=lambda row: sorted(map(repr, row.items()))
        )
        for table in tables
    }
