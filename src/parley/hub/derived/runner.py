"""One plugin of a running hub: takes its jobs when they are due, gives them to its workers, stores what they find.

Everything here happens on the loop; only the workers' threads wait for the plugin. A plugin has workers of its own, so
one that hangs holds up nobody else's work, and ingestion never waits: it writes a row and goes on.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from parley.core.errors import ParleyError
from parley.hub.derived.breaker import Breaker
from parley.hub.derived.worker import Ran, Worker
from parley.hub.rules.jobs import (
    Job,
    Verdict,
    due_jobs,
    job_failed,
    next_due_ms,
    store_attachments,
    store_enrichments,
)
from parley.hub.transaction import Tx
from parley.plugin.session import PluginSession
from parley.wire.events import PluginFailed as FailedPayload
from parley.workspace.log import Draft
from parley.workspace.plugins import LoadedPlugin

if TYPE_CHECKING:
    from parley.hub.hub import Hub

STORED_AT_ONCE: Final = 16
"""Results in one write: enough to share its cost, few enough that a caller's own write is not held up by them."""
REFUSED_SECONDS: Final = 1.0
"""Pause after the writer refused results; the jobs are still there and run again."""
GATHER_SECONDS: Final = 0.01
"""How long new jobs are gathered before they are looked at. A look, a batch and a commit of results cost about as much
as a message; nobody waits for a plugin, so under load they are shared."""
TIMER_SECONDS_MAX: Final = 60.0
"""A job may become due earlier than a timer thinks, when somebody sets the clock."""


class PluginRunner:
    """A ready plugin, its breaker and its workers."""

    def __init__(self, hub: "Hub", plugin: LoadedPlugin, open_session: Callable[[], PluginSession]) -> None:
        self._hub = hub
        self._loop = asyncio.get_running_loop()
        self.plugin = plugin
        self.runs_total = self.failures_total = 0
        self.last_error: str | None = None
        defaults = hub.settings.plugin_defaults
        self._breaker = Breaker(defaults.breaker_failures, defaults.breaker_seconds)
        self._workers = [
            Worker(plugin.name, self, open_session, defaults.idle_seconds) for _ in range(defaults.workers)
        ]
        self._resting = list(self._workers)
        self._in_flight: set[str] = set()
        self._results: list[Ran] = []
        self._storing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._woken = self._stopping = False

    @property
    def paused(self) -> bool:
        """Whether the plugin is left alone after too many failures."""
        return self._breaker.wait_seconds(self._hub.clock.monotonic()) > 0

    def wake(self) -> None:
        """There may be new jobs. Cheap to call for every commit: it looks a moment later, once, with time to work."""
        if self._resting and not self._woken and not self._stopping:
            self._woken = True
            self._loop.call_later(GATHER_SECONDS, self._look)

    async def stop(self) -> None:
        """Kills the plugin's processes and stores what came from them before. What is under way runs again later."""
        self._stopping = True
        self._cancel_timer()
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            await self._loop.run_in_executor(None, worker.join, self._hub.settings.hub.drain_seconds)
        if self._storing is not None:
            await self._storing

    # Called by the workers, on their threads.

    def ran(self, ran: Ran) -> None:
        self._loop.call_soon_threadsafe(self._take, ran)

    def could_not_run(self, reason: str, text: str) -> None:
        self._loop.call_soon_threadsafe(self._count_failure, reason, text)

    def rested(self, worker: Worker, untried: Sequence[Job]) -> None:
        self._loop.call_soon_threadsafe(self._rest, worker, untried)

    # On the loop.

    def _look(self) -> None:
        """Hands due jobs to resting workers; with none due, sets a timer for the next."""
        self._woken = False
        self._cancel_timer()
        while self._resting and not self._stopping:
            if self._breaker.is_open and self._in_flight:
                return  # on trial: what is under way decides, and its end wakes us
            wait_seconds = self._breaker.wait_seconds(self._hub.clock.monotonic())
            now_ms = self._hub.clock.now_ms()
            jobs = [] if wait_seconds else self._due(now_ms)
            if not jobs:
                self._look_later(wait_seconds, now_ms)
                return
            self._in_flight.update(job.message.id for job in jobs)
            self._resting.pop().give(jobs)

    def _due(self, now_ms: int) -> list[Job]:
        most = 1 if self._breaker.is_open else self._hub.settings.plugin_defaults.batch
        read = partial(due_jobs, plugin=self.plugin.name, now_ms=now_ms)
        # Those under way are due as well; of as many more, at least the number asked for is not.
        found = self._hub.store.read(partial(read, limit=most + len(self._in_flight)))
        return [job for job in found if job.message.id not in self._in_flight][:most]

    def _look_later(self, wait_seconds: float, now_ms: int) -> None:
        """``now_ms`` is when it was looked last: a job that became due since is the next one, and not overlooked."""
        if not wait_seconds:
            due_ms = self._hub.store.read(partial(next_due_ms, plugin=self.plugin.name, after_ms=now_ms))
            if due_ms is None:
                return  # a new job, or the end of one under way, wakes us
            wait_seconds = (due_ms - now_ms) / 1000
        self._timer = self._loop.call_later(min(wait_seconds, TIMER_SECONDS_MAX), self._look)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _take(self, ran: Ran) -> None:
        metrics = self._hub.metrics
        metrics.observe("parley_plugin_run_seconds", ran.seconds, self.plugin.name)
        self.runs_total += 1
        if ran.problem is None:
            self._breaker.succeeded()
        else:
            self._count_failure(ran.problem.reason, ran.problem.text, ran.job.message.id)
        self._results.append(ran)
        if self._storing is None:
            self._storing = self._loop.create_task(self._store())

    def _count_failure(self, reason: str, text: str, message_id: str | None = None) -> None:
        if self._stopping:
            return  # we killed it ourselves
        # What a plugin says about a message may quote it, and the log file holds no content; readers with the token
        # see it in the plugin's health.
        said = {"problem": text} if message_id is None else {"message_id": message_id}
        self.failures_total += 1
        self.last_error = text
        self._hub.metrics.inc("parley_plugin_failures_total", 1, self.plugin.name, reason)
        self._hub.log.warning("plugin_run_failed", plugin=self.plugin.name, reason=reason, **said)
        if self._breaker.failed(self._hub.clock.monotonic()):
            self._hub.log.error("plugin_paused", plugin=self.plugin.name, reason=reason)
            self._hub.derived.announce_failure(self.plugin.name, text)

    def _rest(self, worker: Worker, untried: Sequence[Job]) -> None:
        self._in_flight.difference_update(job.message.id for job in untried)
        self._resting.append(worker)
        self.wake()

    async def _store(self) -> None:
        """Stores results until there are none. A refused write loses nothing: the jobs are still in the table."""
        while self._results:
            part, self._results = self._results[:STORED_AT_ONCE], self._results[STORED_AT_ONCE:]
            try:
                await self._write(part)
            except Exception as error:
                code = error.code if isinstance(error, ParleyError) else type(error).__name__
                self._hub.log.warning("plugin_results_refused", plugin=self.plugin.name, code=code)
                if not self._stopping:
                    await asyncio.sleep(REFUSED_SECONDS)
            self._in_flight.difference_update(ran.job.message.id for ran in part)
        self._storing = None
        self.wake()

    async def _write(self, part: Sequence[Ran]) -> None:
        verdicts = await self._hub.store.write(lambda tx: [self._settle(tx, ran) for ran in part])
        for verdict in verdicts:
            self._hub.metrics.inc("parley_plugin_runs_total", 1, self.plugin.name, verdict)

    def _settle(self, tx: Tx, ran: Ran) -> Verdict:
        defaults = self._hub.settings.plugin_defaults
        if ran.problem is None:
            if self.plugin.settings.type == "extractor":
                return store_attachments(tx, ran.job, ran.attachments, defaults.settle_ms)
            return store_enrichments(tx, ran.job, ran.enrichments, defaults.settle_ms)
        if self._stopping:
            return "stale"
        return job_failed(
            tx,
            ran.job,
            ran.problem.text,
            attempts_max=defaults.attempts_max,
            retry_ms=round(defaults.retry_seconds * 1000),
            settle_ms=defaults.settle_ms,
        )


def failure_draft(plugin_name: str, reason: str) -> Draft:
    """The event that tells of a plugin that does not run."""
    return Draft("plugin.failed", plugin_name, FailedPayload(plugin_name, reason))
