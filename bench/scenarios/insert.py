"""Posting and editing messages through HTTP, one after another and at 16 connections."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from bench.figures import Sample, figure
from bench.load.http import check_success
from bench.load.hub import Hub, content
from bench.measure import CONNECTIONS, measure
from bench.plan import Plan

WITHOUT_FTS: Final = "[search]\nfts = false\n"


async def insert(hub: Hub, plan: Plan) -> dict[str, Any]:
    """The full-text index is off here: what a message itself costs."""
    (topic_id,) = await hub.make_topics("insert", "measured")
    await send(hub, hub.messages(topic_id, plan.insert_1 // 4), 1)  # warms up caches on both sides
    one = [await send(hub, hub.messages(topic_id, plan.insert_1), 1) for _ in range(plan.repeat)]
    many = [await send(hub, hub.messages(topic_id, plan.insert_16), CONNECTIONS) for _ in range(plan.repeat)]
    return {"insert_1": figure("insert_1", one), "insert_16": figure("insert_16", many)}


async def insert_with_fts(hub: Hub, plan: Plan) -> dict[str, Any]:
    """The default: every message goes into the full-text index, too."""
    measured = await loop_16(hub, plan)
    return {"insert_16_fts": figure("insert_16_fts", [await measured() for _ in range(plan.repeat)])}


async def loop_16(hub: Hub, plan: Plan) -> Callable[[], Awaitable[Sample]]:
    """Inserts at 16 connections, which may be measured again and again; the hub is warm."""
    (topic_id,) = await hub.make_topics("insert", "measured")
    await send(hub, hub.messages(topic_id, plan.insert_1 // 4), CONNECTIONS)
    return lambda: send(hub, hub.messages(topic_id, plan.insert_16), CONNECTIONS)


async def edit(hub: Hub, plan: Plan) -> dict[str, Any]:
    """Edits of one message, one after another."""
    (topic_id,) = await hub.make_topics("edit", "measured")
    body = {"topic_id": topic_id, "sender": "bench", "content_raw": content(0)}
    posted = await hub.ask("POST", "/api/v1/messages", body)
    path = f"/api/v1/messages/{posted['message']['id']}"
    edits = [hub.request("PATCH", path, {"op": "edit", "content_raw": content(n + 1)}) for n in range(plan.edit)]
    return {"edit": figure("edit", [await send(hub, edits, 1) for _ in range(plan.repeat)])}


async def send(hub: Hub, requests: Sequence[bytes], connections: int) -> Sample:
    """Sends the requests over that many new connections."""
    return await measure(hub.process, await hub.connect(connections), requests, check_success)
