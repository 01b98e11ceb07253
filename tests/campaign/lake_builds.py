"""kill -9 of those who build the tables of a lake, while another builds them too and the hubs go on writing.

After each kill every table of silver must be, at the version that it has now, what the pure fold makes of the hub's log
up to the cursor in that version, and every finding of a plugin must be there once. At the end one more build in Spark
brings all tables up to the logs, and a build of everything at once gives each of silver and gold again. Most kills meet
builders that do without Spark; every fourth meets one that folds and counts by Spark, or runs a plugin.
"""

import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars
from deltalake import DeltaTable

from parley.core.clock import SystemClock
from parley.core.fold import TABLES as FOLDED
from parley.core.fold import HubState
from parley.core.settings import PipelineSettings
from parley.pipeline.enrich.plugins import choose
from parley.pipeline.enrich.run import enrich
from parley.pipeline.gold.building import BY_SPARK, INLINE_EVENTS, build_gold
from parley.pipeline.ingest import ingest
from parley.pipeline.lake import Lake, read_table
from parley.pipeline.lake.catalogue import gold, silver
from parley.pipeline.lake.catalogue.vectors import PLUGIN_FINDINGS
from parley.pipeline.lake.cursors import read_cursors
from parley.pipeline.session import open_session
from parley.pipeline.silver import build_silver
from parley.pipeline.silver.reading import cursor_prefix
from tests.campaign.properties import read_all
from tests.campaign.report import Report
from tests.pipeline.builder import PLUGIN
from tests.pipeline.fold.logs import Event, pure
from tests.pipeline.logs import log_rows
from tests.pipeline.sessions import FOR_SMALL_QUERIES
from tests.pipeline.silver.lakes import LivingHub, same_bronze

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from parley.pipeline.lake.tables import Table

STEPS = 40
KILLS_PER_LAKE = 20
SPARK_EVERY = 4
OPTIONS = {"builder": (), "Spark builder": ("--spark",), "plugin": ("--enrich",)}
KILL_SECONDS = {"builder": (0.0, 1.5), "Spark builder": (0.0, 12.0), "plugin": (0.0, 12.0)}
"""From ready to the kill."""
CONTROL_SECONDS = 60.0
_FOLDED = {silver.NOT_FOLDED_UNDER_THIS_NAME.get(table.name, table.name): table for table in silver.TABLES}
_FINDING = ("db_id", "message_id", "version", "plugin_digest")


def lake_builds(folder: Path, *, kills: int, seed: int) -> Report:
    """Control: a builder that leaves cursors out of its commits."""
    spark = open_session(settings=FOR_SMALL_QUERIES)
    try:
        return build_kills(spark, folder, kills=kills, seed=seed)
    finally:
        spark.stop()


def build_kills(
    spark: "SparkSession", folder: Path, *, kills: int, seed: int, spark_every: int = SPARK_EVERY
) -> Report:
    """The same with a session for what is looked at in the end."""
    report = Report("lake_builds", seed)
    rng = random.Random(seed)
    kinds = [
        rng.choice(("Spark builder", "plugin")) if at % spark_every == spark_every - 1 else "builder"
        for at in range(kills)
    ]
    events = findings = 0
    for first in range(0, kills, KILLS_PER_LAKE):
        place = folder / f"world-{first}"
        hubs = {name: LivingHub(place / "hubs" / name, seed + at, name) for at, name in enumerate(("a", "b"))}
        for hub in hubs.values():
            hub.live(STEPS)
        world = World(place / "lake", hubs)
        if not report.control:
            report.control = control(world._replace(lake=place / "control"))
        with living(place / "hubs"), builder(world):
            for number in range(first, min(first + KILLS_PER_LAKE, kills)):
                kind = kinds[number]
                with builder(world, *OPTIONS[kind]):
                    time.sleep(rng.uniform(*KILL_SECONDS[kind]))
                report.runs += 1
                report.violations += [f"kill {number}, of a {kind}: {each}" for each in world.problems()]
        report.violations += [
            f"end of {place.name}: {each}" for each in world.problems_of_the_end(spark, place / "again")
        ]
        events += sum(len(log_rows(str(hub.ref.database))) for hub in hubs.values())
        findings += len(world.findings())
        shutil.rmtree(place)
    report.facts = {"killed": dict(Counter(kinds)), "events": events, "findings": findings}
    return report


class World(NamedTuple):
    """A lake and the hubs whose tables it holds."""

    lake: Path
    hubs: dict[str, LivingHub]

    def problems(self) -> list[str]:
        """Where a table is not the log up to its cursors, or a finding is there twice."""
        if not (self.lake / "_parley" / "lake.json").exists():
            return []
        tables = {folded: (table, *self._at_one_version(table)) for folded, table in _FOLDED.items()}
        logs = {db_id: _log(hub, db_id) for db_id, hub in self.hubs.items()}  # now they have all that the tables have
        states: dict[tuple[str, int], HubState] = {}
        found: list[str] = []
        for folded, (table, rows, stands) in tables.items():
            for db_id, log in logs.items():
                held = [row for row in rows if row["db_id"] == db_id]
                cursor = stands.get(db_id, 0)
                if (db_id, cursor) not in states:
                    states[db_id, cursor] = pure(event for event in log if event.event_id <= cursor)
                found += _differences(table.view, folded, held, states[db_id, cursor], log[:cursor])
        doubled = [key for key, count in Counter(self.findings()).items() if count > 1]
        return found + [f"the finding {key} is there more than once" for key in doubled]

    def findings(self) -> list[tuple[Any, ...]]:
        """What the findings of plugins are about, each as often as it is there."""
        path = str(self.lake / PLUGIN_FINDINGS.layer / PLUGIN_FINDINGS.name)
        if not DeltaTable.is_deltatable(path):
            return []
        return polars.read_delta(path).select(_FINDING).rows()

    def problems_of_the_end(self, spark: "SparkSession", again: Path) -> list[str]:
        """The same when everything is built, and where a build of everything at once gives something else."""
        lake, hubs = Lake.open(self.lake), [hub.ref for hub in self.hubs.values()]
        ingest(spark, lake, hubs)
        _build(spark, lake, gold_inline=INLINE_EVENTS)
        chosen = choose(hubs, PLUGIN, SystemClock(), self.lake.parent / "home")
        messages = read_table(spark, lake, silver.MESSAGES)
        enrich(spark, lake, messages, chosen)
        left = enrich(spark, lake, messages, chosen).due
        other = same_bronze(lake, again)
        _build(spark, other, gold_inline=BY_SPARK)
        tables = (*silver.TABLES, *gold.TABLES)
        one, full = read_all(lake, tables), read_all(other, tables)
        found = [f"{name} is not what a full build gives" for name in one if one[name] != full[name]]
        return [*self.problems(), *found, *([f"{left} messages are not done"] if left else [])]

    def _at_one_version(self, table: "Table") -> tuple[list[dict[str, Any]], dict[str, int]]:
        """The rows, and where the cursors of the hubs stand in the same version."""
        path = self.lake / table.layer / table.name
        if not DeltaTable.is_deltatable(str(path)):
            return [], {}
        opened = DeltaTable(str(path))
        prefix = cursor_prefix(table)
        cursors = read_cursors(Lake.open(self.lake), table, opened.version())
        stands = {name.removeprefix(prefix): at for name, at in cursors.items() if name.startswith(prefix)}
        return polars.read_delta(opened).to_dicts(), stands


def control(world: World) -> list[str]:
    """What is found of a builder whose commits leave the cursors out."""
    with builder(world, "--without-cursor"):
        deadline = time.monotonic() + CONTROL_SECONDS
        found: list[str] = []
        while not found and time.monotonic() < deadline:
            found = world.problems()
    return found


@contextmanager
def builder(world: World, *options: str) -> Generator[None]:
    """A process that builds the lake, from the moment that it can begin; killed at the end of the block."""
    pattern = str(world.lake.parent / "hubs" / "*")
    argv = [sys.executable, "-m", "tests.pipeline.builder", str(world.lake), pattern, *options]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.kill()
        process.communicate()


@contextmanager
def living(hubs: Path) -> Generator[None]:
    """Processes in which the histories of the hubs go on."""
    argv = [sys.executable, "-m", "tests.pipeline.living"]
    each = [
        subprocess.Popen([*argv, str(root), str(seed)], stdin=subprocess.PIPE)
        for seed, root in enumerate(sorted(hubs.iterdir()))
    ]
    try:
        yield
    finally:
        for process in each:
            process.communicate()
            assert process.returncode == 0, "a hub could not go on"


def _build(spark: "SparkSession", lake: Lake, *, gold_inline: int) -> None:
    build_silver(spark, lake, inline_events=0)
    build_gold(spark, lake, PipelineSettings(), inline_events=gold_inline)


def _log(hub: LivingHub, db_id: str) -> list[Event]:
    return [Event(db_id, *row) for row in log_rows(str(hub.ref.database))]


def _differences(
    view: str, folded: str, held: list[dict[str, Any]], state: HubState, log: list[Event]
) -> Generator[str]:
    """Where the rows of a hub are not what its log says."""
    if folded in FOLDED:
        columns = FOLDED[folded]
        rows = sorted(repr([row[column] for column in columns]) for row in held)
        wanted = sorted(repr([row[column] for column in columns]) for row in state.table(folded).values())
        if rows != wanted:
            yield f"{view}: {len(rows)} rows where {len(wanted)} belong, or others"
    elif folded in _EVENTS_OF:
        wanted_rows = sum(event.name in _EVENTS_OF[folded] for event in log)
        if len(held) != wanted_rows:
            yield f"{view}: {len(held)} rows where {wanted_rows} belong"


_EVENTS_OF = {
    "message_versions": ("message.created", "message.edited", "message.deleted", "message.moved_topic"),
    "topic_titles": ("topic.created", "topic.renamed"),
    "moves": ("message.moved_topic",),
    "quarantine": (),
}
"""Tables of history have one row for each event of these names."""
