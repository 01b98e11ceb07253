"""What was measured, what was to be reached, and whether it was.

A figure is measured several times; its value is the median, with the smallest and the largest beside it, since the
machine is shared. CPU per operation is the value that other people's load disturbs least.
"""

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

Sample = dict[str, float]


class Target(NamedTuple):
    """A bound on one value of one figure."""

    figure: str
    value: str
    at_most: float | None = None
    at_least: float | None = None

    def judge(self, measured: float) -> dict[str, Any]:
        bound = {"at_most": self.at_most} if self.at_most is not None else {"at_least": self.at_least}
        low = self.at_least if self.at_least is not None else measured
        high = self.at_most if self.at_most is not None else measured
        return {**bound, "measured": measured, "reached": low <= measured <= high}


TARGETS = (
    Target("insert_1", "p50_ms", at_most=1.0),
    Target("insert_16", "per_second", at_least=6_000),
    Target("insert_16", "cpu_us", at_most=150),
    Target("insert_16_fts", "cpu_us", at_most=185),
    Target("tail_50", "cpu_us", at_most=200),
    Target("move_1000_later", "ms", at_most=40),
    Target("move_1000_all", "ms", at_most=40),
    Target("move_20000", "worst_health_ms", at_most=50),
    Target("move_20000", "worst_insert_ms", at_most=50),
    Target("replay", "seconds", at_most=1.0),
    Target("replay", "cpu_us", at_most=5),
    Target("fanout_90_saturated", "deliveries_per_second", at_least=60_000),
    Target("fanout_90_saturated", "cpu_us", at_most=10),
    Target("insert_1_plugins_hung", "p50_ms_ratio", at_most=1.2),
    Target("insert_16_plugins_hung", "cpu_us_ratio", at_most=1.25),
    Target("page_load_long", "cpu_ms_ratio", at_most=1.5),
    Target("page_scroll_last", "cpu_ms_ratio", at_most=1.5),
    Target("page_scroll_last", "nodes_ratio", at_most=1.1),
    Target("memory", "resident_mb", at_most=120),
    Target("mesh_closed_100", "p99_ms", at_most=500),
    Target("mesh_closed_100", "per_second", at_least=1_000),
    Target("mesh_postgresql_closed_100", "p99_ms", at_most=500),
    Target("bus_1k", "nats_ratio", at_least=1.0),
    Target("bus_1m", "nats_ratio", at_least=1.0),
    Target("bus_durable_1k", "bare_ratio", at_least=0.5),
    Target("bus_durable_1m", "bare_ratio", at_least=0.5),
    Target("bus_durable_1k_50", "sequential_ratio", at_least=3.0),
    Target("lake_start", "seconds", at_most=10),
    Target("lake_ingest", "per_second", at_least=500_000),
    Target("lake_incremental", "of_full_ratio", at_most=0.15),
    Target("lake_fold", "beside_duckdb_ratio", at_most=2.5),
    Target("lake_memory", "driver_mib", at_most=3_072),
)

AGENTLIP = {
    "source": "reference study of Agentlip 0.1.1-rc.1 on two shared cores; not measured in this run",
    "durability": "synchronous=NORMAL",
    "insert_1": {"p50_ms": 0.328, "p99_ms": 5.13, "per_second": 2124, "cpu_us": 325},
    "insert_16": {"p50_ms": 4.32, "p99_ms": 14.3, "per_second": 2918, "cpu_us": 274},
    "edit": {"p50_ms": 0.228, "p99_ms": 2.09, "cpu_us": 230},
    "tail_50": {"p50_ms": 0.236, "p99_ms": 0.81, "cpu_us": 210},
    "move_1000_later": {"ms": 50.4},
    "move_1000_all": {"ms": 39.7},
    "move_20000": {"ms": 1341, "worst_health_ms": 1320},
    "replay": {"seconds": 0.691, "connections_needed": 102, "cpu_us": 4.0, "events_on_one_connection": 1000},
    "fanout_1": {"deliveries_per_second": 2203},
    "fanout_20": {"deliveries_per_second": 29_752},
    "fanout_90": {"deliveries_per_second": 45_843, "cpu_us": 12.4},
    "memory": {"resident_mb": 75},
}


def latency_sample(latencies: Sequence[float]) -> Sample:
    """The median and the 99th percentile, in milliseconds."""
    ordered = sorted(latencies)
    return {
        "p50_ms": round(statistics.median(ordered) * 1e3, 3),
        "p99_ms": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1e3, 3),
    }


def ratios(sample: Sample, other: Sample, keys: Sequence[str]) -> Sample:
    """How the values stand to those of another sample of the same round: ``cpu_us`` gives ``cpu_us_ratio``."""
    return {f"{key}_ratio": round(sample[key] / other[key], 3) for key in keys}


def figure(name: str, samples: Sequence[Sample]) -> dict[str, Any]:
    """Medians of the samples with their spread, and how they stand to the targets."""
    medians = {key: round(statistics.median(sample[key] for sample in samples), 3) for key in samples[0]}
    spread = {
        key: [round(min(s[key] for s in samples), 3), round(max(s[key] for s in samples), 3)] for key in samples[0]
    }
    targets = {t.value: t.judge(medians[t.value]) for t in TARGETS if t.figure == name and t.value in medians}
    report: dict[str, Any] = {**medians, "repetitions": len(samples), "spread": spread}
    return {**report, "targets": targets} if targets else report


def verdict(figures: dict[str, Any]) -> dict[str, Any]:
    """Which targets of the figures that were measured are reached, and whether all are."""
    judged = {
        f"{name}.{value}": result["reached"]
        for name, entry in figures.items()
        for value, result in entry.get("targets", {}).items()
    }
    missed = sorted(name for name, reached in judged.items() if not reached)
    return {"judged": len(judged), "reached": not missed if judged else None, "missed": missed}
