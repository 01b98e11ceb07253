"""What daemons and brokers have in common here: a disk, a clock, writers, and that they can die at any moment.

A node's code is the product's; only the shell around it is simulated. A process that died is not told: its timers fire
into nothing, its answers are never given, and what it had not written is gone.
"""

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw

from parley.sqlite import Outcome, Write, close_quietly, run_batch
from tests.simulation.disk import Disk
from tests.simulation.network import CLOSED_ABNORMALLY, End, Network, Wire
from tests.simulation.scheduler import NodeClock, Scheduler

COMMIT_MS = 4
AGAIN_MS = 1_000
"""After how long something is written again that a full disk refused."""
CHECKPOINT_CHANCE = 0.02


class Node:
    """One machine. ``start`` and ``stop_working`` are its kind's."""

    def __init__(self, name: str, scheduler: Scheduler, network: Network, folder: Path) -> None:
        self.name = name
        self.scheduler = scheduler
        self.network = network
        self.folder = folder
        self.clock = NodeClock(scheduler)
        self.disk = Disk()
        self.rng = scheduler.stream(name)
        self.is_up = False
        self.lives = 0
        """Which life of the node this is. What was scheduled in an earlier one is void."""
        self.crashes = 0
        self._frozen_until = 0

    def start(self) -> None:
        """Begins a life: opens what is on the disk and goes on from there."""
        raise NotImplementedError

    def let_go(self) -> list[apsw.Connection]:
        """Forgets everything in memory; the connections to be dropped."""
        raise NotImplementedError

    def begin(self) -> None:
        self.is_up = True
        self._frozen_until = 0
        self.lives += 1

    def crash(self, *, torn: bool) -> None:
        """Ends this life: as by a kill, or, ``torn``, as by a power cut."""
        if not self.is_up:
            return
        self.is_up = False
        self.crashes += 1
        self.disk.switch_off()
        for connection in self.let_go():
            close_quietly(connection)
        self.disk.start_again(self.scheduler.stream(f"{self.name}/{self.lives}/tear"), torn=torn)

    def leave(self, wire: Wire, end: End) -> None:
        """What becomes of a connection when its process ends: the other end is told, or only the silence tells."""
        if self.rng.random() < 0.5:
            wire.close(end, CLOSED_ABNORMALLY, "crashed")
        else:
            wire.abandon(end)

    @property
    def is_frozen(self) -> bool:
        return self.is_up and self.scheduler.now < self._frozen_until

    def freeze(self, milliseconds: int) -> None:
        """Nothing is done here for a while, as by a machine that sleeps; then all of it, late."""
        self._frozen_until = self.scheduler.now + milliseconds

    def thaw(self, action: Callable[[], None]) -> None:
        """Does it when the node is awake again."""
        self.scheduler.after(self._frozen_until - self.scheduler.now, action)

    def cut_power_within(self, operations: int) -> None:
        """The power goes in the midst of one of the next writes."""
        self.disk.cut_after = self.disk.operations + operations

    def later(self, milliseconds: int, action: Callable[[], None]) -> None:
        """Does something later in this life, if it lasts."""
        life = self.lives

        def act() -> None:
            if self.is_frozen and self.lives == life:
                self.thaw(act)
            elif self.is_up and self.lives == life:
                with self.dying_of_a_cut():
                    action()

        self.scheduler.after(milliseconds, act)

    @contextlib.contextmanager
    def dying_of_a_cut(self) -> Iterator[None]:
        """Whatever a node is doing when its power goes ends there."""
        try:
            yield
        except Exception:
            if not self.disk.is_off:
                raise
        if self.disk.is_off and self.is_up:
            self.crash(torn=True)


class SimulatedWriter:
    """The one writer of a database: what is submitted while it waits for the disk is committed together."""

    def __init__(self, node: Node, connection: apsw.Connection, rng: random.Random) -> None:
        self._node = node
        self._connection = connection
        self._rng = rng
        self._waiting: list[tuple[Write[Any], Callable[[Outcome[Any]], None]]] = []
        self._is_called = False

    def submit(self, write: Write[Any], done: Callable[[Outcome[Any]], None]) -> None:
        """Has the write committed; ``done`` is called when it is on disk, or cannot be."""
        self._waiting.append((write, done))
        if not self._is_called:
            self._is_called = True
            self._node.later(1 + self._rng.randrange(COMMIT_MS), self._commit)

    def insist(self, write: Write[Any], done: Callable[[Outcome[Any]], None] = lambda _: None) -> None:
        """Submits the write again and again until it is on disk."""

        def look(outcome: Outcome[Any]) -> None:
            if outcome.error is None:
                done(outcome)
            else:
                self._node.later(AGAIN_MS, lambda: self.insist(write, done))

        self.submit(write, look)

    def _commit(self) -> None:
        self._is_called = False
        taken, self._waiting = self._waiting, []
        outcomes = run_batch(self._connection, [write for write, _ in taken])
        if self._node.disk.is_off:
            return  # whoever waits will never hear of it
        for (_, done), outcome in zip(taken, outcomes, strict=True):
            done(outcome)
        if self._rng.random() < CHECKPOINT_CHANCE:
            with contextlib.suppress(apsw.FullError):
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
