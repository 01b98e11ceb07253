"""The programs of one machine, which ask its daemon to send, and an operator who sends some things anew.

A program that got no answer asks again with the same id, for as long as it takes. Now and then one repeats what was
answered long ago, and one uses an id again for something else, which must be refused. Ids are small numbers, the same
on every machine: nothing may rest on two senders never choosing the same.
"""

from collections.abc import Callable
from typing import Protocol

from parley.daemon.outbox.accept import Taken
from parley.wire.broker import DestinationKind, Priority
from tests.simulation.ledger import Asked, Ledger
from tests.simulation.population import GROUPS, NOWHERE, TOPICS, Population
from tests.simulation.scheduler import Scheduler

PATIENCE_MS = 3_000
LARGE_BYTES = 3_000
PRIORITIES: tuple[Priority, ...] = ("now", "next", "next", "low")
KINDS: tuple[DestinationKind, ...] = ("dm", "dm", "topic", "queue")
Answer = Callable[[Taken | Exception], None]


class Daemon(Protocol):
    """What a program sees of its daemon. An answer that never comes is one that was lost."""

    name: str
    is_up: bool

    def ask(self, message: Asked, answer: Answer) -> None: ...

    def requeue(self, message: Asked, successor: Asked, *, force: bool) -> None: ...


class Programs:
    """All programs of one machine."""

    def __init__(self, daemon: Daemon, people: Population, ledger: Ledger, scheduler: Scheduler) -> None:
        self.is_over = False
        self._daemon = daemon
        self._people = people
        self._ledger = ledger
        self._scheduler = scheduler
        self._rng = scheduler.stream(f"{daemon.name}/programs")
        self._numbers = 0

    def start(self, messages: int, pause_ms: int) -> None:
        """Asks for so many messages, with pauses of about this length."""
        self._act(messages, pause_ms)

    @property
    def is_waiting(self) -> bool:
        """Whether something was asked and not answered yet."""
        return any(not each.promised for each in self._ledger.of(self._daemon.name) if not each.is_successor)

    def _act(self, left: int, pause_ms: int) -> None:
        if left == 0:
            self.is_over = True
            return
        for _ in range(min(left, 1 + self._rng.randrange(4))):
            self._send()
            left -= 1
        fate, asked = self._rng.random(), self._ledger.of(self._daemon.name)
        if fate < 0.10:
            self._ask(self._rng.choice(asked))
        elif fate < 0.15:
            self._reuse(self._rng.choice(asked))
        elif fate < 0.20:
            self._requeue(self._rng.choice(asked[-20:]))
        self._scheduler.after(self._rng.randrange(2 * pause_ms), lambda: self._act(left, pause_ms))

    def _send(self) -> None:
        mesh_id = self._rng.choice(self._people.meshes_of(self._daemon.name))
        kind, ref = self._destination(mesh_id)
        message = self._message(mesh_id, kind, ref, self._text())
        self._ledger.ask(message)
        self._ask(message)

    def _message(self, mesh_id: str, kind: DestinationKind, ref: str, text: str) -> Asked:
        self._numbers += 1
        priority = self._rng.choice(PRIORITIES)
        return Asked(self._daemon.name, mesh_id, f"m-{self._numbers}", kind, ref, text, priority)

    def _text(self) -> str:
        length = LARGE_BYTES if self._rng.random() < 0.02 else self._rng.randrange(60)
        return f"{self._daemon.name} {self._numbers} " + "x" * length

    def _destination(self, mesh_id: str) -> tuple[DestinationKind, str]:
        rng, peers = self._rng, self._people.in_mesh(mesh_id)
        kind = rng.choice(KINDS)
        if rng.random() < 0.03:
            return kind, NOWHERE[kind]
        if kind == "dm":
            return kind, self._people.members[mesh_id, rng.choice(peers)].pubkey
        if kind == "topic":
            return kind, rng.choice(TOPICS)
        return kind, rng.choice(("*", *(f"@{group}" for group in GROUPS)))

    def _ask(self, message: Asked) -> None:
        answered = False

        def hear(answer: Taken | Exception) -> None:
            nonlocal answered
            answered = True
            if isinstance(answer, Exception):
                self._ledger.refused(message, answer)
                answered = message.promised
            else:
                self._ledger.took(message, answer.status, answer.row.broker_message_id)

        def lose_patience() -> None:
            if not answered and not message.promised:
                self._ask(message)

        if self._daemon.is_up:
            self._daemon.ask(message, hear)
        if not message.promised:
            self._scheduler.after(PATIENCE_MS, lose_patience)

    def _reuse(self, message: Asked) -> None:
        other = Asked(
            message.daemon,
            message.mesh_id,
            message.client_message_id,
            message.kind,
            message.ref,
            message.text + "!",
            message.priority,
        )
        if self._daemon.is_up and message.promised:
            self._daemon.ask(
                other, lambda answer: self._ledger.reused(message, answer if isinstance(answer, Exception) else None)
            )

    def _requeue(self, message: Asked) -> None:
        if message.requeued or not message.promised or not self._daemon.is_up:
            return
        successor = self._message(message.mesh_id, message.kind, message.ref, message.text)
        successor.priority, successor.is_successor = message.priority, True
        message.requeued = True
        self._ledger.ask(successor)
        self._daemon.requeue(message, successor, force=self._rng.random() < 0.3)
