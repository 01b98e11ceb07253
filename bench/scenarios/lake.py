"""The pipeline over long histories: ingest, build, fold, audit, enrichment, and the same fold in DuckDB and Python.

The history is made once and grows: first the smaller size, then the larger one. After the first build one percent of
new events is added, so that what an incremental run costs stands beside what a full one costs: both are ingest and
silver, since gold is counted whole each time. Memory is the largest sum of what processes of a run had in RAM at once:
of the driver, which is a Python and its JVM, and of these with all workers.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.figures import Sample, figure
from bench.load.long_history import LongHistory
from bench.load.process import Process
from bench.plan import Plan
from parley.sandbox import missing
from parley.sandbox.keeper import living_children

SAMPLE_SECONDS: Final = 0.2
_MIB: Final = 1024 * 1024


class Worker(Process):
    """A process that works on command, watched from outside."""

    def __init__(self, *arguments: str | Path) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "bench.load.lake_worker", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._popen.pid
        self.peak_bytes = 0
        self.driver_peak_bytes = 0
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._sample, daemon=True)
        self._watch.start()

    def answer(self) -> dict[str, Any]:
        """What it says next."""
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._popen.args} ended with code {self._popen.wait()}")
        return json.loads(line)

    def do(self, command: str) -> dict[str, Any]:
        """Has it do something; the seconds and the CPU time of all its processes."""
        assert self._popen.stdin is not None
        cpu = self._cpu_seconds()
        self._popen.stdin.write(f"{command}\n")
        self._popen.stdin.flush()
        answer = {**self.answer(), "cpu_seconds": round(self._cpu_seconds() - cpu, 2)}
        print(f"bench: {command}: {answer}", file=sys.stderr, flush=True)
        return answer

    def kill(self) -> None:
        self._popen.kill()

    def stop(self) -> int:
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.close()
        self._popen.stdout.read()
        self._popen.stdout.close()
        self._ended.set()
        self._watch.join()
        return self._popen.wait()

    def _cpu_seconds(self) -> float:
        """Of processes that live now; Spark keeps its Python workers."""
        return sum(_quietly(process.cpu_seconds) for process in (self, *self.descendants()))

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            everyone = [self, *self.descendants()]
            resident = {process.pid: int(_quietly(process.resident_bytes)) for process in everyone}
            self.peak_bytes = max(self.peak_bytes, sum(resident.values()))
            driver = sum(resident.get(pid, 0) for pid in (self.pid, *living_children(self.pid)))
            self.driver_peak_bytes = max(self.driver_peak_bytes, driver)


def _quietly(read: Any) -> float:
    try:
        return read()
    except OSError:
        return 0.0


def lake(folder: Path, plan: Plan) -> dict[str, Any]:
    """Both sizes, one after the other; the larger history goes on from the smaller one."""
    history = LongHistory(folder / "history", events_planned=plan.lake_large)
    figures: dict[str, Any] = {}
    for name, events in (("small", plan.lake_small), ("large", plan.lake_large)):
        history.extend(events - history.events)
        measured = _size(folder / name, history, enrich=name == "small" and not missing())
        figures |= {f"lake_{name}_{key}": value for key, value in measured.items()}
    history.close()
    for key in ("ingest", "build", "audit"):
        small, large = figures[f"lake_small_{key}"], figures[f"lake_large_{key}"]
        growth = (large["seconds"] / small["seconds"]) / (large["events"] / small["events"])
        large["seconds_per_event_ratio"] = round(growth, 3)
    return figures


def _size(folder: Path, history: LongHistory, *, enrich: bool) -> dict[str, Any]:
    folder.mkdir()
    events = history.events
    with _worker(history.workspace.root, folder / "lake") as worker:
        start = worker.answer()
        ingested = _per_event(worker.do("ingest"), events)
        built = _per_event(worker.do("build"), events)
        verdict = worker.do("audit")
        if verdict["damaged"]:
            raise RuntimeError("the audit found damage in a sound history")
        audited = _per_event(verdict, events)
        history.extend(events // 100)
        again = [worker.do("ingest"), worker.do("build")]
        folded = worker.do("fold")
        enriched = worker.do("enrich") if enrich else None
    added, added_cpu = (sum(each[key] for each in again) for key in ("seconds", "cpu_seconds"))
    full = ingested["seconds"] + built["seconds"]
    full_cpu = (ingested["cpu_us"] + built["cpu_us"]) * events / 1e6
    incremental: Sample = {
        "seconds": round(added, 3),
        "cpu_seconds": round(added_cpu, 3),
        "of_full_ratio": round(added / full, 3),
        "cpu_of_full_ratio": round(added_cpu / full_cpu, 3),
    }
    memory: Sample = {
        "driver_mib": round(worker.driver_peak_bytes / _MIB),
        "driver_and_workers_mib": round(worker.peak_bytes / _MIB),
    }
    extra: dict[str, Any] = {}
    if enriched is not None:
        if enriched["failed"]:
            raise RuntimeError(f"{enriched['failed']} messages could not be enriched")
        extra["enrich"] = figure("lake_enrich", [_per_event(enriched, enriched["messages"])])
    rivals = _rivals(folder, history, folded["checksum"])
    beside = {
        "seconds": folded["seconds"],
        "cpu_seconds": folded["cpu_seconds"],
        "beside_duckdb_ratio": folded["seconds"] / rivals["duckdb"]["seconds"],
        "cpu_beside_duckdb_ratio": folded["cpu_seconds"] / rivals["duckdb"]["cpu_seconds"],
    }
    return {
        "start": figure("lake_start", [{"seconds": start["seconds"]}]),
        "ingest": figure("lake_ingest", [ingested]),
        "build": figure("lake_build", [built]),
        "incremental": figure("lake_incremental", [incremental]),
        "fold": figure("lake_fold", [{key: round(value, 3) for key, value in beside.items()}]),
        "audit": figure("lake_audit", [audited]),
        "memory": figure("lake_memory", [memory]),
        **extra,
        **{f"fold_in_{name}": figure(f"fold_in_{name}", [sample]) for name, sample in rivals.items()},
    }


def _rivals(folder: Path, history: LongHistory, checksum: list[int]) -> dict[str, Sample]:
    """The same fold elsewhere: all three have to agree."""
    found: dict[str, Sample] = {}
    with _worker("--duckdb", folder / "lake", folder / "duckdb.parquet") as duckdb:
        answer = duckdb.answer()
    found["duckdb"] = _of_rival(answer, duckdb)
    with _worker("--python", history.workspace.root) as python:
        plain = python.answer()
    if not checksum == answer["checksum"] == plain["checksum"]:
        raise RuntimeError(f"folded to {checksum}, by DuckDB to {answer['checksum']}, by Python to {plain['checksum']}")
    found["python"] = _of_rival(plain, python)
    return found


def _of_rival(answer: dict[str, Any], worker: Worker) -> Sample:
    spent = {key: round(answer[key], 3) for key in ("seconds", "cpu_seconds")}
    return {**spent, "peak_mib": round(worker.peak_bytes / _MIB)}


@contextmanager
def _worker(*arguments: str | Path) -> Iterator[Worker]:
    worker = Worker(*arguments)
    try:
        yield worker
    except BaseException:
        worker.kill()
        raise
    finally:
        worker.stop()


def _per_event(sample: dict[str, Any], events: int) -> Sample:
    return {
        "seconds": round(sample["seconds"], 3),
        "events": events,
        "per_second": round(events / sample["seconds"]),
        "cpu_us": round(sample["cpu_seconds"] / events * 1e6, 2),
    }
