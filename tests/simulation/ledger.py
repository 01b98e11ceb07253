"""What the programs on each machine asked for and were told: the truth that the databases are held against.

A program gives each message an id, and asks again with the same id as long as it gets no answer. From the first answer
on the daemon is bound; what it may answer to a repetition follows from the table of the contract.
"""

from dataclasses import dataclass, field

from parley.core.errors import IdempotencyKeyReused, ParleyError
from parley.wire.broker import DestinationKind, Priority

SETTLED = {"outbox_dead_fingerprint_match", "outbox_aborted_fingerprint_match"}


@dataclass
class Asked:
    """One message that a program wants sent."""

    daemon: str
    mesh_id: str
    client_message_id: str
    kind: DestinationKind
    ref: str
    text: str
    priority: Priority
    promised: bool = False
    """The program was told 202 or 200: from then on the daemon must have the row."""
    is_successor: bool = False
    """It was asked for by an operator, in place of another; nobody asks again for it."""
    requeued: bool = False
    """An operator asked for it to be sent anew under another id; whether that was done, the row itself tells."""


@dataclass
class Ledger:
    """All that was asked, and every answer that should not have been given."""

    asked: dict[tuple[str, str], Asked] = field(default_factory=dict)
    """By daemon and client_message_id."""
    by_daemon: dict[str, list[Asked]] = field(default_factory=dict)
    answers: int = 0
    violations: list[str] = field(default_factory=list)

    def ask(self, message: Asked) -> None:
        self.asked[message.daemon, message.client_message_id] = message
        self.of(message.daemon).append(message)

    def of(self, daemon: str) -> list[Asked]:
        return self.by_daemon.setdefault(daemon, [])

    def took(self, message: Asked, status: int, broker_message_id: str | None) -> None:
        """The daemon answered that it has the message."""
        self.answers += 1
        message.promised = True
        if status == 200 and broker_message_id is None:
            self.violations.append(f"{_name(message)}: 200 without the broker's id")

    def refused(self, message: Asked, error: Exception) -> None:
        """The daemon refused a repetition of the same message: right only when its row is settled for good."""
        self.answers += 1
        if isinstance(error, IdempotencyKeyReused) and error.details.get("conflict") in SETTLED:
            message.promised = True
        elif not (isinstance(error, ParleyError) and error.transient):
            self.violations.append(f"{_name(message)}: refused with {error!r}")

    def reused(self, message: Asked, error: Exception | None) -> None:
        """Another message under an id that is bound: always a conflict."""
        self.answers += 1
        conflict = str(error.details.get("conflict")) if isinstance(error, IdempotencyKeyReused) else ""
        transient = isinstance(error, ParleyError) and error.transient
        if not conflict.endswith("_mismatch") and not transient:
            self.violations.append(f"{_name(message)}: its id was taken for another message: {error!r}")


def _name(message: Asked) -> str:
    return f"{message.daemon}/{message.client_message_id}"
