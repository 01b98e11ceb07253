"""A thousand peers on one broker: what one costs that says nothing, a message to all, and all coming back at once.

*Idle*: memory and CPU time of the broker for each peer that is connected. *Broadcast*: one message to everybody, from
the moment its sender has it until the first and until the last has been pushed. *Storm*: the broker is killed and
started again, and every peer notices at the same moment; how long until all are served again, from when it listens.
"""

import asyncio
import time
from pathlib import Path
from typing import Any

from bench.figures import Sample, figure
from bench.load.crowd import Crowd, broadcast
from bench.load.hub import content
from bench.plan import Plan


async def crowd(folder: Path, plan: Plan) -> dict[str, Any]:
    async with Crowd(folder, plan.crowd) as world:
        idle = [await _idle(world, plan)]
        await _broadcast(world, "first")
        one = [await _broadcast(world, f"one-{number}") for number in range(plan.repeat)]
        storms = [await _storm(world) for _ in range(plan.repeat)]
        after = [await _broadcast(world, "after")]
    return {
        "crowd_idle": figure("crowd_idle", idle),
        "crowd_broadcast": figure("crowd_broadcast", one),
        "crowd_storm": figure("crowd_storm", storms),
        "crowd_after_storm": figure("crowd_after_storm", after),
    }


async def _idle(world: Crowd, plan: Plan) -> Sample:
    before, cpu = world.broker.resident_bytes(), world.broker.cpu_seconds()
    for peer in world.peers:
        peer.start()
    connected = await world.all_ready()
    connecting = world.broker.cpu_seconds() - cpu
    await asyncio.sleep(plan.crowd_idle_seconds / 4)
    memory, cpu = world.broker.resident_bytes() - before, world.broker.cpu_seconds()
    await asyncio.sleep(plan.crowd_idle_seconds)
    spent = world.broker.cpu_seconds() - cpu
    return {
        "peers": len(world.peers),
        "connected_seconds": round(connected, 2),
        "connect_cpu_us": round(connecting / len(world.peers) * 1e6),
        "kb_per_peer": round(memory / len(world.peers) / 1e3, 1),
        "idle_cpu_us_per_second": round(spent / len(world.peers) / plan.crowd_idle_seconds * 1e6, 1),
    }


async def _broadcast(world: Crowd, name: str) -> Sample:
    others = len(world.peers) - 1
    cpu, start = world.broker.cpu_seconds(), time.perf_counter()
    world.peers[0].transmit(broadcast(f"{name}-{start}", content(0).encode()))
    arrived = await world.all_arrived(others)
    await asyncio.sleep(1.0)  # the acknowledgements are part of what it costs
    return {
        "first_ms": round((min(arrived) - start) * 1e3, 1),
        "last_ms": round((max(arrived) - start) * 1e3, 1),
        "broker_cpu_us": round((world.broker.cpu_seconds() - cpu) / others * 1e6, 1),
    }


async def _storm(world: Crowd) -> Sample:
    await asyncio.to_thread(world.broker.kill)
    await world.all_lost()
    await asyncio.to_thread(world.start_broker)
    seconds = await world.all_ready()
    return {
        "all_back_seconds": round(seconds, 2),
        "broker_cpu_us": round(world.broker.cpu_seconds() / len(world.peers) * 1e6),
        "broker_mb": round(world.broker.resident_bytes() / 1e6, 1),
    }
