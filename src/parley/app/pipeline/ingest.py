"""Taking new events into the lake, once or steadily."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from parley.app.pipeline.opening import Place, hubs_of, open_or_create_lake, spark_when_needed
from parley.pipeline.ingest import IngestReport, ingest, watch
from parley.pipeline.lake import Lake
from parley.pipeline.progress import Progress


def run_ingest(place: Place, progress: Progress) -> dict[str, Any]:
    """Takes in all that the hubs hold now."""
    hubs, lake = hubs_of(place), open_or_create_lake(place)
    with spark_when_needed(place, progress) as spark, progress.stage("ingest", "events") as stage:
        return _summary(lake, ingest(spark, lake, hubs, progress=stage.tell))


def run_watch(place: Place, progress: Progress, every_seconds: float) -> dict[str, Any]:
    """Takes in what comes until the process is asked to stop."""
    hubs_of(place)  # what is wrong with the names is said before Spark is started
    lake = open_or_create_lake(place)
    with (
        _stop_when_asked() as stopped,
        spark_when_needed(place, progress) as spark,
        progress.stage("watching", "events") as stage,
    ):
        report = watch(
            spark,
            lake,
            lambda: hubs_of(place),
            stopped,
            every_seconds=every_seconds,
            tell=lambda so_far: stage.tell(so_far.events),
        )
        return _summary(lake, report)


def _summary(lake: Lake, report: IngestReport) -> dict[str, Any]:
    return {"lake": lake.root, **asdict(report)}


@contextmanager
def _stop_when_asked() -> Generator[threading.Event]:
    """An event that SIGINT and SIGTERM set; a second one ends the process at once."""
    stopped = threading.Event()

    def stop(number: int, _frame: object) -> None:
        signal.signal(number, before[number])
        stopped.set()

    before: dict[int, Any] = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
