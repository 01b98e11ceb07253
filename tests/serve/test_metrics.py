"""Metrics: every one of the catalogue, in Prometheus' form, per minute in the log, and with its levels."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from parley.core.clock import ManualClock
from parley.core.metrics import METRICS, MetricSpec
from parley.serve import Alert, Metrics
from parley.serve.histogram import SECONDS, Histogram


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def metrics(clock: ManualClock) -> Metrics:
    return Metrics(clock)


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_every_metric_of_the_catalogue_is_shown_with_its_meaning_and_kind(metrics: Metrics) -> None:
    families = {family.name: family for family in text_string_to_metric_families(metrics.render().decode())}
    for spec in METRICS:
        family = families[spec.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (spec.kind, spec.meaning)


def test_the_content_type_is_that_of_the_text_form(metrics: Metrics) -> None:
    assert metrics.content_type == "text/plain; version=0.0.4; charset=utf-8"


def test_a_counter_adds_up_by_its_labels(metrics: Metrics) -> None:
    metrics.inc("parley_ws_deliveries_total")
    metrics.inc("parley_ws_deliveries_total", 41)
    metrics.inc("parley_requests_total", 1, "GET /health", "200")
    metrics.inc("parley_requests_total", 2, "GET /health", "200")
    metrics.inc("parley_requests_total", 1, "GET /health", "503")
    shown = samples(metrics)
    assert shown["parley_ws_deliveries_total", ()] == 42
    assert shown["parley_requests_total", (("endpoint", "GET /health"), ("status", "200"))] == 3
    assert shown["parley_requests_total", (("endpoint", "GET /health"), ("status", "503"))] == 1


def test_a_gauge_is_its_last_value_and_is_not_shown_before_it_is_set(metrics: Metrics) -> None:
    assert ("parley_disk_free_bytes", ()) not in samples(metrics)
    assert "parley_disk_free_bytes" not in metrics.snapshot()
    metrics.set("parley_disk_free_bytes", 5)
    metrics.set("parley_disk_free_bytes", 7)
    assert samples(metrics)["parley_disk_free_bytes", ()] == 7
    assert metrics.snapshot()["parley_disk_free_bytes"] == 7


def test_a_histogram_counts_by_bucket(metrics: Metrics) -> None:
    for value in (0.0001, 0.003, 0.003, 60.0):
        metrics.observe("parley_request_seconds", value, "POST /api/v1/messages")
    metrics.observe("parley_write_batch_size", 3)
    shown = samples(metrics)
    endpoint = ("endpoint", "POST /api/v1/messages")
    assert shown["parley_request_seconds_bucket", (endpoint, ("le", "0.0001"))] == 1
    assert shown["parley_request_seconds_bucket", (endpoint, ("le", "0.0025"))] == 1
    assert shown["parley_request_seconds_bucket", (endpoint, ("le", "0.005"))] == 3
    assert shown["parley_request_seconds_bucket", (endpoint, ("le", "+Inf"))] == 4
    assert shown["parley_request_seconds_count", (endpoint,)] == 4
    assert shown["parley_request_seconds_sum", (endpoint,)] == pytest.approx(60.0061)
    assert shown["parley_write_batch_size_bucket", (("le", "2.0"),)] == 0
    assert shown["parley_write_batch_size_bucket", (("le", "4.0"),)] == 1


def test_a_name_that_is_not_in_the_catalogue_or_of_another_kind_is_a_key_error(metrics: Metrics) -> None:
    for name in ("parley_nonsense", "parley_event_id", "parley_request_seconds"):
        with pytest.raises(KeyError):
            metrics.inc(name)
    for name in ("parley_nonsense", "parley_auth_failures_total"):
        with pytest.raises(KeyError):
            metrics.set(name, 1)
        with pytest.raises(KeyError):
            metrics.observe(name, 1)


def test_the_wrong_number_of_labels_is_a_mistake(metrics: Metrics) -> None:
    with pytest.raises(ValueError, match="parley_requests_total has the labels"):
        metrics.inc("parley_requests_total", 1, "GET /health")
    with pytest.raises(ValueError, match="parley_commit_seconds"):
        metrics.observe("parley_commit_seconds", 1.0, "extra")
    assert ("parley_requests_total", ()) not in samples(metrics)


def test_no_count_of_two_threads_is_lost(metrics: Metrics) -> None:
    def count() -> None:
        for _ in range(20_000):
            metrics.inc("parley_ws_deliveries_total")
            metrics.observe("parley_commit_seconds", 0.001)

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shown = samples(metrics)
    assert shown["parley_ws_deliveries_total", ()] == 40_000
    assert shown["parley_commit_seconds_count", ()] == 40_000


def test_a_snapshot_tells_totals_and_the_growth_per_minute_since_the_last(metrics: Metrics, clock: ManualClock) -> None:
    metrics.inc("parley_requests_total", 6, "GET /health", "200")
    clock.advance(60)
    assert metrics.snapshot()["parley_requests_total"] == {
        "total": 6,
        "per_minute": 6,
        "by_labels": {"GET /health 200": 6},
    }
    metrics.inc("parley_requests_total", 4, "POST /x", "201")
    clock.advance(120)
    assert metrics.snapshot()["parley_requests_total"] == {
        "total": 10,
        "per_minute": 2,
        "by_labels": {"POST /x 201": 2},
    }
    clock.advance(60)
    assert metrics.snapshot()["parley_requests_total"] == {"total": 10, "per_minute": 0}


@pytest.mark.parametrize("seconds", [1.0, 59.98, 60.02, 89.0])
def test_a_timer_that_is_early_or_late_does_not_blur_one_failure_a_minute(
    metrics: Metrics, clock: ManualClock, seconds: float
) -> None:
    metrics.inc("parley_checkpoint_failures_total")
    clock.advance(seconds)
    assert metrics.levels(metrics.snapshot()) == [Alert("parley_checkpoint_failures_total", "warn", 1, 1)]


def test_a_snapshot_has_the_quantiles_of_its_own_interval(metrics: Metrics, clock: ManualClock) -> None:
    for _ in range(100):
        metrics.observe("parley_request_seconds", 0.004, "a")
    clock.advance(60)
    entry = metrics.snapshot()["parley_request_seconds"]
    assert isinstance(entry, dict)
    assert (entry["count"], entry["per_minute"]) == (100, 100)
    for _ in range(90):
        metrics.observe("parley_request_seconds", 0.0009, "a")
    for _ in range(10):
        metrics.observe("parley_request_seconds", 7.0, "b")
    clock.advance(60)
    entry = metrics.snapshot()["parley_request_seconds"]
    assert isinstance(entry, dict)
    assert (entry["count"], entry["per_minute"]) == (200, 100)
    assert entry["p50"] == pytest.approx(0.0005 + 0.0005 * 50 / 90)
    assert entry["p95"] == pytest.approx(7.5)
    assert entry["p99"] == pytest.approx(9.5)
    entry = metrics.snapshot()["parley_request_seconds"]
    assert isinstance(entry, dict)
    assert (entry["p50"], entry["p95"], entry["p99"]) == (None, None, None)


def test_gauges_that_reach_their_levels_alert(metrics: Metrics) -> None:
    mib = 1024 * 1024
    metrics.set("parley_wal_bytes", 100 * mib - 1)
    metrics.set("parley_disk_free_bytes", 1024 * mib + 1)
    metrics.set("parley_disk_free_ratio", 0.5)
    metrics.set("parley_ws_connections", 10**9)
    assert metrics.levels(metrics.snapshot()) == []
    metrics.set("parley_wal_bytes", 100 * mib)
    metrics.set("parley_disk_free_bytes", 700 * mib)
    metrics.set("parley_disk_free_ratio", 0.05)
    assert metrics.levels(metrics.snapshot()) == [
        Alert("parley_wal_bytes", "warn", 100 * mib, 100 * mib),
        Alert("parley_disk_free_bytes", "warn", 700 * mib, 1024 * mib),
        Alert("parley_disk_free_ratio", "critical", 0.05, 0.05),
    ]


def test_counters_alert_by_their_growth_and_not_by_their_total(metrics: Metrics, clock: ManualClock) -> None:
    metrics.inc("parley_unavailable_total", 30, "busy")
    metrics.inc("parley_unavailable_total", 30, "full")
    metrics.inc("parley_rate_limited_total", 100)
    clock.advance(60)
    assert metrics.levels(metrics.snapshot()) == [
        Alert("parley_unavailable_total", "critical", 60, 50),
        Alert("parley_rate_limited_total", "warn", 100, 100),
    ]
    clock.advance(60)
    assert metrics.levels(metrics.snapshot()) == []


def test_a_histogram_has_no_level() -> None:
    metrics = Metrics(ManualClock(), [MetricSpec("x_seconds", "histogram", "time", warn=0.0)])
    metrics.observe("x_seconds", 1.0)
    assert metrics.levels(metrics.snapshot()) == []


@given(st.lists(st.floats(0.0, 10.0), min_size=1), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_quantile_lies_in_the_bucket_of_the_exact_one(values: list[float], share: float) -> None:
    histogram = Histogram(SECONDS)
    for value in values:
        histogram.counts[sum(value > bound for bound in SECONDS)] += 1
    found = histogram.quantile(share)
    assert found is not None
    rank = next(rank for rank in range(1, len(values) + 1) if rank >= share * len(values))
    exact = sorted(values)[rank - 1]
    low = max((bound for bound in (0.0, *SECONDS) if bound < exact), default=0.0)
    high = min(bound for bound in SECONDS if bound >= exact)
    assert low - 1e-12 <= found <= high + 1e-12


@pytest.mark.parametrize(
    ("sizes", "expected"), [([1], (1, 1)), ([1] * 90 + [2] * 10, (1, 2)), ([3, 3, 3, 3], (3, 4)), ([5, 1, 1], (1, 8))]
)
def test_a_quantile_of_things_that_are_counted_is_whole_and_never_less_than_one(
    metrics: Metrics, sizes: list[int], expected: tuple[int, int]
) -> None:
    for size in sizes:
        metrics.observe("parley_write_batch_size", size)
    entry = metrics.snapshot()["parley_write_batch_size"]
    assert isinstance(entry, dict)
    assert (entry["p50"], entry["p95"]) == expected


def test_a_quantile_beyond_the_largest_bound_is_that_bound() -> None:
    histogram = Histogram(SECONDS)
    histogram.counts[-1] = 3
    assert histogram.quantile(0.5) == SECONDS[-1]


def test_histograms_of_one_metric_add_up_and_subtract() -> None:
    first, second = Histogram(SECONDS), Histogram(SECONDS)
    first.counts[0], first.total = 2, 1.0
    second.counts[3], second.total = 5, 2.5
    merged = Histogram.merged("x_seconds", [first, second])
    assert (merged.count, merged.total) == (7, 3.5)
    assert (merged.minus(first).counts, merged.minus(first).total) == (second.counts, 2.5)
