"""A steady load for a long time: memory, descriptors and the write-ahead log must not grow with it."""

import asyncio
import statistics
import time
from pathlib import Path
from typing import NamedTuple

from bench.load.feed import Tally
from bench.load.http import HttpPeer, check_success
from bench.load.hub import Hub, content
from tests.campaign.report import Report

MESSAGES_PER_SECOND = 200
SUBSCRIBERS = 5
CONTROL_SECONDS = 6
MEMORY_GROWTH_MAX = 0.15
"""Caches fill up in the beginning; what still grows in the last two thirds of a run is a leak."""
WAL_BYTES_MAX = 48 * 1024 * 1024
"""The log starts over once it is several times its checkpoint size of 8 MiB."""


class Sample(NamedTuple):
    """The hub at one moment."""

    resident_bytes: int
    open_files: int
    wal_bytes: int


async def soak(folder: Path, *, seconds: float, seed: int) -> Report:
    """Control: a client that opens a connection ten times a second and never closes one."""
    report = Report("soak", seed)
    samples = await _run(folder / "steady", seconds, leak=False)
    report.runs = len(samples)
    report.violations = _growth(samples)
    report.facts = {
        "messages_per_second": MESSAGES_PER_SECOND,
        "resident_mb_over_time": [
            round(sample.resident_bytes / 1e6, 1) for sample in (*samples[:: max(1, len(samples) // 6)], samples[-1])
        ],
        "open_files": [samples[0].open_files, samples[-1].open_files],
        "wal_mb_max": round(max(sample.wal_bytes for sample in samples) / 1e6, 1),
    }
    report.control = _growth(await _run(folder / "leaking", CONTROL_SECONDS, leak=True))
    return report


def _growth(samples: list[Sample]) -> list[str]:
    """What grows: the last third of the run against the second."""
    third = len(samples) // 3
    middle, last = samples[third : 2 * third], samples[2 * third :]
    before, after = (statistics.median(sample.resident_bytes for sample in part) for part in (middle, last))
    problems: list[str] = []
    if after > before * (1 + MEMORY_GROWTH_MAX):
        problems.append(f"memory grew from {before / 1e6:.1f} to {after / 1e6:.1f} MB")
    files = [statistics.median(sample.open_files for sample in part) for part in (middle, last)]
    if files[1] > files[0]:
        problems.append(f"open files grew from {files[0]:.0f} to {files[1]:.0f}")
    if (wal := max(sample.wal_bytes for sample in samples)) > WAL_BYTES_MAX:
        problems.append(f"the write-ahead log grew to {wal / 1e6:.1f} MB")
    return problems


async def _run(place: Path, seconds: float, *, leak: bool) -> list[Sample]:
    samples: list[Sample] = []
    leaked: list[HttpPeer] = []
    with Hub(place) as hub:
        (topic_id,) = await hub.make_topics("soak", "steady")
        tally = Tally()
        feeds = [await hub.subscribe(tally, after=0) for _ in range(SUBSCRIBERS)]
        (peer,) = await hub.connect(1)
        start = time.monotonic()
        for number in range(round(seconds * MESSAGES_PER_SECOND)):
            body = {"topic_id": topic_id, "sender": "soak", "content_raw": content(number)}
            check_success(await peer.call(hub.request("POST", "/api/v1/messages", body)))
            if number % (MESSAGES_PER_SECOND // 2) == 0:
                samples.append(_sample(hub))
            if leak and number % (MESSAGES_PER_SECOND // 10) == 0:
                leaked += await hub.connect(1)
            await asyncio.sleep(max(0.0, start + (number + 1) / MESSAGES_PER_SECOND - time.monotonic()))
        for connection in (peer, *feeds, *leaked):
            connection.close()
    return samples


def _sample(hub: Hub) -> Sample:
    wal = hub.database.with_name(hub.database.name + "-wal")
    return Sample(hub.process.resident_bytes(), hub.process.open_files(), wal.stat().st_size if wal.exists() else 0)
