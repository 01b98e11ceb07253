"""A disk that really fills up under a real hub, and has room again later.

With the right to mount, the workspace lies on a small file system of its own that is filled to the last byte; in any
case the kernel is told not to let the files of the hub grow, which it reports as an I/O error and not as a full disk.
Writes must be refused with a typed 503, reads must go on, nothing acknowledged may be lost, and writes must return with
the space.
"""

import contextlib
import os
import random
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench.load.hub import Hub
from parley.sqlite import open_reader
from tests.campaign.agents import Ledger, talking
from tests.campaign.judge import Ack, judge
from tests.campaign.report import Report

AGENTS = 4
REFUSALS = 20
ACKS = 50
TMPFS_SIZE = "32m"
ROOM_BYTES = 256 * 1024
CONFIG = "[trouble]\ndisk_free_bytes_min = 0\n"
"""The hub would stop taking writes long before the disk is full; here it must meet the end of it."""


async def full_disk(folder: Path, *, rounds: int, seed: int) -> Report:
    """Control: the judge is given an acknowledgement that was really a refusal."""
    report = Report("full_disk", seed)
    for how in ("mounted", "limited"):
        for number in range(rounds):
            place = folder / f"{how}-{number}"
            place.mkdir()
            with contextlib.ExitStack() as stack:
                if how == "mounted" and not _mount(place, stack):
                    report.facts["mounted"] = "not allowed here"
                    break
                problems, control = await _round(place, how, random.Random(seed + number))
            report.runs += 1
            report.violations += [f"{how} {number}: {problem}" for problem in problems]
            report.control += control
    return report


async def _round(place: Path, how: str, rng: random.Random) -> tuple[list[str], list[str]]:
    ledger = Ledger()
    with Hub(place, config=CONFIG) as hub:
        ledger.topics = await hub.make_topics("campaign", "one", "two")
        talk = await talking(hub, ledger, rng, AGENTS, "agent")
        try:
            await ledger.until(lambda: len(ledger.acks) >= ACKS)
            with _no_space(hub, place) if how == "mounted" else _no_growth(hub):
                await ledger.until(lambda: sum(ledger.refused.values()) >= REFUSALS)
                await hub.ask("GET", f"/api/v1/messages?topic_id={ledger.topics[0]}")
                await hub.ask("GET", "/health")
            before = len(ledger.acks)
            await ledger.until(lambda: len(ledger.acks) >= before + ACKS)
        except TimeoutError:
            ledger.problems.append(f"stuck: {len(ledger.acks)} acknowledged, refused {ledger.refused}")
        finally:
            hub.process.kill()
            await talk
        with contextlib.closing(open_reader(hub.database)) as database:
            problems = ledger.problems + judge(database, ledger.acks)
            control = judge(database, [Ack(1 << 40, "message.created", "msg_refused")])
    return problems, control


@contextlib.contextmanager
def _no_space(hub: Hub, place: Path) -> Iterator[None]:
    """Fills the file system to the last byte for the time of the block."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:
        block = 1 << 20
        while block:
            try:
                file.write(bytes(block))
            except OSError:
                block //= 2
    try:
        yield
    finally:
        ballast.unlink()


@contextlib.contextmanager
def _no_growth(hub: Hub) -> Iterator[None]:
    """Lets no file of the hub grow beyond a little more than it has, for the time of the block."""
    wal = hub.database.with_name(hub.database.name + "-wal")
    unlimited = resource.prlimit(hub.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(hub.process.pid, resource.RLIMIT_FSIZE, (wal.stat().st_size + ROOM_BYTES, unlimited[1]))
    try:
        yield
    finally:
        resource.prlimit(hub.process.pid, resource.RLIMIT_FSIZE, unlimited)


def _mount(place: Path, stack: contextlib.ExitStack) -> bool:
    """Whether a file system could be mounted there; it is unmounted when the stack is left."""
    if os.geteuid() != 0:
        return False
    command = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_SIZE}", "none", str(place)]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        return False
    stack.callback(subprocess.run, ["umount", str(place)], check=True)
    return True
