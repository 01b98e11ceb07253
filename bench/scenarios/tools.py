"""Tools for agents: what a call costs beside the plain SDK call, how long ``parley mcp`` takes to start, and how many
tasks are claimed when many want them.

The official client calls the tools, as an agent's program would. CPU time is that of our own processes: the hub, and
the tools' server or the program that calls the SDK.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client as ToolClient
from mcp import StdioServerParameters

from bench.figures import Sample, figure, latency_sample, ratios
from bench.load.hub import Hub, content
from bench.load.peer import UnexpectedReply
from bench.load.process import Process
from bench.plan import Plan
from parley.client import AsyncClient

CLAIMANTS = 8
COMPARED = ("p50_ms", "cpu_us")
WITH_NUMBER = 'echo $$ > "$0"; exec "$@"'
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}


async def tools(hub: Hub, plan: Plan) -> dict[str, Any]:
    """Everything about tools, at one hub."""
    (topic_id,) = await hub.make_topics("tools", "measured")
    calls = [await _both(hub, topic_id, plan.tools) for _ in range(plan.repeat)]
    starts = [_cold_start(hub.folder) for _ in range(plan.repeat)]
    claims = [await _claims(hub, plan.claims) for _ in range(plan.repeat)]
    return {
        "sdk_post": figure("sdk_post", [plain for plain, _ in calls]),
        "tool_post": figure("tool_post", [{**tool, **ratios(tool, plain, COMPARED)} for plain, tool in calls]),
        "mcp_cold_start": figure("mcp_cold_start", starts),
        "claims_8": figure("claims_8", claims),
    }


async def _both(hub: Hub, topic_id: str, count: int) -> tuple[Sample, Sample]:
    """The same posts by the SDK and by a tool, in turns."""
    async with AsyncClient(hub.folder, agent="bench") as sdk, _tool_server(hub.folder) as (tool, server):

        async def by_sdk(number: int) -> None:
            await sdk.send_message(topic_id, content(number))

        async def by_tool(number: int) -> None:
            result = await tool.call_tool("post", {"topic": topic_id, "content": content(number)})
            if result.is_error:
                raise UnexpectedReply(str(result.structured_content))

        for call in (by_sdk, by_tool):
            await call(0)  # the first one looks for the hub
        plain = await _timed(hub, by_sdk, count, time.process_time)
        return plain, await _timed(hub, by_tool, count, server.cpu_seconds)


async def _timed(hub: Hub, call: Callable[[int], Awaitable[None]], count: int, own_cpu: Callable[[], float]) -> Sample:
    cpu, latencies = own_cpu() + hub.process.cpu_seconds(), list[float]()
    for number in range(count):
        start = time.perf_counter()
        await call(number)
        latencies.append(time.perf_counter() - start)
    cpu = own_cpu() + hub.process.cpu_seconds() - cpu
    return {**latency_sample(latencies), "cpu_us": round(cpu / count * 1e6, 1)}


@asynccontextmanager
async def _tool_server(folder: Path) -> AsyncGenerator[tuple[ToolClient, Process]]:
    """The official client with a ``parley mcp`` of its own, and that process."""
    note = folder / "mcp.pid"
    arguments = ["-c", WITH_NUMBER, str(note), *_command(folder)]
    async with ToolClient(StdioServerParameters(command="sh", args=arguments)) as client:
        yield client, _process(int(await asyncio.to_thread(note.read_text)))


def _cold_start(folder: Path) -> Sample:
    """From the start of the process to its first answer."""
    start = time.perf_counter()
    with subprocess.Popen(_command(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        seconds, cpu = time.perf_counter() - start, _process(process.pid).cpu_seconds()
        process.stdin.close()
    if answer["id"] != INITIALIZE["id"]:
        raise UnexpectedReply(str(answer))
    return {"ms": round(seconds * 1e3, 1), "cpu_ms": round(cpu * 1e3, 1)}


async def _claims(hub: Hub, count: int) -> Sample:
    """Eight agents claim the next open task, until none is left: how many a second, and each task once."""
    async with AsyncClient(hub.folder, agent="lead") as lead:
        channel = (await lead.create_channel(f"claims-{time.monotonic_ns()}")).channel
        for number in range(count):
            await lead.create_task(f"task {number}", channel_id=channel.id)
    claimed: list[str] = []

    async def claimant(number: int) -> None:
        async with AsyncClient(hub.folder, agent=f"claimant-{number}") as client:
            while (found := await client.claim_next_task(channel_id=channel.id)).task is not None:
                claimed.append(found.task.id)

    cpu, start = hub.process.cpu_seconds(), time.perf_counter()
    await asyncio.gather(*(claimant(number) for number in range(CLAIMANTS)))
    seconds, cpu = time.perf_counter() - start, hub.process.cpu_seconds() - cpu
    if len(claimed) != count or len(set(claimed)) != count:
        raise UnexpectedReply(f"{len(claimed)} claims of {len(set(claimed))} tasks where {count} were open")
    return {"per_second": round(count / seconds), "cpu_us": round(cpu / count * 1e6, 1)}


def _process(pid: int) -> Process:
    process = Process()
    process.pid = pid
    return process


def _command(folder: Path) -> list[str]:
    return [sys.executable, "-m", "parley", "mcp", "--workspace", str(folder)]
