"""Taking what is new of hubs and brokers into the lake, once or steadily."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from parley.app.pipeline.brokers import BrokersTaken, take_brokers
from parley.app.pipeline.opening import Place, brokers_of, hubs_of, open_or_create_lake, spark_when_needed
from parley.pipeline.ingest import IngestReport, ingest, watch
from parley.pipeline.lake import Lake
from parley.pipeline.progress import Progress, Silent


def run_ingest(place: Place, progress: Progress) -> dict[str, Any]:
    """Takes in all that the hubs and brokers hold now."""
    hubs, brokers, lake = hubs_of(place), brokers_of(place), open_or_create_lake(place)
    with spark_when_needed(place, progress) as spark, progress.stage("ingest", "events") as stage:
        report = ingest(spark, lake, hubs, progress=stage.tell)
    return _summary(lake, report, take_brokers(lake, brokers, progress))


def run_watch(place: Place, progress: Progress, every_seconds: float) -> dict[str, Any]:
    """Takes in what comes until the process is asked to stop."""
    hubs_of(place)  # what is wrong with the names is said before Spark is started
    brokers_of(place)
    lake = open_or_create_lake(place)
    taken = BrokersTaken()

    def told(so_far: IngestReport) -> None:
        taken.add(take_brokers(lake, brokers_of(place), Silent()))
        stage.tell(so_far.events + taken.messages)

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
            tell=told,
        )
        return _summary(lake, report, taken)


def _summary(lake: Lake, report: IngestReport, taken: BrokersTaken) -> dict[str, Any]:
    return {"lake": lake.root, **asdict(report), "brokers": asdict(taken)}


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
