"""A thread that owns one process of a plugin, from its start to its end.

The loop gives it jobs, one batch at a time; it hands each result back to the loop as soon as it is there. The process
is started with the first batch, kept warm for the next, ended when there is nothing to do for long, and replaced when
it was killed. Talking to it blocks, which is why it is not done on the loop.
"""

import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple, Protocol

from parley.core.canonical import canonical_json
from parley.core.errors import PluginFailed
from parley.hub.rules.jobs import Job
from parley.plugin.session import Failed, Outcome, PluginSession, plugin_message
from parley.wire.events import Enrichment
from parley.wire.requests import AddAttachment


class Ran(NamedTuple):
    """What came of one job: what the plugin found, or why it failed."""

    job: Job
    seconds: float
    problem: Failed | None = None
    enrichments: Sequence[Enrichment] = ()
    attachments: Sequence[tuple[AddAttachment, str]] = ()
    """Each with the canonical text of its metadata."""


class Owner(Protocol):
    """Whom a worker reports to. All of it is called on the worker's thread."""

    def ran(self, ran: Ran) -> None:
        """One job of the batch is done."""

    def could_not_run(self, reason: str, text: str) -> None:
        """There is no process to give jobs to, and no job is to blame for it."""

    def rested(self, worker: "Worker", untried: Sequence[Job]) -> None:
        """The batch is over, except for these jobs, which the process did not live to see."""


class Worker:
    """One thread, at most one process. Whatever goes wrong, the thread lives on until it is stopped."""

    def __init__(self, name: str, owner: Owner, open_session: Callable[[], PluginSession], idle_seconds: float) -> None:
        self._owner = owner
        self._open_session = open_session
        self._idle_seconds = idle_seconds
        self._batches: SimpleQueue[Sequence[Job] | None] = SimpleQueue()
        self._stopping = False
        self._session: PluginSession | None = None
        self._thread = threading.Thread(target=self._run, name=f"parley-plugin-{name}", daemon=True)
        self._thread.start()

    def give(self, jobs: Sequence[Job]) -> None:
        """Hands over a batch; the worker is busy until it reports that it rested."""
        self._batches.put(jobs)

    def stop(self) -> None:
        """Kills the process, whatever it is doing. Returns at once; ``join`` waits for the end."""
        self._stopping = True
        session = self._session
        if session is not None:
            session.interrupt()
        self._batches.put(None)

    def join(self, timeout: float) -> None:
        """Waits for the thread's end."""
        self._thread.join(timeout)

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            self._owner.rested(self, self._work(batch))
        self._end_session()

    def _next_batch(self) -> Sequence[Job] | None:
        if self._session is not None:
            try:
                return self._batches.get(timeout=self._idle_seconds)
            except Empty:
                self._end_session()
        return self._batches.get()

    def _work(self, batch: Sequence[Job]) -> Sequence[Job]:
        """Runs the plugin on each message of the batch; the jobs that it did not get to."""
        done = 0
        try:
            session = self._session or self._start_session()
            if self._stopping:
                return batch
            for outcome in session.run_many(plugin_message(job.message) for job in batch):
                if self._stopping:
                    break
                self._owner.ran(_ran(batch[done], outcome))
                done += 1
            if not session.alive:
                self._session = None
        except PluginFailed as problem:
            self._session = None
            self._owner.could_not_run(str(problem.details.get("reason", "crash")), problem.message)
        except Exception as error:  # such as no descriptors left for a new process; the breaker sets the pace
            self._end_session()
            self._owner.could_not_run("unavailable", f"{type(error).__name__}: {error}")
        return batch[done:]

    def _start_session(self) -> PluginSession:
        self._session = session = self._open_session()
        session.start()
        return session

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


def _ran(job: Job, outcome: Outcome) -> Ran:
    if isinstance(outcome, Failed):
        return Ran(job, outcome.seconds, outcome)
    enrichments, attachments = outcome.findings
    texts = [(request, canonical_json(request.value_json).decode()) for request in attachments]
    return Ran(job, outcome.seconds, None, enrichments, texts)
