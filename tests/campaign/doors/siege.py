"""One server under siege: what is done to it, one thing after the other, and whether it stands."""

import asyncio
import random
import time
from typing import Any, NamedTuple

from bench.load.process import Process
from parley.core.exits import Exit
from tests.campaign.doors.knocks import SMUGGLED, knock, knocks
from tests.campaign.doors.polite import Polite
from tests.campaign.doors.servers import Target
from tests.campaign.doors.strangers import Strangers

MIB = 1024 * 1024
WARM_UP_TURNS = 5
KNOCKS_AT_ONCE = 16
LOOK_SECONDS = 0.01
LATECOMERS = 100
LATECOMERS_PAUSE_SECONDS = 0.01
"""They come one by one, and take every descriptor that a polite program gives back for a moment."""
GROWTH_BYTES = 64 * MIB
"""What a server may need whatever the number of connections: for the largest requests, and what it has to remember."""
GROWTH_BYTES_PER_CONNECTION = 32 * 1024
GROWTH_BYTES_PER_CONNECTION_WITH_TLS = 128 * 1024
"""What each connection may cost of those that a server holds at once."""


class Size(NamedTuple):
    """How much is done to a server, and how long it may take."""

    halves: int
    """Connections that are opened and of which none becomes a request."""
    slow: int
    readers: int
    drip_seconds: float
    deadline_seconds: float
    """Until a polite request is answered."""
    patience_seconds: float
    """Until the server has ended every connection that keeps it waiting."""
    left: int = 50
    """Connections that are half open when it is told to stop."""


class Look(NamedTuple):
    """A server's process at one moment."""

    resident_bytes: int
    open_files: int

    @classmethod
    def at(cls, process: Process) -> "Look":
        return cls(process.resident_bytes(), process.open_files())


class Siege:
    """``problems`` and ``facts`` are complete once it was run."""

    def __init__(self, target: Target, size: Size, seed: int, room: asyncio.Semaphore) -> None:
        self.problems: list[str] = []
        self.facts: dict[str, Any] = {}
        self._target, self._size = target, size
        self._rng = random.Random(seed)
        self._polite = Polite(target, size.deadline_seconds)
        self._strangers = Strangers(target, self._rng, room)
        self._knocks = 0

    async def run(self) -> None:
        """All that is done to the server, and its end."""
        started = time.monotonic()
        known = self._target.made()
        for _ in range(WARM_UP_TURNS):
            await self._polite.turn()
        before = Look.at(self._target.process)
        asking = asyncio.create_task(self._polite.run())
        try:
            await self._attack(before)
        finally:
            self._polite.stopping = True
            await asking
            self._strangers.leave()
        self.problems += self._polite.problems
        self._judge_memory(before)
        await self._strangers.open_halves(self._size.left)
        code = await asyncio.to_thread(self._target.process.stop)
        self._strangers.leave()
        if code != Exit.OK:
            self.problems.append(f"it ended with {code} when it was asked to")
        self._judge_effects(known)
        self.facts |= {
            "seconds": round(time.monotonic() - started, 1),
            "half_open": self._strangers.opened,
            "half_open_at_once": self._strangers.most,
            "turned_away": self._strangers.turned_away,
            "knocks": self._knocks,
            "polite_answers": self._polite.answers,
            "polite_asked_again": self._polite.asked_again,
            "polite_slowest_seconds": round(self._polite.slowest_seconds, 2),
            "exit_code": code,
        }

    async def _attack(self, before: Look) -> None:
        size, strangers = self._size, self._strangers
        await strangers.drip(size.slow, size.drip_seconds)
        await strangers.read_nothing(size.readers)
        await self._knock()
        await self._until_closed("slow senders and readers", before)
        opening = asyncio.create_task(strangers.open_halves(size.halves - LATECOMERS))
        while not opening.done():
            await self._knock(until=opening)
        await opening
        await strangers.open_halves(LATECOMERS, pause_seconds=LATECOMERS_PAUSE_SECONDS)
        self.facts["open_files"] = [before.open_files, self._target.process.open_files()]
        await self._until_closed("half-open connections", before)
        self.facts["open_files"].append(self._target.process.open_files())

    async def _knock(self, until: "asyncio.Task[None] | None" = None) -> None:
        """All knocks once, or those that there is time for. In a crowd a connection may be given up unanswered."""
        waiting = iter(knocks(self._target, self._rng))

        async def one_after_the_other() -> None:
            for said in waiting:
                if until is not None and until.done():
                    return
                self.problems += await knock(self._target, said, self._rng, strict=until is None)
                self._knocks += 1

        await asyncio.gather(*(one_after_the_other() for _ in range(KNOCKS_AT_ONCE)))

    async def _until_closed(self, what: str, before: Look) -> None:
        """Waits until the server has ended all connections by itself; a polite one may be there or not."""
        started = time.monotonic()
        while self._target.process.open_files() > before.open_files:
            if time.monotonic() > started + self._size.patience_seconds:
                many = self._target.process.open_files() - before.open_files
                self.problems.append(
                    f"{many} descriptors of {what} are still open after {self._size.patience_seconds:g} s"
                )
                return
            await asyncio.sleep(LOOK_SECONDS)
        self.facts.setdefault("closed_after_seconds", {})[what] = round(time.monotonic() - started, 1)

    def _judge_memory(self, before: Look) -> None:
        process = self._target.process
        after, peak = process.resident_bytes(), process.peak_resident_bytes()
        each = GROWTH_BYTES_PER_CONNECTION if self._target.tls is None else GROWTH_BYTES_PER_CONNECTION_WITH_TLS
        bound = GROWTH_BYTES + each * self._target.connections_max
        self.facts["resident_mb"] = [round(number / MIB, 1) for number in (before.resident_bytes, peak, after)]
        self.facts["growth_mb_max"] = round(bound / MIB, 1)
        if peak - before.resident_bytes > bound:
            grown = (peak - before.resident_bytes) / MIB
            self.problems.append(f"its memory grew by {grown:.1f} MiB where {bound / MIB:.1f} are allowed")

    def _judge_effects(self, known: set[str]) -> None:
        made = self._target.made() - known
        stolen = sorted(name for name in made if name.startswith(SMUGGLED))
        if stolen:
            self.problems.append(f"what strangers said was taken for a request: {', '.join(stolen)}")
        if lost := self._polite.made - made:
            self.problems.append(f"acknowledged and lost: {', '.join(sorted(lost))}")
        if strange := made - self._polite.made - set(stolen):
            self.problems.append(f"made by nobody: {', '.join(sorted(strange))}")
