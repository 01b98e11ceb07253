"""kill -9 of those who fill a lake, again and again, while others fill it too and the hubs go on writing.

Each kill takes a driver at a random moment, or one of the Python workers that run its tasks. A second driver fills the
same lake all the while. After each kill, what bronze holds of a hub must be exactly the hub's log up to the cursor that
stands in the same version of the table; at the end, after one more run, all of it. Most kills meet drivers that do
without Spark, which start in a moment; every fourth meets a real JVM, or a worker of it.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

from deltalake import DeltaTable

from parley.pipeline.hubs import HubRef
from parley.pipeline.ingest import cursor_name, ingest
from parley.pipeline.lake import Lake
from parley.pipeline.source.schema import LOG_COLUMNS
from tests.campaign.report import Report
from tests.hub.derived.world import descendants
from tests.pipeline.logs import log_rows, make_hub

HUBS = 2
KILLS_PER_LAKE = 20
"""Then a new lake and new hubs: what has to be compared after each kill stays small."""
SPARK_EVERY = 4
KILL_SECONDS = {"driver": (0.0, 0.5), "Spark driver": (0.0, 3.0), "worker": (0.0, 3.0)}
"""From ready to the kill."""
END_SECONDS = 300.0
CONTROL_SECONDS = 60.0
INLINE = 1 << 60


def lake_kills(folder: Path, *, kills: int, seed: int, spark_every: int = SPARK_EVERY) -> Report:
    """Control: a driver that leaves the cursor out of its commits."""
    report = Report("lake", seed)
    rng = random.Random(seed)
    kinds = ["driver" if number % spark_every else rng.choice(("Spark driver", "worker")) for number in range(kills)]
    events = 0
    for first in range(0, kills, KILLS_PER_LAKE):
        place = folder / f"world-{first}"
        world = World(place / "lake", [make_hub(place / "hubs" / str(number), 50) for number in range(HUBS)])
        with writing(place / "hubs"), Driver(world, "--inline"):
            for number in range(first, min(first + KILLS_PER_LAKE, kills)):
                kill_one(world, kinds[number], rng.uniform(*KILL_SECONDS[kinds[number]]))
                report.runs += 1
                report.violations += [f"kill {number}, of a {kinds[number]}: {each}" for each in world.problems()]
        ingest(_no_spark, Lake.open(world.lake), world.hubs, inline_events=INLINE)
        report.violations += [f"end of {place.name}: {each}" for each in world.problems(whole=True)]
        events += sum(len(log_rows(str(hub.database))) for hub in world.hubs)
        if not report.control:
            report.control = control(world._replace(lake=place / "control"))
        shutil.rmtree(place)
    report.facts = {"killed": {kind: kinds.count(kind) for kind in KILL_SECONDS}, "events": events}
    return report


class World(NamedTuple):
    """A lake and the hubs that fill it."""

    lake: Path
    hubs: list[HubRef]

    def problems(self, *, whole: bool = False) -> list[str]:
        """Where bronze is not each hub's log up to its cursor, or up to its end if it should be whole."""
        if not DeltaTable.is_deltatable(str(self.lake / "bronze" / "events")):
            return []
        table = DeltaTable(str(self.lake / "bronze" / "events"))
        rows = table.to_pyarrow_table(columns=["db_id", *LOG_COLUMNS]).to_pylist()
        found: list[str] = []
        for hub in self.hubs:
            logged = log_rows(str(hub.database))
            stands = logged[-1][0] if whole else table.transaction_version(cursor_name(hub.db_id)) or 0
            wanted = [row for row in logged if row[0] <= stands]
            held = sorted(tuple(row[name] for name in LOG_COLUMNS) for row in rows if row["db_id"] == hub.db_id)
            if held != wanted:
                doubled = len(held) - len({row[0] for row in held})
                found.append(f"{hub.source}: {len(held)} rows where {len(wanted)} belong, {doubled} of them doubled")
        return found


def control(world: World) -> list[str]:
    """What is found of a driver whose commits leave the cursor out."""
    with Driver(world, "--inline", "--without-cursor"):
        deadline = time.monotonic() + CONTROL_SECONDS
        found: list[str] = []
        while not found and time.monotonic() < deadline:
            found = world.problems()
    return found


def kill_one(world: World, kind: str, after_seconds: float) -> None:
    """Starts a driver and kills it, or a worker of it, so long after it began."""
    with Driver(world, *(["--inline"] if kind == "driver" else [])) as driver:
        time.sleep(after_seconds)
        if kind == "worker":
            driver.kill_worker()
            driver.end()


class Driver:
    """A process that fills a lake; killed at the end of the block, if it has not ended by itself."""

    def __init__(self, world: World, *options: str) -> None:
        pattern = str(Path(world.hubs[0].source).parent / "*")
        argv = [sys.executable, "-m", "tests.pipeline.driver", str(world.lake), pattern, *options]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> "Driver":
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def kill_worker(self) -> None:
        """Kills one of the Python processes that run its tasks, if there is one now."""
        workers = [pid for pid in sorted(descendants(self._process.pid)) if b"pyspark.daemon" in _command_line(pid)]
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(workers[-1], signal.SIGKILL)

    def end(self) -> None:
        """Lets it finish its turn, which must come to an end in spite of the lost worker."""
        self._process.communicate(timeout=END_SECONDS)


@contextlib.contextmanager
def writing(hubs: Path) -> Generator[None]:
    """Processes that append to the hubs' logs all the while, as their hubs would."""
    argv = [sys.executable, "-m", "tests.pipeline.writer"]
    writers = [subprocess.Popen([*argv, str(each)], stdin=subprocess.PIPE) for each in sorted(hubs.iterdir())]
    try:
        yield
    finally:
        for writer in writers:
            writer.communicate()
            assert writer.returncode == 0, "a hub could not go on writing"


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _no_spark() -> Any:
    raise AssertionError("a round was to be done without Spark")
