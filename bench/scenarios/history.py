"""Reads over a long history: the newest 50 messages of a large topic, and the replay of the whole log."""

import asyncio
import time
from typing import Any

from bench.figures import Sample, figure
from bench.load.feed import Tally
from bench.load.hub import Hub
from bench.load.peer import UnexpectedReply
from bench.measure import CONNECTIONS
from bench.plan import Plan
from bench.scenarios.insert import send

REPLAY_DEADLINE_SECONDS = 120.0


async def fill(hub: Hub, plan: Plan) -> tuple[str, dict[str, Any]]:
    """Posts messages to one topic until the log holds ``plan.history`` events; the topic."""
    (topic_id,) = await hub.make_topics("history", "long")
    (latest,) = (await hub.ask("GET", "/api/v1/events?tail=1"))["events"]
    count = plan.history - latest["event_id"]
    sample = await send(hub, hub.messages(topic_id, count), CONNECTIONS)
    return topic_id, {"fill_16_fts": figure("fill_16_fts", [{"messages": count, **sample}])}


async def tail(hub: Hub, plan: Plan, topic_id: str) -> dict[str, Any]:
    """The newest 50 messages, as every agent reads them when it arrives."""
    requests = [hub.request("GET", f"/api/v1/messages?topic_id={topic_id}&limit=50")] * plan.tail
    return {"tail_50": figure("tail_50", [await send(hub, requests, 1) for _ in range(plan.repeat)])}


async def replay(hub: Hub, plan: Plan) -> dict[str, Any]:
    """Everything from the first event on, over one connection."""
    return {"replay": figure("replay", [await _replay_once(hub) for _ in range(plan.repeat)])}


async def _replay_once(hub: Hub) -> Sample:
    tally = Tally()
    cpu, start = hub.process.cpu_seconds(), time.perf_counter()
    feed = await hub.subscribe(tally, after=0)
    until = feed.greeting.result()["replay_until"]
    await asyncio.wait_for(tally.reaches(until), REPLAY_DEADLINE_SECONDS)
    seconds = time.perf_counter() - start
    cpu = hub.process.cpu_seconds() - cpu
    feed.close()
    if tally.total != until:
        raise UnexpectedReply(f"{tally.total} events came where {until} were to come")
    return {
        "events": until,
        "seconds": round(seconds, 3),
        "events_per_second": round(until / seconds),
        "cpu_us": round(cpu / until * 1e6, 2),
    }
