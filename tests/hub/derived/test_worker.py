"""A worker's thread: it outlives whatever happens to its process, and a stop never waits for a plugin."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from parley.core.clock import SystemClock
from parley.core.settings import PluginDefaultSettings, PluginSettings
from parley.hub.derived.worker import Ran, Worker
from parley.hub.rules.jobs import Job
from parley.plugin.session import PluginSession
from parley.wire.entities import Message
from parley.workspace.plugins import LoadedPlugin
from tests.hub.derived.modules import WORDS
from tests.hub.derived.world import DEADLINE_SECONDS, jails, needs_sandbox

pytestmark = needs_sandbox
HANGS_AT_IMPORT = "import time\ntime.sleep(10_000)\ndef enrich(message, config): return []\n"
HANGS = "import time\ndef enrich(message, config): time.sleep(10_000)\n"


class Owner:
    """Keeps what a worker reports, in order."""

    def __init__(self) -> None:
        self.told: SimpleQueue[tuple[str, Any]] = SimpleQueue()

    def ran(self, ran: Ran) -> None:
        self.told.put(("ran", ran))

    def could_not_run(self, reason: str, text: str) -> None:
        self.told.put((reason, text))

    def rested(self, worker: Worker, untried: Sequence[Job]) -> None:
        self.told.put(("rested", list(untried)))

    def next(self) -> tuple[str, Any]:
        return self.told.get(timeout=DEADLINE_SECONDS)


def session(module: str) -> PluginSession:
    settings = PluginSettings(name="words", type="linkifier", module="words.py", deadline_seconds=600)
    loaded = LoadedPlugin(settings, "ready", None, "words", {"words.py": module.encode()})
    return PluginSession(loaded, PluginDefaultSettings(), SystemClock(), hidden=(Path("/nowhere"),))


def job(content: str) -> Job:
    return Job("words", Message(f"msg_{content}", "topic_1", "ch_1", "ann", content, 1, "2026-01-01T00:00:00.000Z"))


def worker_of(owner: Owner, open_session: Callable[[], PluginSession]) -> Worker:
    return Worker("words", owner, open_session, idle_seconds=60.0)


def test_each_job_of_a_batch_is_reported_when_it_is_done_and_the_process_stays_warm() -> None:
    owner = Owner()
    opened: list[PluginSession] = []

    def open_session() -> PluginSession:
        opened.append(session(WORDS))
        return opened[-1]

    worker = worker_of(owner, open_session)
    for batch in ([job("a"), job("b")], [job("c")]):
        worker.give(batch)
        for each in batch:
            kind, ran = owner.next()
            assert (kind, ran.job, ran.problem) == ("ran", each, None)
            assert [found.data["word"] for found in ran.enrichments] == [each.message.content_raw]
        assert owner.next() == ("rested", [])
    assert len(opened) == 1
    worker.stop()
    worker.join(DEADLINE_SECONDS)
    assert jails() == set()


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), MemoryError("no more")])
def test_a_thread_that_cannot_have_a_process_says_so_and_tries_again_with_the_next_batch(error: Exception) -> None:
    """No message is to blame for it, so all of them are given back."""
    owner, fails = Owner(), [True]

    def open_session() -> PluginSession:
        if fails.pop():
            raise error
        return session(WORDS)

    worker = worker_of(owner, open_session)
    worker.give([job("a")])
    assert owner.next() == ("unavailable", f"{type(error).__name__}: {error}")
    assert owner.next() == ("rested", [job("a")])
    fails.append(False)
    worker.give([job("a")])
    assert owner.next()[0] == "ran"
    worker.stop()
    worker.join(DEADLINE_SECONDS)


@pytest.mark.parametrize("module", [HANGS_AT_IMPORT, HANGS])
def test_a_stop_ends_a_plugin_that_hangs_at_once(module: str) -> None:
    """The deadline of the plugin is far longer than this test may take."""
    owner = Owner()
    started = threading.Event()

    def open_session() -> PluginSession:
        started.set()
        return session(module)

    worker = worker_of(owner, open_session)
    worker.give([job("a")])
    assert started.wait(DEADLINE_SECONDS)
    worker.stop()
    worker.join(DEADLINE_SECONDS)
    assert not worker._thread.is_alive()
    assert jails() == set()


def test_a_stop_while_the_sandbox_is_being_built_is_not_lost() -> None:
    """There is no process yet that could be ended, so the start itself must notice."""
    owner = Owner()
    each = session(HANGS_AT_IMPORT)
    each.interrupt()
    worker = worker_of(owner, lambda: each)
    worker.give([job("a")])
    assert owner.next()[0] == "crash"
    assert owner.next() == ("rested", [job("a")])
    worker.stop()
    worker.join(DEADLINE_SECONDS)
    assert jails() == set()
