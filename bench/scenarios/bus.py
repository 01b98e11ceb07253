"""Requests and their answers from one process to another over real TLS, beside NATS request and reply.

In each round the ways take turns: the bus with stores in memory, NATS, NATS with mutual TLS, bare commits, the bus with
durable stores. A ratio is that of two ways in the same round. *Bare* is one FULL commit for each request, of all rows
that whoever answers it writes: the message with its nonce, mark and id, and the removal of the one before. The bus
crosses the network, signs and verifies twice, and commits on both sides.

Asyncio's own loop drives everybody, as it does ``parley bus listen``; NATS has its own client. ``cpu_us`` is the CPU
time of all processes for each request.
"""

import asyncio
import secrets
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import apsw

from bench.figures import Sample, figure, latency_sample
from bench.load.bus import ANSWERER, ASKER, STORES, TOPIC, Answerer, join, name_of
from bench.load.peer import UnexpectedReply
from bench.plan import Plan
from bench.rivals import nats_requests
from bench.rivals.nats_requests import Way
from parley.bus import StoreBounds
from parley.bus.inbox_rows import admit, dispatched
from parley.bus.store_file import StoreIdentity, open_store_file
from parley.core.clock import SystemClock
from parley.sqlite import close_quietly, run_batch

KIB: Final = 1024
MIB: Final = 1024 * KIB
TOGETHER: Final = 50
_SECONDS: Final = 60.0
_WARM: Final = 20
_FEWER: Final = 5
"""What waits for the disk is measured so many times less often."""


async def bus(folder: Path, plan: Plan) -> dict[str, Any]:
    """All of them, as often as the plan says."""
    return await asyncio.to_thread(lambda: asyncio.run(_measured(folder, plan)))


async def _measured(folder: Path, plan: Plan) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        ways = {store: await _by_bus(stack, folder / store, store) for store in STORES}
        if nats_requests.is_here():
            for name, secure in (("nats", False), ("nats_tls", True)):
                ways[name] = await stack.enter_async_context(nats_requests.asking(folder / name, secure=secure))
        rounds = [await _round(folder / f"bare-{number}", plan, ways) for number in range(plan.repeat)]
    return {name: figure(name, [each[name] for each in rounds]) for name in rounds[0]}


async def _by_bus(stack: AsyncExitStack, folder: Path, store: str) -> Way:
    answerer = stack.enter_context(Answerer(folder / "answerer", store))
    (folder / "asker").mkdir()
    asker = await stack.enter_async_context(
        await join(ASKER, folder / "asker", store, {name_of(ANSWERER): answerer.address})
    )
    return Way(lambda body: asker.request(name_of(ANSWERER), TOPIC, body, timeout=_SECONDS), [answerer])


async def _round(folder: Path, plan: Plan, ways: Mapping[str, Way]) -> dict[str, Sample]:
    found: dict[str, Sample] = {}
    for size, name, count in ((KIB, "1k", plan.bus_1), (MIB, "1m", plan.bus_large)):
        few = max(1, count // _FEWER)
        memory = await asked(ways["memory"], size, count)
        rivals = {each: await asked(way, size, count) for each, way in ways.items() if each.startswith("nats")}
        bare = await asyncio.to_thread(_committed, folder / name, size, few)
        durable = await asked(ways["sqlite"], size, few)
        for each, sample in rivals.items():
            found[f"{each}_requests_{name}"] = sample
            memory[f"{each}_ratio"] = _ratio(memory, sample)
        durable["bare_ratio"] = _ratio(durable, bare)
        found |= {f"bus_{name}": memory, f"bus_durable_{name}": durable, f"bus_bare_{name}": bare}
    for each, way in ways.items():
        name = {"memory": "bus_1k", "sqlite": "bus_durable_1k"}.get(each, f"{each}_requests_1k")
        count = plan.bus_50 // (_FEWER if each == "sqlite" else 1)
        together = await asked(way, KIB, count, TOGETHER)
        together["sequential_ratio"] = _ratio(together, found[name])
        found[f"{name}_50"] = together
    return found


async def asked(way: Way, size: int, count: int, together: int = 1) -> Sample:
    """So many at a time, each of which asks again when it is answered. All must be answered."""
    bodies = iter([secrets.token_bytes(size)] * count)
    latencies: list[float] = []

    async def ask_on() -> None:
        for body in bodies:
            began = time.perf_counter()
            if await way.ask(body) != body:
                raise UnexpectedReply("something else came back than was asked")
            latencies.append(time.perf_counter() - began)

    for _ in range(_WARM):
        await way.ask(b"warm")
    cpu, start = _cpu_seconds(way), time.perf_counter()
    await asyncio.gather(*(ask_on() for _ in range(together)))
    seconds, cpu = time.perf_counter() - start, _cpu_seconds(way) - cpu
    return {
        **latency_sample(latencies),
        "per_second": round(count / seconds, 1),
        "cpu_us": round(cpu / count * 1e6, 1),
    }


def _cpu_seconds(way: Way) -> float:
    return time.process_time() + sum(each.cpu_seconds() for each in way.processes)


def _committed(folder: Path, size: int, count: int) -> Sample:
    """One commit for each message, with nobody in between."""
    folder.mkdir(parents=True)
    file = open_store_file(folder / "bus.db", StoreIdentity(b"a" * 32, b"u" * 32), SystemClock())
    try:
        payload, last, seconds = secrets.token_bytes(size), 0, time.perf_counter()
        for number in range(1, count + 1):
            (outcome,) = run_batch(file.connection, [partial(_rows, number=number, payload=payload, last=last)])
            if outcome.error is not None:
                raise outcome.error
            last = outcome.value or 0
        seconds = time.perf_counter() - seconds
    finally:
        close_quietly(file.connection)
        file.held.release()
    return {"per_second": round(count / seconds, 1)}


def _rows(db: apsw.Connection, *, number: int, payload: bytes, last: int) -> int | None:
    dispatched(db, last)
    ids = (b"p" * 32, secrets.token_bytes(24), number, secrets.token_bytes(16), payload)
    inbox = StoreBounds().inbox
    return admit(db, *ids, now=number, call_limits=(), dispatching=True, kept=True, bounds=inbox).inbox_id


def _ratio(one: Sample, other: Sample) -> float:
    return round(one["per_second"] / other["per_second"], 3)
