"""The catalogue of metrics: name, kind, labels, meaning, and the levels at which a person should look or act."""

from typing import Literal, NamedTuple


class MetricSpec(NamedTuple):
    """One metric. ``warn`` and ``critical`` are levels of the value, or of its growth per minute for a counter."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()
    warn: float | None = None
    critical: float | None = None
    low_is_bad: bool = False


MIB = 1024 * 1024


def request_metrics(prefix: str) -> tuple[MetricSpec, ...]:
    """What every server counts of its requests."""
    return (
        MetricSpec(f"{prefix}_requests_total", "counter", "HTTP requests answered", ("endpoint", "status")),
        MetricSpec(f"{prefix}_request_seconds", "histogram", "time to answer an HTTP request", ("endpoint",)),
        MetricSpec(
            f"{prefix}_unavailable_total", "counter", "requests refused with 503", ("reason",), warn=10, critical=50
        ),
        MetricSpec(f"{prefix}_auth_failures_total", "counter", "requests refused with 401", warn=10),
        MetricSpec(f"{prefix}_rate_limited_total", "counter", "requests refused with 429", warn=100),
    )


METRICS: tuple[MetricSpec, ...] = (
    MetricSpec("parley_events_total", "counter", "events appended to the log", ("name",)),
    MetricSpec("parley_event_id", "gauge", "newest event id"),
    *request_metrics("parley"),
    MetricSpec("parley_write_batch_size", "histogram", "writes that shared one commit"),
    MetricSpec("parley_commit_seconds", "histogram", "time of one commit, the sync to disk included"),
    MetricSpec("parley_writes_waiting", "gauge", "writes in the queue", warn=1_000, critical=8_000),
    MetricSpec("parley_ws_connections", "gauge", "feeds open now"),
    MetricSpec("parley_ws_connections_peak", "gauge", "most feeds open at once since the start"),
    MetricSpec("parley_ws_deliveries_total", "counter", "events sent to feeds"),
    MetricSpec("parley_ws_backlog_events", "gauge", "events the slowest feed has not been sent yet", warn=10_000),
    MetricSpec("parley_ws_closed_total", "counter", "feeds closed, by close code", ("code",)),
    MetricSpec(
        "parley_spool_requests_total", "counter", "requests that came as files, by what became of them", ("outcome",)
    ),
    MetricSpec("parley_db_bytes", "gauge", "size of the database file"),
    MetricSpec("parley_wal_bytes", "gauge", "size of the write-ahead log", warn=100 * MIB, critical=500 * MIB),
    MetricSpec(
        "parley_disk_free_bytes",
        "gauge",
        "free space on the database's disk",
        (),
        1024 * MIB,
        500 * MIB,
        low_is_bad=True,
    ),
    MetricSpec("parley_disk_free_ratio", "gauge", "free share of the database's disk", (), 0.10, 0.05, low_is_bad=True),
    MetricSpec(
        "parley_checkpoint_age_seconds", "gauge", "how long commits have been waiting for a checkpoint", warn=600
    ),
    MetricSpec("parley_checkpoint_failures_total", "counter", "checkpoints that failed", warn=1),
    MetricSpec("parley_jobs_waiting", "gauge", "messages that wait for a plugin", warn=10_000),
    MetricSpec("parley_jobs_failed", "gauge", "messages that a plugin was tried on for the last time", warn=100),
    MetricSpec("parley_jobs_oldest_seconds", "gauge", "how long the oldest waiting job has been waiting", warn=600),
    MetricSpec("parley_plugin_runs_total", "counter", "runs of plugins, by what became of them", ("plugin", "outcome")),
    MetricSpec("parley_plugin_failures_total", "counter", "runs that failed", ("plugin", "reason"), warn=10),
    MetricSpec("parley_plugin_run_seconds", "histogram", "time of one run of a plugin", ("plugin",)),
    MetricSpec("parley_agents_active", "gauge", "agents that are here"),
    MetricSpec("parley_tasks_open", "gauge", "tasks that nobody holds"),
    MetricSpec("parley_tasks_claimed", "gauge", "tasks that somebody holds"),
    MetricSpec("parley_leases_active", "gauge", "leases of paths that have not ended"),
    MetricSpec("parley_uptime_seconds", "gauge", "time since the hub started"),
    MetricSpec("parley_resident_bytes", "gauge", "resident memory of the hub"),
)

BROKER_METRICS: tuple[MetricSpec, ...] = (
    MetricSpec("parley_broker_connections", "gauge", "daemons connected to this broker now"),
    MetricSpec("parley_broker_connections_total", "counter", "connections that were opened"),
    MetricSpec("parley_broker_closed_total", "counter", "connections that the broker closed, by close code", ("code",)),
    MetricSpec("parley_broker_accepted_total", "counter", "messages answered: 201, or 200 for a retry", ("status",)),
    MetricSpec("parley_broker_refused_total", "counter", "messages that were refused", ("code",), warn=1_000),
    MetricSpec("parley_broker_pushed_total", "counter", "deliveries sent to daemons, repeated ones included"),
    MetricSpec("parley_broker_acknowledged_total", "counter", "deliveries that daemons said they have"),
    MetricSpec("parley_broker_deliveries_waiting", "gauge", "deliveries that are queued or leased", warn=1_000_000),
    MetricSpec("parley_broker_swept_total", "counter", "messages removed because of their age"),
    MetricSpec(
        "parley_broker_disk_free_bytes",
        "gauge",
        "free space on the disk of the broker's file, or of its folder where it has a database",
        (),
        1024 * MIB,
        500 * MIB,
        low_is_bad=True,
    ),
    MetricSpec("parley_broker_disk_free_ratio", "gauge", "free share of that disk", (), 0.10, 0.05, low_is_bad=True),
    MetricSpec("parley_broker_checks_total", "counter", "looks at all that the store holds, by outcome", ("outcome",)),
    MetricSpec("parley_broker_orphans", "gauge", "rows that did not fit at the last look", warn=1),
    MetricSpec("parley_broker_audits_broken", "gauge", "audit chains that did not hold at the last look", warn=1),
    MetricSpec("parley_broker_rosters_broken", "gauge", "rosters that did not hold at the last look", warn=1),
    *request_metrics("parley_broker"),
)
"""What a broker counts; its own ``/metrics`` shows these."""


def metric(name: str) -> MetricSpec:
    """The catalogue's entry. Raises ``KeyError`` for a name that is not in it."""
    return _BY_NAME[name]


_BY_NAME = {spec.name: spec for spec in (*METRICS, *BROKER_METRICS)}
