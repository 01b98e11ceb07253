"""The metrics of a server: counted in plain Python, shown in Prometheus' text form and summed up once a minute.

Every metric is one of the catalogue in ``parley.core.metrics``; a name that is not in it is a ``KeyError``. A count
costs a dictionary entry; Prometheus' objects are made only when somebody looks. Any thread may count.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Final, Literal, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from parley.core.clock import Clock
from parley.core.metrics import METRICS, MetricSpec
from parley.serve.histogram import Histogram

Labels = tuple[str, ...]
Level = Literal["warn", "critical"]
Snapshot = dict[str, "float | dict[str, object]"]

_MINUTE_SECONDS: Final = 60
_QUANTILES: Final = (("p50", 0.50), ("p95", 0.95), ("p99", 0.99))


class Alert(NamedTuple):
    """A metric that has reached one of its levels."""

    metric: str
    level: Level
    value: float
    threshold: float


class Metrics:
    """Counts, and tells what it counted."""

    content_type: Final = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self, clock: Clock, specs: Iterable[MetricSpec] = METRICS) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._clock = clock
        self._lock = Lock()
        self._counters: dict[str, dict[Labels, float]] = {}
        self._gauges: dict[str, float] = {}  # holds only what was set: an unknown free space is not a full disk
        self._gauge_names = frozenset(spec.name for spec in self._specs.values() if spec.kind == "gauge")
        self._histograms: dict[str, dict[Labels, Histogram]] = {}
        for spec in self._specs.values():
            if spec.kind == "counter":
                self._counters[spec.name] = {} if spec.labels else {(): 0.0}
            elif spec.kind == "histogram":
                self._histograms[spec.name] = {} if spec.labels else {(): Histogram.for_metric(spec.name)}
        self._since = clock.monotonic()
        self._counters_before: dict[str, dict[Labels, float]] = {}
        self._histograms_before: dict[str, Histogram] = {}
        self.registry = CollectorRegistry()
        self.registry.register(_Collector(self))

    def inc(self, name: str, amount: float = 1, *labels: str) -> None:
        """Adds to a counter; ``labels`` are the values of its labels, in the catalogue's order."""
        series = self._counters[name]
        with self._lock:
            try:
                series[labels] += amount
            except KeyError:
                self._check_labels(name, labels)
                series[labels] = amount

    def set(self, name: str, value: float) -> None:
        """Sets a gauge."""
        if name not in self._gauge_names:
            raise KeyError(name)
        self._gauges[name] = value

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Adds an observation to a histogram."""
        series = self._histograms[name]
        with self._lock:
            try:
                histogram = series[labels]
            except KeyError:
                self._check_labels(name, labels)
                histogram = series[labels] = Histogram.for_metric(name)
            histogram.counts[bisect_left(histogram.bounds, value)] += 1
            histogram.total += value

    def render(self) -> bytes:
        """Everything, in Prometheus' text form."""
        return generate_latest(self.registry)

    def snapshot(self) -> Snapshot:
        """What the once-a-minute line says; it closes an interval, so one caller takes all snapshots.

        A gauge is its value, and absent until it is set. A counter has its ``total``, its growth ``per_minute`` since
        the last snapshot and, if it has labels, the growth of each series that grew. A histogram has ``count`` and
        ``per_minute``, and the quantiles of what was observed since the last snapshot (``None`` if nothing was).
        """
        now = self._clock.monotonic()
        # Whole minutes: a timer that fires a little late must not turn one failure a minute into 0.99.
        minutes = max(1, round((now - self._since) / _MINUTE_SECONDS))
        with self._lock:
            counters = {name: dict(series) for name, series in self._counters.items()}
            histograms = {name: Histogram.merged(name, series.values()) for name, series in self._histograms.items()}
            gauges = dict(self._gauges)
        entries: Snapshot = {}
        for spec in self._specs.values():
            if spec.name in gauges:
                entries[spec.name] = gauges[spec.name]
            elif spec.kind == "counter":
                before = self._counters_before.get(spec.name, {})
                entries[spec.name] = _counter_entry(counters[spec.name], before, minutes)
            elif spec.kind == "histogram":
                merged = histograms[spec.name]
                before = self._histograms_before.get(spec.name)
                entries[spec.name] = _histogram_entry(merged, before, minutes)
        self._since, self._counters_before, self._histograms_before = now, counters, histograms
        return entries

    def levels(self, snapshot: Snapshot) -> list[Alert]:
        """The metrics of a snapshot that have reached a level of the catalogue; for a counter its growth counts."""
        alerts = (_alert(self._specs[name], entry) for name, entry in snapshot.items())
        return [alert for alert in alerts if alert is not None]

    def families(self) -> Iterator[Metric]:
        """The metrics as Prometheus' library wants them."""
        for spec in self._specs.values():
            if spec.kind == "gauge":
                yield GaugeMetricFamily(spec.name, spec.meaning, value=self._gauges.get(spec.name))
            elif spec.kind == "counter":
                yield self._counter_family(spec)
            else:
                yield self._histogram_family(spec)

    def _counter_family(self, spec: MetricSpec) -> Metric:
        family = CounterMetricFamily(spec.name, spec.meaning, labels=spec.labels)
        with self._lock:
            for labels, value in self._counters[spec.name].items():
                family.add_metric(labels, value)
        return family

    def _histogram_family(self, spec: MetricSpec) -> Metric:
        family = HistogramMetricFamily(spec.name, spec.meaning, labels=spec.labels)
        with self._lock:
            for labels, histogram in self._histograms[spec.name].items():
                family.add_metric(labels, buckets=histogram.cumulative(), sum_value=histogram.total)
        return family

    def _check_labels(self, name: str, labels: Labels) -> None:
        wanted = self._specs[name].labels
        if len(labels) != len(wanted):
            raise ValueError(f"{name} has the labels {wanted}, not {len(labels)} of them")


class _Collector(Collector):
    """What the registry asks at each scrape."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return self._metrics.families()


def _counter_entry(now: dict[Labels, float], before: dict[Labels, float], minutes: int) -> dict[str, object]:
    growth = {labels: value - before.get(labels, 0.0) for labels, value in now.items()}
    entry: dict[str, object] = {"total": sum(now.values()), "per_minute": sum(growth.values()) / minutes}
    by_labels = {" ".join(labels): value / minutes for labels, value in growth.items() if labels and value}
    if by_labels:
        entry["by_labels"] = by_labels
    return entry


def _histogram_entry(now: Histogram, before: Histogram | None, minutes: int) -> dict[str, object]:
    recent = now if before is None else now.minus(before)
    entry: dict[str, object] = {"count": now.count, "per_minute": recent.count / minutes}
    entry.update((label, recent.quantile(share)) for label, share in _QUANTILES)
    return entry


def _alert(spec: MetricSpec, entry: "float | dict[str, object]") -> Alert | None:
    value = entry.get("per_minute") if isinstance(entry, dict) else entry
    if not isinstance(value, int | float) or spec.kind == "histogram":
        return None
    levels: tuple[tuple[Level, float | None], ...] = (("critical", spec.critical), ("warn", spec.warn))
    for level, threshold in levels:
        if threshold is not None and (value <= threshold if spec.low_is_bad else value >= threshold):
            return Alert(spec.name, level, value, threshold)
    return None
