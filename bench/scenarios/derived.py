"""Derived work: what the built-in linkifier costs in its sandbox, beside the same function called like any other.

Three things are told apart. The function itself; the same through a warm process in its sandbox, which shows what
locking it in costs; and the whole way through a hub, from the message's own transaction over its job to the enrichment
and its event.
"""

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.figures import Sample, figure, latency_sample, ratios
from bench.load.feed import Subscriber, Tally
from bench.load.http import check_success
from bench.load.hub import MESSAGE_BYTES, Hub, content
from bench.load.peer import UnexpectedReply, closed_loop
from bench.load.process import Process
from bench.measure import CONNECTIONS
from bench.plan import Plan
from parley.core.clock import SystemClock
from parley.core.settings import PluginDefaultSettings, PluginSettings
from parley.plugin.builtin import links
from parley.plugin.contract import Message
from parley.plugin.session import Done, PluginSession
from parley.workspace.plugins import BUILTIN_PACKAGE, LoadedPlugin

PLUGIN_SECONDS = 60.0
"""A plugin gives way to all else; on a busy machine no measured message may fail for that."""
LINKS = f'[plugin_defaults]\ndeadline_seconds = {PLUGIN_SECONDS}\n[[plugins]]\nname = "links"\ntype = "linkifier"\n'
DEADLINE_SECONDS = 120.0
_WARM_UP = 100


def pointing(number: int) -> str:
    """Text of ``MESSAGE_BYTES`` bytes that points at a place in code and at a file."""
    start = f"see src/app/part_{number % 97}.py:{number % 500 + 1} and docs/notes.md. "
    return (start + content(number))[:MESSAGE_BYTES]


def functions(folder: Path, plan: Plan) -> dict[str, Any]:
    """The linkifier called in this process and, in turns with it, in its sandbox."""
    messages = [
        Message(f"msg_{number}", "topic_1", "ch_1", "bench", pointing(number), 1, "2026-01-01T00:00:00.000Z")
        for number in range(plan.derived)
    ]
    here, jailed = [], []
    plugin = LoadedPlugin(PluginSettings("links", "linkifier"), "ready", None, f"{BUILTIN_PACKAGE}.links")
    defaults = PluginDefaultSettings(deadline_seconds=PLUGIN_SECONDS)
    start = time.perf_counter()
    with PluginSession(plugin, defaults, SystemClock(), hidden=(folder,)) as session:
        start_ms = round((time.perf_counter() - start) * 1e3, 1)
        _through(session, messages[:_WARM_UP])
        for _ in range(plan.repeat):
            here.append(_in_process(messages))
            sample = _through(session, messages)
            jailed.append({**sample, **ratios(sample, here[-1], ("cpu_us",)), "start_ms": start_ms})
    return {
        "linkify_in_process": figure("linkify_in_process", here),
        "linkify_sandboxed": figure("linkify_sandboxed", jailed),
    }


def _in_process(messages: Sequence[Message]) -> Sample:
    cpu, start = time.process_time(), time.perf_counter()
    found = sum(len(links.enrich(message, {})) for message in messages)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    _expect(found, 2 * len(messages), "enrichments")
    return {"per_second": round(len(messages) / seconds), "cpu_us": round(cpu / len(messages) * 1e6, 1)}


def _through(session: PluginSession, messages: Sequence[Message]) -> Sample:
    workers = _this_process().descendants()
    cpu, worker_cpu, start = time.process_time(), _cpu_seconds(workers), time.perf_counter()
    found = 0
    for outcome in session.run_many(messages):
        if not isinstance(outcome, Done):
            raise UnexpectedReply(outcome.text)
        found += len(outcome.findings.enrichments)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    worker_cpu = _cpu_seconds(workers) - worker_cpu
    _expect(found, 2 * len(messages), "enrichments")
    return {
        "per_second": round(len(messages) / seconds),
        "cpu_us": round((cpu + worker_cpu) / len(messages) * 1e6, 1),
        "worker_cpu_us": round(worker_cpu / len(messages) * 1e6, 1),
    }


async def derived(folder: Path, plan: Plan) -> dict[str, Any]:
    """A hub with the linkifier, its process warm, beside a hub without plugins: the same messages to both, in turns."""
    with Hub(folder / "linked", config=LINKS) as linked, Hub(folder / "plain") as plain:
        (there,) = await linked.make_topics("derived", "measured")
        (bare,) = await plain.make_topics("derived", "measured")
        await _post(linked, there, _WARM_UP, events_each=2)
        await _post(plain, bare, _WARM_UP, events_each=1)
        samples: list[Sample] = []
        for _ in range(plan.repeat):
            without = await _post(plain, bare, plan.derived, events_each=1)
            sample = await _post(linked, there, plan.derived, events_each=2)
            samples.append({**sample, "hub_cpu_us_without": without["hub_cpu_us"]})
        one = [await _one_by_one(linked, there, plan.derived_1) for _ in range(plan.repeat)]
        (health,) = (await linked.ask("GET", "/api/v1/plugins"))["plugins"]
    _expect(health["waiting"] + health["failed"], 0, "jobs")
    return {"derived_1": figure("derived_1", one), "derived_16": figure("derived_16", samples)}


async def _post(hub: Hub, topic_id: str, count: int, *, events_each: int) -> Sample:
    """Posts the messages, and counts the time until the feed has told of the last thing that comes of them."""
    tally, feed = await _follow(hub)
    peers = await hub.connect(CONNECTIONS)
    requests = hub.messages(topic_id, count, pointing)
    workers = hub.process.descendants()
    cpu, worker_cpu, start = hub.process.cpu_seconds(), _cpu_seconds(workers), time.perf_counter()
    await closed_loop(peers, iter(requests), check_success)
    posted = time.perf_counter() - start
    await asyncio.wait_for(tally.reaches(count * events_each), DEADLINE_SECONDS)
    seconds, cpu = time.perf_counter() - start, hub.process.cpu_seconds() - cpu
    worker_cpu = _cpu_seconds(workers) - worker_cpu
    for connection in (*peers, feed):
        connection.close()
    return {
        "per_second": round(count / seconds),
        "posted_per_second": round(count / posted),
        "hub_cpu_us": round(cpu / count * 1e6, 1),
        "worker_cpu_us": round(worker_cpu / count * 1e6, 1),
    }


async def _one_by_one(hub: Hub, topic_id: str, count: int) -> Sample:
    """How soon a lone message is enriched: from its posting until the feed tells of it."""
    tally, feed = await _follow(hub)
    (peer,) = await hub.connect(1)
    latencies: list[float] = []
    for number, request in enumerate(hub.messages(topic_id, count, pointing), 1):
        start = time.perf_counter()
        check_success(await peer.call(request))
        await asyncio.wait_for(tally.reaches(2 * number), DEADLINE_SECONDS)
        latencies.append(time.perf_counter() - start)
    peer.close()
    feed.close()
    return latency_sample(latencies)


async def _follow(hub: Hub) -> tuple[Tally, Subscriber]:
    (latest,) = (await hub.ask("GET", "/api/v1/events?tail=1"))["events"]
    tally = Tally()
    return tally, await hub.subscribe(tally, after=latest["event_id"])


def _this_process() -> Process:
    process = Process()
    process.pid = os.getpid()
    return process


def _cpu_seconds(processes: Sequence[Process]) -> float:
    return sum(process.cpu_seconds() for process in processes)


def _expect(found: int, expected: int, what: str) -> None:
    if found != expected:
        raise UnexpectedReply(f"{found} {what} where {expected} were to be")
