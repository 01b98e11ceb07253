"""The campaign: strangers besiege a hub, a daemon, a broker and a broker with TLS at the same time.

Slow senders, readers that take nothing, heads of 1 MiB, repeated headers, garbage, and thousands of half-open
connections; all the while a polite program asks each server, and is always answered.
"""

import asyncio
from pathlib import Path

from tests.campaign.doors.servers import SERVERS, Limits
from tests.campaign.doors.siege import Siege, Size
from tests.campaign.doors.strangers import descriptors
from tests.campaign.report import Report

SMALL_LIMITS = Limits(silence_seconds=1.0, connections_max=100)
SMALL = Size(halves=300, slow=8, readers=2, drip_seconds=0.05, deadline_seconds=30.0, patience_seconds=60.0)
CARELESS_LIMITS = Limits(silence_seconds=1e6, connections_max=100, careless=True, descriptors=640)
CARELESS = SMALL._replace(halves=1_000, deadline_seconds=3.0, patience_seconds=2.0)
FOUND = ("answered with 20", "taken for a request", "still open", "was not answered", "its memory grew")
"""What must be found of a careless hub."""


def full(halves: int) -> Size:
    """Against servers with limits of their own."""
    return Size(halves, slow=40, readers=8, drip_seconds=0.25, deadline_seconds=30.0, patience_seconds=200.0)


async def doors(folder: Path, *, size: Size, seed: int, limits: Limits | None = None) -> Report:
    """Control: a hub that measures no head, believes repeated headers and closes no connection."""
    report = Report("doors", seed)
    with descriptors() as room:
        sieges = [_besiege(name, folder / name, size, limits, seed + at, room) for at, name in enumerate(SERVERS)]
        for name, siege in zip(SERVERS, await asyncio.gather(*sieges), strict=True):
            report.facts[name] = siege.facts
            report.violations += [f"{name}: {problem}" for problem in siege.problems]
            report.runs += siege.facts["half_open"] + siege.facts["knocks"]
        careless = await _besiege("hub", folder / "careless", CARELESS, CARELESS_LIMITS, seed, room)
    if all(any(found in problem for problem in careless.problems) for found in FOUND):
        report.control = careless.problems
    return report


async def _besiege(
    name: str, folder: Path, size: Size, limits: Limits | None, seed: int, room: asyncio.Semaphore
) -> Siege:
    serving = SERVERS[name](folder, limits)
    siege = Siege(await asyncio.to_thread(serving.__enter__), size, seed, room)
    try:
        await siege.run()
    finally:
        await asyncio.to_thread(serving.__exit__, None, None, None)
    return siege
