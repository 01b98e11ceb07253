"""The pipeline over long histories: ingest, build, audit, fold and enrichment, and the same fold in DuckDB and Python.

Each size has a history of its own, which is made once and copied if the run adds to it; ``--lake-keep`` names a folder
where the made ones stay for the next run. After the first build one percent of new events is added, so that what an
incremental run costs stands beside what a full one costs: both are ingest and silver, and the same with gold. What is
quick and disturbed easily, ingest and fold, is done several times, the first time by processes that have yet to load
what they need; the spread shows it.
"""

import shutil
import sys
from pathlib import Path
from typing import Any, Final

from bench.figures import Sample, figure
from bench.load.lake_process import LakeProcess, lake_process
from bench.load.long_history import LongHistory
from bench.plan import Plan
from parley.sandbox import missing

GROWING: Final = ("ingest", "build", "gold", "audit", "fold")
"""Figures that stand beside those of the other size."""


def lake(folder: Path, plan: Plan) -> dict[str, Any]:
    """The chosen parts, for the chosen sizes."""
    figures: dict[str, Any] = {}
    sizes = {"small": plan.lake_small, "large": plan.lake_large}
    for name in plan.lake_sizes:
        history = history_of(folder, sizes[name], plan)
        measured = _Size(folder / name, history, plan, enriched=name == plan.lake_sizes[0]).measured()
        history.close()
        shutil.rmtree(folder / name)
        figures |= {f"lake_{name}_{key}": value for key, value in measured.items()}
    if len(plan.lake_sizes) > 1:
        for key in GROWING:
            small, large = figures.get(f"lake_small_{key}"), figures.get(f"lake_large_{key}")
            if small and large:
                figures[f"lake_growth_{key}"] = figure("lake_growth", [growth(small, large)])
    return figures


def history_of(folder: Path, events: int, plan: Plan) -> LongHistory:
    """The history of so many events, which is made if it is not there yet; a copy of it, if it is to go on."""
    kept = (plan.lake_keep or folder / "kept") / str(events)
    if not kept.exists():
        print(f"bench: making a history of {events:,} events", file=sys.stderr, flush=True)
        growing = kept.with_name(f"{kept.name}.growing")
        shutil.rmtree(growing, ignore_errors=True)
        made = LongHistory(growing, events_planned=plan.lake_large)
        made.extend(events - made.events)
        made.close()
        growing.rename(kept)
    if "incremental" in plan.lake_parts:
        kept = Path(shutil.copytree(kept, folder / f"history-{events}"))
    return LongHistory(kept, events_planned=plan.lake_large)


def growth(small: dict[str, Any], large: dict[str, Any]) -> Sample:
    """A straight line through both sizes: what the work costs before the first event, and what a million more cost."""
    events, more = small["events"], large["events"] - small["events"]
    slope = (large["seconds"] - small["seconds"]) / more
    return {
        "fixed_seconds": round(small["seconds"] - slope * events, 3),
        "seconds_per_million": round(slope * 1e6, 3),
        "seconds_per_event_ratio": round((large["seconds"] / large["events"]) / (small["seconds"] / events), 3),
    }


class _Size:
    """The work on one history. Each part leaves behind what the later ones need."""

    def __init__(self, folder: Path, history: LongHistory, plan: Plan, *, enriched: bool) -> None:
        folder.mkdir(parents=True)
        self._folder, self._history, self._plan = folder, history, plan
        self._parts = set(plan.lake_parts) - ({"enrich"} if missing() or not enriched else set())
        self._lake = folder / "lake"

    def measured(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        with lake_process(self._history.workspace.root) as process:
            found["start"] = figure("lake_start", [{"seconds": process.answer()["seconds"]}])
            found |= self._ingest(process)
            if {"build", "gold", "incremental", "enrich"} & self._parts:
                found |= self._build(process)
            if "audit" in self._parts:
                found |= self._audit(process)
            if "enrich" in self._parts:
                found |= self._enrich(process)
            if "fold" in self._parts:
                found |= self._fold(process)
        memory: Sample = {"driver_mib": process.driver_peak_mib, "driver_and_workers_mib": process.peak_mib}
        return {**found, "memory": figure("lake_memory", [memory])}

    def _ingest(self, process: LakeProcess) -> dict[str, Any]:
        events = self._history.events
        lakes = [self._lake, *(self._folder / f"lake-{number}" for number in range(1, self._plan.repeat))]
        done = [process.do("ingest", lake) for lake in lakes]
        self._ingested = sorted(done, key=lambda each: each["seconds"])[len(done) // 2]
        for again in lakes[1:]:
            shutil.rmtree(again)
        return {"ingest": figure("lake_ingest", [_per_event(each, events) for each in done])}

    def _build(self, process: LakeProcess) -> dict[str, Any]:
        """All of silver; then, if asked for, gold, and both again after one percent of new events."""
        events, found = self._history.events, dict[str, Any]()
        full = {"build": process.do("build", self._lake)}
        if "gold" in self._parts:
            full["gold"] = process.do("gold", self._lake)
        found |= {name: figure(f"lake_{name}", [_per_event(each, events)]) for name, each in full.items()}
        if "incremental" in self._parts:
            self._history.extend(events // 100)
            again = {name: process.do(name, self._lake) for name in ("ingest", *full)}
            full["ingest"] = self._ingested
            found["incremental"] = figure("lake_incremental", [beside(full, again)])
        return found

    def _audit(self, process: LakeProcess) -> dict[str, Any]:
        verdict = process.do("audit", self._lake)
        if verdict["damaged"]:
            raise RuntimeError("the audit found damage in a sound history")
        return {"audit": figure("lake_audit", [_per_event(verdict, self._history.events)])}

    def _enrich(self, process: LakeProcess) -> dict[str, Any]:
        enriched = process.do("enrich", self._lake)
        if enriched["failed"]:
            raise RuntimeError(f"{enriched['failed']} messages could not be enriched")
        return {"enrich": figure("lake_enrich", [_per_event(enriched, enriched["messages"])])}

    def _fold(self, process: LakeProcess) -> dict[str, Any]:
        """Spark and DuckDB in turns, then Python once; all have to agree."""
        samples: dict[str, list[Sample]] = {"fold": [], "fold_in_duckdb": [], "fold_in_python": []}
        for _ in range(self._plan.repeat):
            folded = process.do("fold", self._lake)
            duckdb = self._rival("--duckdb", self._lake, self._folder / "duckdb.parquet", checksum=folded["checksum"])
            samples["fold_in_duckdb"].append(duckdb)
            samples["fold"].append(
                {
                    **_per_event(folded, self._history.events),
                    "beside_duckdb_ratio": round(folded["seconds"] / duckdb["seconds"], 3),
                    "cpu_beside_duckdb_ratio": round(folded["cpu_seconds"] / duckdb["cpu_seconds"], 3),
                }
            )
        python = self._rival("--python", self._history.workspace.root, checksum=folded["checksum"])
        samples["fold_in_python"].append(python)
        return {name: figure(f"lake_{name}", each) for name, each in samples.items()}

    def _rival(self, *arguments: str | Path, checksum: list[int]) -> Sample:
        with lake_process(*arguments) as rival:
            answer = rival.answer()
        if answer["checksum"] != checksum:
            raise RuntimeError(f"folded to {checksum}, by {arguments[0]} to {answer['checksum']}")
        print(f"bench: {arguments[0]}: {answer}", file=sys.stderr, flush=True)
        return {**{key: round(answer[key], 3) for key in ("seconds", "cpu_seconds")}, "peak_mib": rival.peak_mib}


def beside(full: dict[str, Any], again: dict[str, Any]) -> Sample:
    """What the run after few new events cost beside the full one, without gold and, if it was counted, with it."""
    sample: Sample = {}
    for suffix, names in (("", ("ingest", "build")), ("_with_gold", ("ingest", "build", "gold"))):
        if not full.keys() >= set(names):
            continue
        for key, ratio in (("seconds", "of_full_ratio"), ("cpu_seconds", "cpu_of_full_ratio")):
            spent = sum(again[name][key] for name in names)
            sample[f"{key}{suffix}"] = round(spent, 3)
            sample[f"{ratio}{suffix}"] = round(spent / sum(full[name][key] for name in names), 3)
    return sample


def _per_event(sample: dict[str, Any], events: int) -> Sample:
    return {
        "seconds": round(sample["seconds"], 3),
        "events": events,
        "per_second": round(events / sample["seconds"]),
        "cpu_us": round(sample["cpu_seconds"] / events * 1e6, 2),
    }
