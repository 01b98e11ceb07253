"""Moving messages between topics, and what others notice of it while many move."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.figures import Sample, figure
from bench.load.http import HttpPeer, check_success, json_body
from bench.load.hub import Hub, content
from bench.load.peer import UnexpectedReply, closed_loop
from bench.measure import CONNECTIONS
from bench.plan import Plan


async def move(hub: Hub, plan: Plan) -> dict[str, Any]:
    """A thousand messages there (``later``, from the first on) and back (``all``)."""
    here, there = await hub.make_topics("move", "here", "there")
    first = await _fill(hub, here, plan.move)
    later, everything = [], []
    for _ in range(plan.repeat):
        later.append(await _move_once(hub, first, there, "later", plan.move))
        everything.append(await _move_once(hub, first, here, "all", plan.move))
    return {
        "move_1000_later": figure("move_1000_later", later),
        "move_1000_all": figure("move_1000_all", everything),
    }


async def move_large(hub: Hub, plan: Plan) -> dict[str, Any]:
    """Twenty thousand move; meanwhile one client asks for ``/health`` and another posts, both without a pause.

    ``quiet`` is the worst that the same two clients meet in a second with no move: what this machine does to anyone.
    """
    here, there, other = await hub.make_topics("move large", "here", "there", "others talk here")
    first = await _fill(hub, here, plan.move_large)
    samples: list[Sample] = []
    for number in range(plan.repeat):
        target = there if number % 2 == 0 else here
        async with _bystanders(hub, other) as quiet:
            await asyncio.sleep(1.0)
        async with _bystanders(hub, other) as waits:
            moved = await _move_once(hub, first, target, "all", plan.move_large)
        samples.append(
            {
                **moved,
                "worst_health_ms": waits["health"],
                "worst_insert_ms": waits["insert"],
                "worst_health_quiet_ms": quiet["health"],
                "worst_insert_quiet_ms": quiet["insert"],
            }
        )
    return {"move_20000": figure("move_20000", samples)}


async def _fill(hub: Hub, topic_id: str, count: int) -> str:
    """Posts the messages and returns the id of the first."""
    body = {"topic_id": topic_id, "sender": "bench", "content_raw": content(0)}
    first = await hub.ask("POST", "/api/v1/messages", body)
    peers = await hub.connect(CONNECTIONS)
    await closed_loop(peers, iter(hub.messages(topic_id, count - 1)), check_success)
    for peer in peers:
        peer.close()
    return first["message"]["id"]


async def _move_once(hub: Hub, message_id: str, to_topic_id: str, mode: str, count: int) -> Sample:
    (peer,) = await hub.connect(1)
    body = {"op": "move_topic", "to_topic_id": to_topic_id, "mode": mode}
    cpu, start = hub.process.cpu_seconds(), time.perf_counter()
    reply = await peer.call(hub.request("PATCH", f"/api/v1/messages/{message_id}", body))
    seconds, cpu = time.perf_counter() - start, hub.process.cpu_seconds() - cpu
    peer.close()
    check_success(reply)
    affected = json_body(reply)["affected_count"]
    if affected != count:
        raise UnexpectedReply(f"{affected} messages moved where {count} were to move")
    return {"ms": round(seconds * 1e3, 1), "cpu_us_per_message": round(cpu / count * 1e6, 1)}


@asynccontextmanager
async def _bystanders(hub: Hub, topic_id: str) -> AsyncIterator[dict[str, float]]:
    """Two clients that ask and post until the block ends; then the worst wait of each, in milliseconds."""
    worst: dict[str, float] = {}
    health, insert = await hub.connect(2)
    over = asyncio.Event()
    body = {"topic_id": topic_id, "sender": "bystander", "content_raw": content(1)}
    tasks = {
        "health": asyncio.create_task(_worst_wait(health, hub.request("GET", "/health"), over)),
        "insert": asyncio.create_task(_worst_wait(insert, hub.request("POST", "/api/v1/messages", body), over)),
    }
    try:
        yield worst
    finally:
        over.set()
        for name, task in tasks.items():
            worst[name] = round(await task * 1e3, 2)
        health.close()
        insert.close()


async def _worst_wait(peer: HttpPeer, request: bytes, over: asyncio.Event) -> float:
    worst = 0.0
    while not over.is_set():
        start = time.perf_counter()
        check_success(await peer.call(request))
        worst = max(worst, time.perf_counter() - start)
    return worst
