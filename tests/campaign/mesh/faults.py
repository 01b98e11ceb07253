"""Load through a bad network, and one mesh in trouble beside one that is not.

In the storm every daemon sends while its connections are cut, kept open in silence, delayed, and their frames doubled.
Then the network is good again, and everything must be everywhere once.

After that one mesh is shut off wholly. What is sent in the other must arrive meanwhile, all of it, although the same
daemons have rows that cannot go; how long it takes is measured with and without the trouble.
"""

import asyncio
import random
import statistics
import tempfile
import time
from pathlib import Path

from tests.campaign.mesh.proxy import FaultProxy, Trouble
from tests.campaign.mesh.town import Town
from tests.campaign.report import Report
from tests.simulation.checks import Judge

DAEMONS = 3
MESHES = 2
STORM_SECONDS = (0.02, 0.2)
PAUSE_SECONDS = 0.05
CUTS_MIN = 10
MEASURED = 40
FILE = "broker.db"


async def mesh_faults(*, messages: int, seed: int) -> Report:
    """``messages`` of each daemon in the storm. Control: the judge is given a message too few, and one too many."""
    report = Report("mesh_faults", seed)
    with tempfile.TemporaryDirectory(prefix="pm-") as name:
        place = Path(name)
        async with (
            FaultProxy(seed) as proxy,
            Town(place, str(place / FILE), proxy, daemons=DAEMONS, meshes=MESHES, seed=seed) as town,
        ):
            await town.start_all()
            report.violations += await _storm(town, messages, random.Random(seed))
            report.runs = len(town.ledger.asked)
            report.facts = {"frames": proxy.frames, "cuts": proxy.cuts}
            report.violations += await _one_mesh_in_trouble(town, report)
            report.control = _control(town)
    return report


async def _storm(town: Town, messages: int, rng: random.Random) -> list[str]:
    programs = [asyncio.create_task(_send(town, name, messages)) for name in town.names]
    trouble = asyncio.create_task(_make_trouble(town, rng))
    try:
        await asyncio.gather(*programs)
    finally:
        trouble.cancel()
    town.proxy.troubles.clear()
    return await town.come_to_rest() + town.judge(at_the_end=True)


async def _send(town: Town, name: str, messages: int) -> None:
    """Sends so many messages, and more as long as there was no storm to speak of."""
    sent = 0
    while sent < messages or town.proxy.cuts < CUTS_MIN:
        await town.ask_until_promised(town.compose(name))
        sent += 1
        await asyncio.sleep(town.rng.uniform(0, PAUSE_SECONDS))


async def _make_trouble(town: Town, rng: random.Random) -> None:
    proxy = town.proxy
    while True:
        name, fate = rng.choice(town.names), rng.random()
        if fate < 0.4:
            proxy.cut_all(name)
        elif fate < 0.5:
            proxy.silence(name)
        elif fate < 0.9:
            proxy.troubles[name] = Trouble(delay_seconds=rng.choice((0.0, 0.02, 0.1)), doubling=rng.choice((0.0, 0.3)))
        else:
            proxy.troubles.pop(name, None)
        await asyncio.sleep(rng.uniform(*STORM_SECONDS))


async def _one_mesh_in_trouble(town: Town, report: Report) -> list[str]:
    """The first mesh has everybody in it; the second one's trouble must not be its own."""
    healthy, troubled = town.people.mesh_ids
    slug = next(each.slug for (mesh_id, _), each in town.people.members.items() if mesh_id == troubled)
    before = await _round_trips(town, healthy)
    town.proxy.shut.add(slug)
    town.proxy.cut_all(slug)
    stuck = [town.compose(name, troubled) for name in town.names if troubled in town.people.meshes_of(name)]
    for message in stuck:
        await town.ask_until_promised(message)
    beside = await _round_trips(town, healthy)
    problems = await town.come_to_rest(healthy)
    if not town.is_waiting(stuck):
        problems.append("the mesh that was shut off was not")
    town.proxy.shut.clear()
    report.facts["round_trip_ms_p50"] = {"alone": _median_ms(before), "beside_a_mesh_in_trouble": _median_ms(beside)}
    return problems + await town.come_to_rest() + town.judge(at_the_end=True)


async def _round_trips(town: Town, mesh_id: str) -> list[float]:
    """How long single messages take until the broker has them and all recipients, too."""
    times: list[float] = []
    for number in range(MEASURED):
        begun = time.perf_counter()
        await town.ask_until_promised(town.compose(town.names[number % len(town.names)], mesh_id))
        await town.come_to_rest(mesh_id)
        times.append(time.perf_counter() - begun)
    return times


def _median_ms(seconds: list[float]) -> float:
    return round(statistics.median(seconds) * 1e3, 1)


def _control(town: Town) -> list[str]:
    found: list[str] = []
    for twice in (False, True):
        state = town.state()
        rows = next(rows for rows in state.inbox.values() if rows)
        if twice:
            rows.append(rows[-1])
        else:
            rows.pop()
        problems = Judge(state, town.people, town.ledger).in_the_end()
        if not problems:
            return []
        found += problems
    return found
