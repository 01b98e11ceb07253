"""Watching over a running hub: sizes and free space every second, keys to forget and the metrics line once a minute.

Trouble closes the writer's gate: while the log is too large or the disk nearly full, writes are refused with a code
that says so, and reads go on. The gate opens again by itself when the trouble is over.
"""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from parley.core.clock import iso
from parley.core.errors import ParleyError, ServiceUnavailable
from parley.hub.rules.idempotency import forget_before
from parley.serve import Snapshot, look_at_disk
from parley.sqlite import wal_bytes
from parley.sqlite.checkpoint import OVER_LIMIT_SECONDS
from parley.workspace.queries.coordination import count_coordination

if TYPE_CHECKING:
    from parley.hub.hub import Hub

LOOK_SECONDS: Final = 1.0
MINUTE_SECONDS: Final = 60.0
FORGET_BATCH: Final = 500
"""Keys dropped in one write, so that forgetting never holds up a caller for long."""
DAY_MS: Final = 86_400_000
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class Monitor:
    """One task per hub."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self.problems: list[str] = []
        self.last_minute: Snapshot = {}
        self.db_bytes = self.wal_bytes = self.disk_free_bytes = 0
        self._disk_bytes = 1
        self._checkpoint_failures = 0

    async def run(self) -> None:
        """Looks every second until it is cancelled."""
        clock = self._hub.clock
        minute = clock.monotonic() + MINUTE_SECONDS
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()
            if clock.monotonic() >= minute:
                minute += MINUTE_SECONDS
                await self.each_minute()

    def look(self) -> None:
        """Measures, and opens or closes the writer's gate."""
        self._measure_files()
        refusal = self._refusal()
        hub = self._hub
        if hub.failure is None:
            hub.store.writer.refuse_with = refusal
        problems = [str(refusal)] if refusal is not None else []
        failures = hub.checkpointer.failures_in_a_row
        if failures:
            problems.append(f"the last {failures} checkpoints failed")
        if problems != self.problems:
            hub.log.warning("trouble" if problems else "trouble_over", problems=problems)
        self.problems = problems
        hub.reload_token()
        hub.derived.look_for_trust()
        hub.stop_if_idle()

    async def each_minute(self) -> None:
        """Writes the metrics line with its alerts, forgets old idempotency keys and goes on with interrupted moves."""
        hub = self._hub
        try:
            self.measure()
        except ParleyError as error:  # the database cannot be read, which the writer finds out, and says
            hub.log.warning("not_measured", code=error.code)
            return
        snapshot = hub.metrics.snapshot()
        alerts = hub.metrics.levels(snapshot)
        self.last_minute = snapshot
        hub.log.info("metrics", metrics=snapshot)
        for alert in alerts:
            report = hub.log.error if alert.level == "critical" else hub.log.warning
            report("alert", metric=alert.metric, alert=alert.level, value=alert.value, threshold=alert.threshold)
        await self._forget_old_keys()
        hub.moves.resume()

    def measure(self) -> None:
        """Sets every gauge to what it is now."""
        hub, metrics = self._hub, self._hub.metrics
        self._measure_files()
        metrics.set("parley_event_id", hub.feed.latest)
        metrics.set("parley_writes_waiting", hub.store.writer.writer.waiting)
        metrics.set("parley_ws_connections", hub.feeds_open)
        metrics.set("parley_ws_connections_peak", hub.feeds_peak)
        metrics.set("parley_ws_backlog_events", hub.feed.backlog())
        metrics.set("parley_db_bytes", self.db_bytes)
        metrics.set("parley_wal_bytes", self.wal_bytes)
        metrics.set("parley_disk_free_bytes", self.disk_free_bytes)
        metrics.set("parley_disk_free_ratio", self.disk_free_bytes / self._disk_bytes)
        metrics.set("parley_checkpoint_age_seconds", hub.checkpointer.waiting_seconds)
        work = hub.derived.work()
        metrics.set("parley_jobs_waiting", work.waiting)
        metrics.set("parley_jobs_failed", work.failed)
        metrics.set("parley_jobs_oldest_seconds", work.oldest_waiting_seconds)
        counts = hub.store.read(count_coordination)
        metrics.set("parley_agents_active", counts.agents_active)
        metrics.set("parley_tasks_open", counts.tasks_open)
        metrics.set("parley_tasks_claimed", counts.tasks_claimed)
        metrics.set("parley_leases_active", counts.leases_active)
        metrics.set("parley_uptime_seconds", hub.uptime_seconds)
        metrics.set("parley_resident_bytes", _resident_bytes())
        delivered, hub.feed.delivered = hub.feed.delivered, 0
        metrics.inc("parley_ws_deliveries_total", delivered)
        failures = hub.checkpointer.failures_total
        metrics.inc("parley_checkpoint_failures_total", failures - self._checkpoint_failures)
        self._checkpoint_failures = failures

    def _measure_files(self) -> None:
        path = self._hub.store.path
        try:
            self.db_bytes = path.stat().st_size
            self.disk_free_bytes, self._disk_bytes = look_at_disk(path.parent)
        except OSError:  # whatever became of the path
            return  # the writer finds out, and says so
        self.wal_bytes = wal_bytes(path)

    def _refusal(self) -> ParleyError | None:
        trouble = self._hub.settings.trouble
        if self.wal_bytes > trouble.wal_bytes_max:
            return ServiceUnavailable(
                f"The write-ahead log has grown over {trouble.wal_bytes_max} bytes",
                reason="wal_too_large",
                retry_after=OVER_LIMIT_SECONDS + LOOK_SECONDS,
            )
        if self.disk_free_bytes < trouble.disk_free_bytes_min:
            return ServiceUnavailable(
                f"Less than {trouble.disk_free_bytes_min} bytes are free on the disk", reason="disk_low", retry_after=5
            )
        return None

    async def _forget_old_keys(self) -> None:
        hub = self._hub
        before = iso(hub.clock.now_ms() - round(hub.settings.idempotency.retention_days * DAY_MS))
        try:
            while await hub.store.write(lambda tx: forget_before(tx, before, FORGET_BATCH)) == FORGET_BATCH:
                pass
        except ParleyError as error:
            hub.log.warning("keys_not_forgotten", code=error.code)


def _resident_bytes() -> int:
    """Resident memory of this process; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0
