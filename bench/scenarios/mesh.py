"""Messages from one machine to another: through an outbox, a broker and an inbox, each on disk before the next is told.

A hundred peers in ten daemons send to each other directly, sealed. *Closed*: each has one message under way, from the
moment a program hands it to its daemon until the recipient's daemon tells its programs of it. *Burst*: everything is
handed over as fast as the daemons take it, and the clock stops at the last arrival. Every message must arrive once.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from bench.figures import Sample, figure, latency_sample
from bench.load.http import HttpPeer, request
from bench.load.hub import content
from bench.load.mesh import Mesh
from bench.load.peer import UnexpectedReply
from bench.plan import Plan

DAEMONS = MESHES = 10
DEADLINE_SECONDS = 300.0
_numbers = count(1)


async def mesh(folder: Path, plan: Plan, store: str | None, prefix: str) -> dict[str, Any]:
    """Both loads at a new broker on this store (None is a SQLite file)."""
    async with Mesh(folder, store, DAEMONS, MESHES) as world:
        measured = await closed_loop(world, plan)
        before = world.bytes_on_disk()
        closed = [await measured() for _ in range(plan.repeat)]
        burst = [await _burst(world, plan.mesh_burst) for _ in range(plan.repeat)]
        disk = _grown(world, before, plan.repeat * (plan.mesh_closed + plan.mesh_burst))
        memory = {
            "broker_mb": round(world.broker.resident_bytes() / 1e6, 1),
            "daemon_mb": round(sum(each.resident_bytes() for each in world.daemons) / len(world.daemons) / 1e6, 1),
        }
    return {
        f"{prefix}_closed_100": figure(f"{prefix}_closed_100", closed),
        f"{prefix}_burst": figure(f"{prefix}_burst", burst),
        f"{prefix}_memory": figure(f"{prefix}_memory", [memory]),
        f"{prefix}_disk": figure(f"{prefix}_disk", [disk]),
    }


async def closed_loop(world: Mesh, plan: Plan) -> Callable[[], Awaitable[Sample]]:
    """The closed load, which may be measured again and again; everybody has sent a message before."""
    await _closed(world, len(world.members) * len(world.daemons))  # the first asks for peers and opens connections
    return lambda: _closed(world, plan.mesh_closed)


async def _closed(world: Mesh, messages: int) -> Sample:
    """Each peer sends its next message when its last one has arrived."""
    left, arrived, latencies = messages, dict[bytes, int](), list[float]()
    under_way: dict[bytes, tuple[int, int, float]] = {}
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    async with _connections(world) as senders:

        def send(mesh_number: int, daemon: int) -> None:
            nonlocal left
            if left > 0:
                left -= 1
                name = f"closed-{next(_numbers)}"
                under_way[name.encode()] = (mesh_number, daemon, time.perf_counter())
                senders[mesh_number][daemon].send(_message(world, mesh_number, daemon, name))

        def on_arrival(name: bytes) -> None:
            arrived[name] = arrived.get(name, 0) + 1
            found = under_way.pop(name, None)
            if found is not None:
                mesh_number, daemon, sent = found
                latencies.append(time.perf_counter() - sent)
                send(mesh_number, daemon)
                if not under_way and not done.done():
                    done.set_result(None)

        async with _followers(world, on_arrival):
            cpu, start = world.cpu_seconds(), time.perf_counter()
            for mesh_number in range(len(world.members)):
                for daemon in range(len(world.daemons)):
                    send(mesh_number, daemon)
            await asyncio.wait_for(done, DEADLINE_SECONDS)
            seconds = time.perf_counter() - start
    return {**latency_sample(latencies), **_rates(world, messages, seconds, cpu), **_each_once(arrived, messages)}


async def _burst(world: Mesh, messages: int) -> Sample:
    """Everything at once: how long until the last has arrived."""
    arrived, lateness = dict[bytes, int](), list[float]()
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    start = 0.0

    def on_arrival(name: bytes) -> None:
        arrived[name] = arrived.get(name, 0) + 1
        lateness.append(time.perf_counter() - start)
        if len(arrived) == messages and not done.done():
            done.set_result(None)

    async with _connections(world) as senders, _followers(world, on_arrival):
        cpu, start = world.cpu_seconds(), time.perf_counter()
        for number in range(messages):
            daemon, mesh_number = number % len(world.daemons), number // len(world.daemons) % len(world.members)
            senders[mesh_number][daemon].send(_message(world, mesh_number, daemon, f"burst-{next(_numbers)}"))
        await asyncio.wait_for(done, DEADLINE_SECONDS)
        seconds = time.perf_counter() - start
    return {
        **latency_sample(lateness),
        "last_seconds": round(seconds, 3),
        **_rates(world, messages, seconds, cpu),
        **_each_once(arrived, messages),
    }


def _message(world: Mesh, mesh_number: int, daemon: int, name: str) -> bytes:
    """A message to the next daemon's member of the same mesh."""
    to = world.members[mesh_number][(daemon + 1) % len(world.daemons)]
    body = {"to": to, "message": content(0), "mesh": f"mesh-{mesh_number}", "client_message_id": name}
    return request("POST", "/v1/send", "", body)


def _rates(world: Mesh, messages: int, seconds: float, before: tuple[float, float]) -> Sample:
    broker, daemons = (now - then for now, then in zip(world.cpu_seconds(), before, strict=True))
    return {
        "per_second": round(messages / seconds),
        "cpu_us": round((broker + daemons) / messages * 1e6, 1),
        "broker_cpu_us": round(broker / messages * 1e6, 1),
        "daemons_cpu_us": round(daemons / messages * 1e6, 1),
    }


def _grown(world: Mesh, before: dict[str, int], messages: int) -> Sample:
    """Bytes that a message has added to each database; with PostgreSQL the broker's own are none."""
    after = world.bytes_on_disk()
    return {f"{name}_bytes": round((size - before[name]) / messages) for name, size in after.items()}


def _each_once(arrived: dict[bytes, int], messages: int) -> Sample:
    if len(arrived) != messages or any(times != 1 for times in arrived.values()):
        raise UnexpectedReply(f"{len(arrived)} of {messages} messages arrived, {sum(arrived.values())} times in all")
    return {}


@asynccontextmanager
async def _connections(world: Mesh) -> AsyncGenerator[list[list[HttpPeer]]]:
    """A connection of each peer's program to its daemon, by mesh; requests do not wait for the answers before them.

    On one connection a daemon answers in order, one after the other. Programs that shared one would wait for each
    other, and no two of their messages could be written together.
    """
    peers = [[await world.connect(number) for number in range(len(world.daemons))] for _ in world.members]
    everybody = [peer for of_mesh in peers for peer in of_mesh]
    for peer in everybody:
        peer.on_reply = _check
    try:
        yield peers
    finally:
        for peer in everybody:
            peer.close()


@asynccontextmanager
async def _followers(world: Mesh, on_arrival: Any) -> AsyncGenerator[None]:
    followers = [await world.follow(number, on_arrival) for number in range(len(world.daemons))]
    try:
        yield
    finally:
        for follower in followers:
            follower.close()


def _check(reply: bytes) -> None:
    if reply[9:12] != b"202":
        raise UnexpectedReply(reply[:500].decode(errors="replace"))
