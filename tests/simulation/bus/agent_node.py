"""One machine with a bus: its disk, its clock, what it was asked to say, and that it can die at any moment."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import apsw

from parley.bus import (
    Bus,
    BusOptions,
    Caveats,
    Fingerprint,
    Identity,
    Message,
    StaticResolver,
    certify,
    fingerprint_of,
    state,
)
from parley.bus.revocation import NOTHING_REVOKED, Revocations
from parley.bus.sqlite_store import SqliteMethods
from parley.bus.store_file import MIGRATIONS, as_bus_error
from parley.bus.transport import Address
from parley.core.bus_errors import BusError, Revoked
from parley.core.errors import ParleyError
from parley.core.sealing import public_key
from parley.sqlite import Write, close_quietly, open_checked, run_batch
from tests.bus.timeless import LoopClock
from tests.simulation.bus.ledger import Ledger, Said
from tests.simulation.bus.lives import Life, SimulatedLoop
from tests.simulation.bus.wires import SimulatedTransport, Wires
from tests.simulation.disk import Disk
from tests.simulation.scheduler import Scheduler

T = TypeVar("T")
COMMIT_SECONDS: Final = 0.004
LATER_SECONDS: Final = 0.02
CHECKPOINT_CHANCE: Final = 0.02
HANDLING_SECONDS: Final = 1.0
SPOOL_MS: Final = 2 * 3_600_000
TOPIC, ASKED = "news", "ask"
_BEGINNING_MS: Final = 1_767_225_600_000
_USER: Final = b"\1" * 32


class Saying(NamedTuple):
    """What a program wants to say."""

    at: float
    said: Said


class SimulatedStore(SqliteMethods):
    """The durable store, committed in the world's time to a disk of its own."""

    synchronous = "FULL"

    def __init__(self, connection: apsw.Connection, rng: random.Random, cut: Callable[[], bool]) -> None:
        """``cut`` tells whether the power went meanwhile, and then everything ends."""
        super().__init__()
        self.connection = connection
        connection.execute(f"PRAGMA synchronous={self.synchronous}")
        self._rng = rng
        self._cut = cut
        self._waiting: list[tuple[Write[Any], asyncio.Future[Any]]] = []
        self._timer: asyncio.TimerHandle | None = None

    def is_over(self) -> bool:
        """Whether its machine is gone."""
        return self._cut()

    def submit(self, write: Write[T], *, later: bool = False) -> "asyncio.Future[T]":
        """Has the write committed with what else waits then."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._waiting.append((write, answer))
        due = loop.time() + (LATER_SECONDS if later else self._rng.uniform(0.001, COMMIT_SECONDS))
        if self._timer is None or self._timer.when() > due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(due, self.commit)
        return answer

    async def _run(self, write: Write[T], *, later: bool = False) -> T:
        try:
            return await self.submit(write, later=later)
        except ParleyError as error:
            raise as_bus_error(error) from error

    def _refuse(self) -> None:
        """It never gives up before its machine does."""

    async def close(self) -> None:
        self.commit()
        if not self._cut():
            close_quietly(self.connection)

    def commit(self) -> None:
        """Commits what waits, and answers."""
        self._timer = None
        taken, self._waiting = self._waiting, []
        if self._cut():
            return
        outcomes = run_batch(self.connection, [write for write, _ in taken])
        if self._cut():
            return  # whoever waits will never hear of it
        for (_, answer), outcome in zip(taken, outcomes, strict=True):
            if answer.done():
                continue
            if outcome.error is None:
                answer.set_result(outcome.value)
            else:
                answer.set_exception(outcome.error)
        if self._rng.random() < CHECKPOINT_CHANCE:
            with contextlib.suppress(apsw.Error):
                self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._cut()


class AgentNode:
    """The machine. ``start``, ``crash`` and ``restart`` are its lives."""

    def __init__(
        self, number: int, scheduler: Scheduler, loop: SimulatedLoop, wires: Wires, ledger: Ledger, folder: Path
    ) -> None:
        self.name = f"agent-{number}"
        self.seed = bytes([number + 2]) * 32
        self.fingerprint = fingerprint_of(public_key(self.seed))
        self.clock = LoopClock(loop)
        self.disk = Disk()
        self.clock_is_off_ms = 0
        self.crashes = self.lives = 0
        self.bus: Bus | None = None
        self.revocations: Revocations = NOTHING_REVOKED
        self.unsaid: list[Saying] = []
        self.others: list[AgentNode] = []
        self._chain = certify(_USER, public_key(self.seed), role=self.name, caveats=Caveats(), now_ms=_BEGINNING_MS)
        self._scheduler = scheduler
        self._rng = scheduler.stream(self.name)
        self._loop = loop
        self._wires = wires
        self._ledger = ledger
        self._path = folder / f"{self.name}.db"
        self._life = Life()
        self._life.is_over = True
        self._resolver = StaticResolver()
        self._transport: SimulatedTransport | None = None
        self._store: SimulatedStore | None = None

    @property
    def is_up(self) -> bool:
        """Whether a life goes on."""
        return not self._life.is_over

    def start(self) -> None:
        """Begins a life with what is on the disk."""
        if self.is_up:
            return
        self.lives += 1
        self._life = Life()
        self._life.begin(self._live(self._life))

    def crash(self, *, torn: bool) -> None:
        """Ends this life: as by a kill, or, ``torn``, as by a power cut."""
        if not self.is_up:
            return
        self.crashes += 1
        self._life.end()
        self.disk.switch_off()
        self.bus = None
        if self._transport is not None:
            self._transport.die(self._rng)
        if self._store is not None:
            close_quietly(self._store.connection)
        self._transport = self._store = None
        self.disk.start_again(self._scheduler.stream(f"{self.name}/{self.lives}/tear"), torn=torn)

    def restart(self) -> None:
        """Closes the bus as a program does, and begins anew."""
        if self.bus is not None:
            self._life.begin(self._restart(self.bus, self._life))

    def cut_power_within(self, operations: int) -> None:
        """The power goes in the midst of one of the next writes."""
        self.disk.cut_after = self.disk.operations + operations

    def revoke(self, peer: Fingerprint) -> None:
        """The user says here that the peer is revoked."""
        statement = state(_USER, self.revocations, [peer], next_generation=False, now_ms=_BEGINNING_MS)
        if self.bus is not None:
            self._life.begin(_learn(self.bus, statement.encode()))

    def meet(self, other: "AgentNode") -> None:
        """The other one is announced here."""
        if self.is_up and other.bus is not None:
            self._life.begin(_announce(self._resolver, other.fingerprint, other.bus.address))

    @property
    def database(self) -> apsw.Connection:
        """What it has on its disk, while it is up."""
        assert self._store is not None
        return self._store.connection

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What the database answers."""
        return self.database.execute(statement).fetchall()

    def _power_is_cut(self) -> bool:
        if self.disk.is_off and self.is_up:
            self.crash(torn=True)
        return self.disk.is_off or not self.is_up

    async def _live(self, life: Life) -> None:
        try:
            bus = await self._bound(life)
        except Revoked:
            self.crash(torn=False)
            return
        except Exception:
            if not self.disk.is_off:
                raise
            self.crash(torn=True)
            return
        self.bus = bus
        bus.subscribe(TOPIC, self._hear)
        bus.handle(ASKED, self._answer)
        for other in self.others:
            other.meet(self)
            self.meet(other)
        await self._speak(bus)

    async def _bound(self, life: Life) -> Bus:
        connection = open_checked(self._path, MIGRATIONS, now_ms=self.clock.now_ms(), vfs=self.disk.name)
        rng = self._scheduler.stream(f"{self.name}/{self.lives}")
        self._store = SimulatedStore(connection, rng, lambda: life.is_over or self._power_is_cut())
        self._transport = SimulatedTransport(self._wires, self.fingerprint, life)
        self._resolver = StaticResolver()
        return await Bus.bind_with(
            Identity(self.seed, self._chain, self.revocations),
            store=self._store,
            resolver=self._resolver,
            transport=self._transport,
            options=BusOptions(
                spool_ms=SPOOL_MS,
                topics=frozenset({TOPIC}),
                random_bytes=rng.randbytes,
                jitter=rng.random,
                keep_revocations=self._keep,
            ),
            clock=self.clock,
        )

    def _keep(self, revocations: Revocations) -> None:
        self.revocations = revocations

    async def _restart(self, bus: Bus, life: Life) -> None:
        self.bus = None
        await bus.close()
        life.end()
        self._store = self._transport = None
        self.start()

    async def _speak(self, bus: Bus) -> None:
        """Says what is to be said, each at its time. What a death cut short is said again, under its own id or not."""
        while not bus.is_closed:
            if not self.unsaid or self.unsaid[0].at > self._loop.time():
                await asyncio.sleep(0.2)
                continue
            self._life.begin(self._say(bus, self.unsaid.pop(0).said))

    async def _say(self, bus: Bus, said: Said) -> None:
        self._ledger.begin(said)
        try:
            if said.topic == ASKED:
                answer = await bus.request(said.recipient, ASKED, said.body, message_id=said.message_id)
                self._ledger.end(said, "answered" if answer == said.body[::-1] else "misled")
            else:
                delivery = await bus.publish_to(said.recipient, TOPIC, said.body, message_id=said.message_id)
                has_waited = delivery.outcome == "spooled" and delivery.error is None
                self._ledger.end(said, delivery.outcome, delivery.outbox_id, has_waited=has_waited)
        except BusError as error:
            self._ledger.end(said, f"failed: {error.code}")
        except asyncio.CancelledError:
            self._ledger.end(said, "unknown")
            if self._rng.random() < 0.5:
                self.unsaid.insert(0, Saying(0.0, said))
            raise

    async def _hear(self, message: Message) -> None:
        handling = self._ledger.hear(self.name, self.fingerprint, self.lives, message)
        await asyncio.sleep(self._rng.uniform(0, HANDLING_SECONDS))
        if not self._life.is_over:
            self._ledger.heard(handling)

    async def _answer(self, message: Message) -> bytes:
        await self._hear(message)
        return message.body[::-1]


async def _learn(bus: Bus, statement: bytes) -> None:
    await bus.learn([statement])


async def _announce(resolver: StaticResolver, peer: Fingerprint, address: Address) -> None:
    """In the life of whoever is told, to which all belongs that comes of it."""
    resolver.announce(peer, address)
