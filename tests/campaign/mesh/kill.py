"""kill -9 of real daemons and a real broker at every step of a message's way.

A round: one node is killed at a random moment and started again so that it dies at a chosen step; messages are sent
until it does; it is started anew, and what was not answered is asked again. At the end of a town everything must have
come to rest as promised, and the audit of what the broker holds, beside a lake that was filled meanwhile, must be
clean. The steps take turns, on SQLite and on PostgreSQL.
"""

import asyncio
import random
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

from parley.pipeline.audit.run import audit
from parley.pipeline.brokers.bronze_messages import take_messages
from parley.pipeline.brokers.stores import find_brokers
from parley.pipeline.lake import Lake
from tests.campaign.mesh.deaths import BROKER_POINTS, DAEMON_POINTS, Death
from tests.campaign.mesh.proxy import FaultProxy
from tests.campaign.mesh.town import Town
from tests.campaign.report import Report
from tests.postgres import private_server

ROUNDS_PER_TOWN = 56
DAEMONS = 2
BATCH = 4
DIE_SECONDS = 180.0
"""How long a message may take to its death: long enough for a machine with much else to do."""
FILE = "broker.db"
POINTS = (*DAEMON_POINTS, *BROKER_POINTS)


async def mesh_kills(*, rounds: int, seed: int, stores: tuple[str, ...] = ("sqlite", "postgresql")) -> Report:
    """Control: a daemon that acknowledges before it stores, killed between the two."""
    report = Report("mesh_kill", seed)
    rng = random.Random(seed)
    died: Counter[str] = Counter()
    with private_server() if "postgresql" in stores else nullcontext() as server:
        for first in range(0, rounds, ROUNDS_PER_TOWN):
            count = min(ROUNDS_PER_TOWN, rounds - first)
            kind = stores[first // ROUNDS_PER_TOWN % len(stores)]
            url = server.new_url() if server is not None and kind == "postgresql" else None
            problems = await _town(url, rng, first, count, died)
            report.runs += count
            report.violations += [f"town {first} on {kind}: {problem}" for problem in problems]
    report.control = await _control(seed)
    report.facts = {
        "deaths": dict(sorted(died.items())),
        "seconds_per_round": round((time.monotonic() - report.started) / max(1, report.runs), 3),
    }
    return report


async def _town(url: str | None, rng: random.Random, first: int, rounds: int, died: Counter[str]) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="pm-") as name:
        place = Path(name)
        store, lake = url or str(place / FILE), Lake.open_or_create(place / "lake")
        async with (
            FaultProxy(first) as proxy,
            Town(place, store, proxy, daemons=DAEMONS, meshes=1, seed=rng.randrange(2**32)) as town,
        ):
            await town.start_all()
            for number in range(first, first + rounds):
                point = POINTS[number % len(POINTS)]
                if not await _round(town, point, rng):
                    stuck = [f"round {number}: nobody came to die at {point}", *town.last_words()]
                    return [*stuck, *town.judge(at_the_end=False)]
                died[point] += 1
                if number % len(POINTS) == len(POINTS) // 2:
                    await asyncio.to_thread(take_messages, lake, find_brokers([store]))
            problems = await town.come_to_rest()
            problems += town.judge(at_the_end=True)
            return problems + await asyncio.to_thread(_audited, store, lake)


def _audited(store: str, lake: Lake) -> list[str]:
    """What the audit finds in the store and in the lake, while the broker serves."""
    brokers = find_brokers([store])
    take_messages(lake, brokers)
    report = audit(None, [], brokers=brokers, lake=lake)
    looked = [verdict for verdict in report.verdicts if verdict.status == "ok"]
    if not looked or not report.brokers[0].messages:
        return ["the audit saw nothing"]
    found = [verdict for verdict in report.verdicts if verdict.status == "error"]
    return [f"{verdict.check.id}: {report.explain(each)}" for verdict in found for each in verdict.listed]


async def _round(town: Town, point: str, rng: random.Random) -> bool:
    """Whether the death came about: a message that goes its way must meet it."""
    victim = rng.choice(town.names) if point in DAEMON_POINTS else "broker"
    writing = asyncio.create_task(_write(town, rng))
    await asyncio.sleep(0)
    town.kill(victim)
    await town.start(victim, Death(point, 1 + rng.randrange(3)))
    begun = time.monotonic()
    while not await town.has_died(victim, 0.05):
        await asyncio.gather(*(town.ask(town.compose(name)) for name in town.names))
        if time.monotonic() - begun > DIE_SECONDS:
            return False
    await town.start(victim)
    await writing
    for name in town.names:
        for message in town.ledger.of(name)[-20 * BATCH :]:
            if not message.promised:
                await town.ask_until_promised(message)
    return True


async def _write(town: Town, rng: random.Random) -> None:
    """Messages that are under way when the first kill comes."""
    messages = [town.compose(rng.choice(town.names)) for _ in range(BATCH)]
    await asyncio.gather(*(town.ask(message) for message in messages))


async def _control(seed: int) -> list[str]:
    """What is found of a daemon that acknowledges before it stores, and dies in between."""
    with tempfile.TemporaryDirectory(prefix="pm-") as name:
        place = Path(name)
        async with (
            FaultProxy(seed) as proxy,
            Town(place, str(place / FILE), proxy, daemons=DAEMONS, meshes=1, seed=seed) as town,
        ):
            await town.start("broker")
            await town.start("d0")
            await town.start("d1", Death("acked", 1), hasty=True)
            await town.ask_until_promised(town.compose("d0"))
            if not await town.has_died("d1", DIE_SECONDS):
                return []
            await town.start("d1")
            await town.come_to_rest()
            return town.judge(at_the_end=True)
