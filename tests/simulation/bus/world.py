"""Agents of one user on a LAN in one process: their buses, disks, clocks and network, from one seed.

In each round they say things to each other while frames are late, connections are cut, machines are partitioned, are
killed, lose power in the midst of a write or have their clocks set, buses are closed and opened again, and somebody
plays back what was overheard, in its own connection and in others. In some worlds one agent is revoked. Then the
weather calms, and when everything has come to rest it is looked at what must hold.
"""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from parley.bus import Fingerprint
from parley.bus.outbox_rows import notes, page
from tests.simulation.bus.agent_node import ASKED, TOPIC, AgentNode, Saying
from tests.simulation.bus.ledger import Kept, Ledger, Said
from tests.simulation.bus.lives import SimulatedLoop
from tests.simulation.bus.wires import CALM, Weather, Wires
from tests.simulation.scheduler import Scheduler
from tests.simulation.world import Result

STORMS: Final = (Weather(0.001, 0.05), Weather(0.01, 0.5), Weather(0.001, 3.0))
CLOCK_MS: Final = 12 * 3_600_000
"""By how much a clock may be off. What a clock that jumps makes expire is told."""
SETTLE_SECONDS: Final = 4_000.0
NONCES_KEPT: Final = 8
"""So few that the marks are what keeps replays out."""
_ALL: Final = 10_000


@dataclass(frozen=True)
class Plan:
    """The size of a world, and what goes wrong in it."""

    agents: int = 4
    rounds: int = 2
    messages: int = 14
    """For each agent and round."""
    seconds: float = 60.0
    """How long a round takes."""
    trouble_seconds: float = 1.5
    """About how long nothing new goes wrong."""


class BusWorld:
    """One world, to be run once."""

    def __init__(self, seed: int, folder: Path, plan: Plan | None = None) -> None:
        self.plan = plan or Plan()
        self.scheduler = Scheduler(seed)
        self.ledger = Ledger()
        self._folder = folder
        self._rng = self.scheduler.stream("trouble")
        self._revoked: list[Fingerprint] = []
        self._crashes = 0

    def run(self) -> Result:
        """The whole course."""
        with (
            patch("parley.bus.inbox_rows.BUS_NONCES_KEPT", NONCES_KEPT),
            asyncio.Runner(loop_factory=SimulatedLoop) as runner,
        ):
            problems = runner.run(self._run())
        return Result(self.scheduler.seed, self.ledger.operations, self._crashes, self._digest(), problems)

    async def _run(self) -> list[str]:
        self._begin()
        problems: list[str] = []
        for number in range(self.plan.rounds):
            await self._storm(is_last=number == self.plan.rounds - 1)
            problems = await self._calm()
            if problems:
                break
        self._kept = {each.fingerprint: _kept(each) for each in self.nodes}
        problems += self.ledger.in_the_end(self._kept, self._revoked)
        self._crashes = sum(node.crashes for node in self.nodes)
        for node in self.nodes:
            node.crash(torn=False)
        return problems

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        self._loop = loop
        self.wires = Wires(self.scheduler.stream("wires"), self._overhear)
        self.nodes = [
            AgentNode(number, self.scheduler, loop, self.wires, self.ledger, self._folder)
            for number in range(self.plan.agents)
        ]
        for node in self.nodes:
            node.others = [each for each in self.nodes if each is not node]
            node.start()

    def _overhear(self, sender: Fingerprint, recipient: Fingerprint, frame: bytes, arrived: bool) -> None:
        for node in self.nodes if arrived else ():
            if node.fingerprint == recipient and node.bus is not None:
                self.ledger.revoked[recipient] = node.bus.revocations.revoked
        self.ledger.overhear(sender, recipient, frame, arrived)

    async def _storm(self, *, is_last: bool) -> None:
        rng, until = self._rng, self._loop.time() + self.plan.seconds
        self.wires.weather = rng.choice(STORMS)
        for node in self.nodes:
            times = sorted(self._loop.time() + rng.uniform(0, self.plan.seconds) for _ in range(self.plan.messages))
            node.unsaid += [Saying(at, self._said(node)) for at in times]
        revoking = until - rng.uniform(0, self.plan.seconds) if is_last and self.scheduler.seed % 2 else None
        while (trouble_at := self._loop.time() + rng.uniform(0, 2 * self.plan.trouble_seconds)) < until:
            await asyncio.sleep(trouble_at - self._loop.time())
            self._trouble()
            if revoking is not None and self._loop.time() > revoking and self.nodes[0].bus is not None:
                self._revoke(self.nodes[-1])
                revoking = None
        await asyncio.sleep(until - self._loop.time())

    def _said(self, node: AgentNode) -> Said:
        rng = self._rng
        topic = ASKED if rng.random() < 0.2 else TOPIC
        body = f"{node.name} says {len(self.ledger.accounts)} {rng.getrandbits(40):x}".encode()
        return Said(node.fingerprint, rng.choice(node.others).fingerprint, topic, body, rng.randbytes(16))

    def _trouble(self) -> None:
        rng, node = self._rng, self._rng.choice(self.nodes)
        kinds: list[tuple[int, Callable[[], Any]]] = [
            (3, lambda: node.crash(torn=rng.random() < 0.5)),
            (3, lambda: node.cut_power_within(1 + rng.randrange(40))),
            (2, node.restart),
            (3, self._cut_a_wire),
            (2, lambda: self._partition(node)),
            (2, lambda: self._set_clock(node)),
            (8, self._play_back),
        ]
        rng.choices([act for _, act in kinds], [weight for weight, _ in kinds])[0]()
        for each in self.nodes:
            if not each.is_up:
                self._loop.call_later(rng.uniform(0, 6), lambda each=each: each.start())

    def _cut_a_wire(self) -> None:
        if self.wires.channels:
            channel = self._rng.choice(list(self.wires.channels))
            channel.cut(here=self._rng.random() < 0.5, there=self._rng.random() < 0.5)

    def _partition(self, node: AgentNode) -> None:
        self.wires.partition(node.fingerprint)
        self._loop.call_later(self._rng.choice((0.5, 5, 90)), self.wires.heal, node.fingerprint)

    def _set_clock(self, node: AgentNode) -> None:
        wanted = self._rng.randrange(-CLOCK_MS, CLOCK_MS)
        node.clock.jump(wanted - node.clock_is_off_ms)
        node.clock_is_off_ms = wanted

    def _play_back(self) -> None:
        """What was overheard comes again: to whom it was sent, mostly, or to anybody, from anybody."""
        open_ = [each for each in self.wires.channels if each.taken]
        for _ in range(self._rng.randrange(1, 6)):
            if not self.ledger.captured or not open_:
                return
            captured = self._rng.choice(self.ledger.captured)
            same = [each for each in open_ if (each.peer, each.owner.agent) == captured[:2]]
            channel = self._rng.choice(same if same and self._rng.random() < 0.8 else open_)
            channel.put(captured.frame)

    def _revoke(self, node: AgentNode) -> None:
        self._revoked.append(node.fingerprint)
        self.nodes[0].revoke(node.fingerprint)

    async def _calm(self) -> list[str]:
        """Waits until nothing more is on its way; what still is when the time is up."""
        self.wires.weather = CALM
        until = self._loop.time() + SETTLE_SECONDS
        while self._loop.time() < until:
            for node in self.nodes:
                self.wires.heal(node.fingerprint)
                node.disk.cut_after = None
                node.start()
            await asyncio.sleep(5)
            if not self._unfinished():
                return []
        return [f"never came to rest: {each}" for each in self._unfinished()]

    def _unfinished(self) -> list[str]:
        found: list[str] = []
        for node in self.nodes:
            if node.fingerprint in self._revoked:
                continue
            if node.bus is None:
                found.append(f"{node.name} is not up")
                continue
            rows = node.rows("SELECT message_id, last_error, peer FROM outbox WHERE wedged IS NULL")
            found += [
                f"{node.name} has {row[0].hex()} in its outbox: {row[1]}" for row in rows if row[2] not in self._revoked
            ]
            rows = node.rows("SELECT id, dispatches FROM inbox WHERE NOT wedged")
            found += [f"{node.name} has {row[0]} in its inbox, tried {row[1]} times" for row in rows]
            found += [f"{node.name} has to say {each.said.body!r}" for each in node.unsaid]
        return found

    def _digest(self) -> str:
        """Over everything that was said, heard and kept, and over how much happened on the way."""
        counted = (self._loop.time(), self.wires.frames, self.ledger.refused, self._crashes)
        kept = [tuple(sorted(each)) for kept in self._kept.values() for each in kept]
        return hashlib.sha256(repr((counted, list(self.ledger.accounts.values()), kept)).encode()).hexdigest()


def _kept(node: AgentNode) -> Kept:
    if node.bus is None:
        return Kept(frozenset(), frozenset(), frozenset())
    items = page(node.database, 0, _ALL)
    return Kept(
        frozenset(each.message_id for each in items if each.wedged is None),
        frozenset(each.message_id for each in items if each.wedged is not None),
        frozenset(each.message_id for each in notes(node.database, _ALL)),
    )
