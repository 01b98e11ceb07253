"""One commit, many readers: what a delivery costs, waiting for each and with all the writers there are."""

import asyncio
import time
from typing import Any

from bench.figures import Sample, figure, latency_sample
from bench.load.feed import Tally
from bench.load.http import check_success
from bench.load.hub import Hub
from bench.load.peer import closed_loop
from bench.measure import CONNECTIONS
from bench.plan import Plan

SUBSCRIBERS = (1, 20, 90)
DEADLINE_SECONDS = 120.0


async def fanout(hub: Hub, plan: Plan) -> dict[str, Any]:
    """Closed loop: the next message is posted when every subscriber has the last one. Saturated: 16 writers post."""
    (topic_id,) = await hub.make_topics("fan-out", "everyone listens")
    figures: dict[str, Any] = {}
    for subscribers in SUBSCRIBERS:
        name = f"fanout_{subscribers}"
        samples = [await _closed(hub, topic_id, subscribers, plan.fanout_closed) for _ in range(plan.repeat)]
        figures[name] = figure(name, samples)
    name = f"fanout_{SUBSCRIBERS[-1]}_saturated"
    samples = [await _saturated(hub, topic_id, SUBSCRIBERS[-1], plan.fanout_saturated) for _ in range(plan.repeat)]
    figures[name] = figure(name, samples)
    return figures


async def _closed(hub: Hub, topic_id: str, subscribers: int, count: int) -> Sample:
    tally, feeds = await _listen(hub, subscribers)
    (peer,) = await hub.connect(1)
    latencies: list[float] = []
    requests = hub.messages(topic_id, count)
    cpu, start = hub.process.cpu_seconds(), time.perf_counter()
    for number, request in enumerate(requests, 1):
        sent = time.perf_counter()
        check_success(await peer.call(request))
        await tally.reaches(number * subscribers)
        latencies.append(time.perf_counter() - sent)
    seconds, cpu = time.perf_counter() - start, hub.process.cpu_seconds() - cpu
    for connection in (peer, *feeds):
        connection.close()
    return {**latency_sample(latencies), **_rates(count * subscribers, seconds, cpu)}


async def _saturated(hub: Hub, topic_id: str, subscribers: int, count: int) -> Sample:
    tally, feeds = await _listen(hub, subscribers)
    peers = await hub.connect(CONNECTIONS)
    requests = hub.messages(topic_id, count)
    cpu, start = hub.process.cpu_seconds(), time.perf_counter()
    await closed_loop(peers, iter(requests), check_success)
    await asyncio.wait_for(tally.reaches(count * subscribers), DEADLINE_SECONDS)
    seconds, cpu = time.perf_counter() - start, hub.process.cpu_seconds() - cpu
    for connection in (*peers, *feeds):
        connection.close()
    return {"messages_per_second": round(count / seconds), **_rates(count * subscribers, seconds, cpu)}


async def _listen(hub: Hub, subscribers: int) -> tuple[Tally, list[Any]]:
    """Feeds that have nothing to replay: every event they get from here on is new."""
    (latest,) = (await hub.ask("GET", "/api/v1/events?tail=1"))["events"]
    tally = Tally()
    return tally, [await hub.subscribe(tally, after=latest["event_id"]) for _ in range(subscribers)]


def _rates(deliveries: int, seconds: float, cpu: float) -> Sample:
    return {"deliveries_per_second": round(deliveries / seconds), "cpu_us": round(cpu / deliveries * 1e6, 2)}
