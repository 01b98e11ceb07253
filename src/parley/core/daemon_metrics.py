"""The catalogue of a daemon's metrics, as for a hub."""

from parley.core.metrics import MIB, MetricSpec, request_metrics

DAEMON_METRICS: tuple[MetricSpec, ...] = (
    MetricSpec("parley_daemon_meshes", "gauge", "meshes that the daemon serves"),
    MetricSpec("parley_daemon_connected", "gauge", "meshes whose broker is connected"),
    MetricSpec("parley_daemon_outbox_pending", "gauge", "messages that wait to be sent", warn=1_000, critical=50_000),
    MetricSpec("parley_daemon_outbox_inflight", "gauge", "messages that were sent and not answered yet"),
    MetricSpec("parley_daemon_outbox_dead", "gauge", "messages that could not be sent", warn=1),
    MetricSpec("parley_daemon_outbox_age_seconds", "gauge", "age of the oldest message that waits", warn=3_600),
    MetricSpec("parley_daemon_outbox_share", "gauge", "how full the outbox is, from 0 to 1", warn=0.8, critical=0.95),
    MetricSpec("parley_daemon_inbox_share", "gauge", "how full the inbox is, from 0 to 1", warn=0.8, critical=1.0),
    MetricSpec("parley_daemon_inbox_unseen", "gauge", "messages that nobody has seen"),
    MetricSpec("parley_daemon_inbox_undecryptable", "gauge", "messages that no key opens", warn=1),
    MetricSpec(
        "parley_daemon_disk_free_bytes",
        "gauge",
        "free space on the disk of the daemon's folder",
        (),
        1024 * MIB,
        500 * MIB,
        low_is_bad=True,
    ),
    MetricSpec("parley_daemon_disk_free_ratio", "gauge", "free share of that disk", (), 0.10, 0.05, low_is_bad=True),
    MetricSpec("parley_daemon_streams", "gauge", "streams of events open now"),
    MetricSpec("parley_daemon_uptime_seconds", "gauge", "time since the daemon started"),
    MetricSpec(
        "parley_daemon_lag_ms", "gauge", "time that the slowest connected broker took to answer a ping", warn=5_000
    ),
    MetricSpec(
        "parley_daemon_reconnects_total",
        "counter",
        "connections made again, by the close code that ended the one before",
        ("mesh", "reason"),
        warn=10,
    ),
    MetricSpec(
        "parley_daemon_dedupe_total",
        "counter",
        "messages that were recognised: `out` by the broker as sent before, `in` here as received before",
        ("mesh", "direction"),
    ),
    MetricSpec(
        "parley_daemon_dedupe_history_pruned_total",
        "counter",
        "messages that the broker recognised and no longer has",
        ("mesh",),
        warn=1,
    ),
    MetricSpec(
        "parley_daemon_decrypt_failures_total", "counter", "messages that no key opened on arrival", ("mesh",), warn=10
    ),
    MetricSpec(
        "parley_daemon_invalid_inbound_total",
        "counter",
        "frames of a broker that were not understood",
        ("mesh",),
        warn=1,
    ),
    MetricSpec("parley_daemon_events_total", "counter", "events in the daemon's log, by kind", ("kind",)),
    MetricSpec(
        "parley_daemon_hook_runs_total", "counter", "runs of hooks, by what became of them", ("hook", "outcome")
    ),
    *request_metrics("parley_daemon"),
)
