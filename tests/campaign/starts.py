"""Many starts in one workspace at the same moment: one hub, and the others say who was first.

Rounds of ``parley up``, as users start it, take turns with rounds of processes that have everything imported already
and wait for one signal, so that they really meet at the lock.
"""

import asyncio
import shutil
import signal
import sys
from pathlib import Path
from typing import NamedTuple

from parley.core.exits import Exit
from tests.campaign.forked import ForkedStart, starting_gun
from tests.campaign.report import Report

AT_ONCE = 6
DEADLINE_SECONDS = 180.0


class Start(NamedTuple):
    """What became of one start: it serves (``announced``), or it ended with a code and said something."""

    pid: int
    announced: bool
    exit_code: int | None
    said: str


async def simultaneous_starts(folder: Path, *, rounds: int, seed: int) -> Report:
    """Control: two starts with a workspace each, so that nothing keeps one of them from serving."""
    report = Report("starts", seed)
    for number in range(rounds):
        place = folder / f"round-{number}"
        start = _by_command if number % 2 == 0 else _by_fork
        report.violations += [f"round {number}: {problem}" for problem in _problems(await start([place] * AT_ONCE))]
        report.runs += 1
        shutil.rmtree(place)
    report.control = _problems(await _by_fork([folder / "apart", folder / "from-it"]))
    return report


def _problems(starts: list[Start]) -> list[str]:
    winners = [start for start in starts if start.announced]
    if len(winners) != 1:
        return [f"{len(winners)} hubs serve at once"]
    first = winners[0].pid
    return [
        f"a late start ended with {start.exit_code} and said {start.said!r}, where {first} serves"
        for start in starts
        if not start.announced and (start.exit_code != Exit.ALREADY_RUNNING or str(first) not in start.said)
    ]


async def _by_fork(places: list[Path]) -> list[Start]:
    """As ``_by_command``, with processes that are ready to go."""
    go = starting_gun()
    racers = [ForkedStart(place, go) for place in places]
    go.set()
    try:
        return [_finish(racer) for racer in racers]
    finally:
        for racer in racers:
            racer.stop()


def _finish(racer: ForkedStart) -> Start:
    said = racer.outcome()
    return Start(racer.pid, said.get("status") == "running", racer.exit_code, str(said))


async def _by_command(places: list[Path]) -> list[Start]:
    """Starts one hub per place at once, waits until each serves or has ended, and stops those that serve."""
    for place in set(places):
        place.mkdir()
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "parley", "up", "--json", "--workspace", str(place)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        for place in places
    ]
    try:
        return await asyncio.wait_for(asyncio.gather(*map(_watch, processes)), DEADLINE_SECONDS)
    finally:
        for process in processes:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await process.communicate()


async def _watch(process: asyncio.subprocess.Process) -> Start:
    assert process.stdout is not None
    said = ""
    while line := (await process.stdout.readline()).decode():
        said += line
        if '"running"' in line:
            return Start(process.pid, True, None, said)
    return Start(process.pid, False, await process.wait(), said)
