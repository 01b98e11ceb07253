"""kill -9 of the real hub under load, again and again.

A cycle: start the hub, judge what the last kill left, retry what was never answered, let the agents talk, kill the hub
at a random moment; some starts are killed on their way, too. A subscriber resumes from its cursor after each kill and
must have seen every event of the log once, in order. A workspace serves some cycles and then gives way to a new one, so
that judging stays cheap.
"""

import asyncio
import contextlib
import json
import random
import shutil
import statistics
import time
from pathlib import Path

import apsw

from bench.load.feed import Subscriber, Tally, subscribe
from bench.load.hub import Hub
from parley.sqlite import open_reader
from parley.workspace import queries
from tests.campaign.agents import Ledger, retry, talking
from tests.campaign.forked import ForkedHub, ForkedStart
from tests.campaign.judge import judge
from tests.campaign.report import Report

AGENTS = 6
CYCLES_PER_WORKSPACE = 20
COMMAND_EVERY = 20
"""Every so many cycles the hub is started by its command, else forked from a process that has imported it already."""
LOAD_SECONDS = (0.0, 0.12)
KILLED_START_SHARE = 0.2
START_SECONDS = (0.0, 0.15)
RETRIES_OF_ACKNOWLEDGED = 3
CATCH_UP_SECONDS = 30.0
CONFIG = "[limits]\nmove_batch_max = 5\n"
"""Small enough that moves are cut into chunks, which a kill can come between."""


class Watcher:
    """A subscriber that remembers every event id it was sent, over any number of connections."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self._tally = Tally()
        self._feed: Subscriber | None = None

    async def resume(self, hub: Hub) -> None:
        self._tally = Tally()
        self._feed = await subscribe(
            hub.host,
            hub.port,
            hub.token,
            after=self.seen[-1] if self.seen else 0,
            tally=self._tally,
            on_event=lambda text: self.seen.append(json.loads(text)["event_id"]),
        )

    async def catches_up(self, latest: int) -> None:
        """Returns when the event with this id has come. Event ids follow each other without a gap."""
        missing = latest - (self.seen[-1] if self.seen else 0)
        await asyncio.wait_for(self._tally.reaches(self._tally.total + missing), CATCH_UP_SECONDS)


async def kill_cycles(folder: Path, *, cycles: int, seed: int, keep: Path | None = None) -> Report:
    """``keep`` gets a copy of each workspace as its last kill left it.

    Control: copies of a database with an event, or a message, taken away, and an acknowledgement never given.
    """
    report = Report("kill", seed)
    rng = random.Random(seed)
    starts: dict[bool, list[float]] = {False: [], True: []}
    requests = 0
    for first in range(0, cycles, CYCLES_PER_WORKSPACE):
        place, ledger, watcher = folder / f"workspace-{first}", Ledger(), Watcher()
        for number in range(first, min(first + CYCLES_PER_WORKSPACE, cycles)):
            if rng.random() < KILLED_START_SHARE:
                ForkedStart(place).kill(after_seconds=rng.uniform(*START_SECONDS))
            hub = _start(place, starts, by_fork=number % COMMAND_EVERY != 0)
            problems = await _cycle(hub, ledger, watcher, rng, f"a{number}")
            report.runs += 1
            report.violations += [f"cycle {number}: {problem}" for problem in problems]
        if keep is not None:
            shutil.copytree(place, keep / f"kill-{first}")
        with Hub(place, config=CONFIG, launch=ForkedHub) as hub:
            report.violations += [f"end of {place.name}: {p}" for p in await _verify(hub, ledger, watcher)]
        requests += ledger.requests
        if not report.control:
            report.control = control(place / ".parley" / "db.sqlite3", ledger, folder / "control")
        shutil.rmtree(place)
    report.facts = {
        "requests": requests,
        "start_ms_by_command_p50": _median_ms(starts[False]),
        "start_ms_by_fork_p50": _median_ms(starts[True]),
        "seconds_per_cycle": round((time.monotonic() - report.started) / max(1, report.runs), 3),
    }
    return report


def _start(place: Path, starts: dict[bool, list[float]], *, by_fork: bool) -> Hub:
    begun = time.perf_counter()
    hub = Hub(place, config=CONFIG, launch=ForkedHub if by_fork else None)
    starts[by_fork].append(time.perf_counter() - begun)
    return hub


async def _cycle(hub: Hub, ledger: Ledger, watcher: Watcher, rng: random.Random, label: str) -> list[str]:
    try:
        if not ledger.topics:
            ledger.topics = await hub.make_topics("campaign", "one", "two", "three")
            topic = (await hub.ask("GET", f"/api/v1/topics/{ledger.topics[0]}"))["topic"]
            ledger.channel_id = topic["channel_id"]
        problems = await _verify(hub, ledger, watcher)
        talk = await talking(hub, ledger, rng, AGENTS, label)
        await asyncio.sleep(rng.uniform(*LOAD_SECONDS))
    finally:
        hub.process.kill()
    await talk
    return problems


async def _verify(hub: Hub, ledger: Ledger, watcher: Watcher) -> list[str]:
    """What is wrong with the state that the restarted hub serves."""
    for request in list(ledger.unanswered.values()):
        await retry(hub, ledger, request, known=False)
    for request in list(ledger.acknowledged.values())[-RETRIES_OF_ACKNOWLEDGED:]:
        await retry(hub, ledger, request, known=True)
    database = open_reader(hub.database)
    try:
        problems = ledger.problems + judge(database, ledger.acks)
        await watcher.resume(hub)
        await watcher.catches_up(queries.latest_event_id(database))
        logged = [event.event_id for event in queries.logged_events(database)]
    finally:
        database.close()
    ledger.problems = []
    if watcher.seen != logged:
        problems.append(f"the subscriber saw {len(watcher.seen)} events, the log holds {len(logged)}")
    return problems


def _median_ms(seconds: list[float]) -> int | None:
    return round(statistics.median(seconds) * 1e3) if seconds else None


def control(database: Path, ledger: Ledger, folder: Path) -> list[str]:
    """What the judge says of three broken copies; empty if it passed any of them."""
    folder.mkdir(exist_ok=True)
    found: list[str] = []
    for number, statement in enumerate(
        (
            "DELETE FROM events WHERE event_id = (SELECT max(event_id) FROM events WHERE name = 'message.created')",
            "DELETE FROM messages WHERE seq = (SELECT max(seq) FROM messages)",
        )
    ):
        copy = folder / f"broken-{number}.sqlite3"
        shutil.copyfile(database, copy)
        problems = judge(_damaged(copy, statement), ledger.acks)
        if not problems:
            return []
        found += problems
    never_given = ledger.acks[-1]._replace(event_id=ledger.acks[-1].event_id + 1_000_000)
    with contextlib.closing(open_reader(database)) as connection:
        problems = judge(connection, [never_given])
    return [*found, *problems] if problems else []


def _damaged(path: Path, statement: str) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    for trigger in ("prevent_event_delete", "prevent_message_delete"):
        connection.execute(f"DROP TRIGGER {trigger}")
    connection.execute("PRAGMA foreign_keys=OFF").fetchall()
    connection.execute(statement)
    return connection
