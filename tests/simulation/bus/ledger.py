"""What programs said and were told, what handlers heard, and what was seen on the wires; and what must hold of it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from parley.bus import Envelope, Fingerprint, Message, short
from parley.bus.link_frames import Answer, decode_frame
from parley.core.bus_errors import BusError


class Said(NamedTuple):
    """What a program says to a peer."""

    sender: Fingerprint
    recipient: Fingerprint
    topic: str
    body: bytes
    message_id: bytes


class Captured(NamedTuple):
    """An envelope that somebody overheard."""

    sender: Fingerprint
    recipient: Fingerprint
    frame: bytes


@dataclass
class Handling:
    """One call of a handler."""

    life: int
    redelivered: bool
    has_returned: bool = False


@dataclass
class Account:
    """What became of what was said."""

    said: Said
    outcomes: list[str] = field(default_factory=list[str])
    outbox_id: int | None = None
    """In the order of which what waited together has to leave."""
    has_waited: bool = False
    """Whether it was put behind others at once. What was tried first may have come before it was acknowledged."""
    handlings: list[Handling] = field(default_factory=list[Handling])
    place: int = 0
    """When it was handled first, among all."""


class Kept(NamedTuple):
    """What a sender's store tells in the end."""

    waiting: frozenset[bytes]
    wedged: frozenset[bytes]
    expired: frozenset[bytes]


class Ledger:
    """All of it. ``problems`` are what was wrong as soon as it happened."""

    def __init__(self) -> None:
        self.accounts: dict[bytes, Account] = {}
        self.problems: list[str] = []
        self.captured: list[Captured] = []
        self.operations = 0
        self.refused = 0
        self._envelopes: dict[tuple[Fingerprint, Fingerprint, int], bytes] = {}
        self._marks: defaultdict[tuple[Fingerprint, Fingerprint], int] = defaultdict(int)
        self._too_late: set[tuple[Fingerprint, Fingerprint, int]] = set()
        """Envelopes of somebody who was known to be revoked when they came."""
        self.revoked: dict[Fingerprint, frozenset[Fingerprint]] = {}
        """Whom each agent knows to be revoked at this moment, by agent."""

    def begin(self, said: Said) -> None:
        """A program says it."""
        self.accounts.setdefault(said.message_id, Account(said))

    def end(self, said: Said, outcome: str, outbox_id: int | None = None, *, has_waited: bool = False) -> None:
        """The program is told what became of it."""
        self.operations += 1
        account = self.accounts[said.message_id]
        account.outcomes.append(outcome)
        account.outbox_id = outbox_id or account.outbox_id
        account.has_waited = has_waited

    def hear(self, name: str, recipient: Fingerprint, life: int, message: Message) -> Handling:
        """A handler is called."""
        handling = Handling(life, message.redelivered)
        account = self.accounts.get(message.message_id)
        heard = Said(message.peer, recipient, message.topic, message.body, message.message_id)
        if account is None or account.said != heard:
            self.problems.append(f"{name} handles {message.body!r}, which nobody sent it so")
            return handling
        if any(each.has_returned and each.life == life for each in account.handlings):
            self.problems.append(f"{name} handles {message.body!r} again in the same life")
        if account.handlings and not message.redelivered:
            self.problems.append(f"{name} handles {message.body!r} again and it is not marked")
        self.operations += 1
        account.place = account.place or self.operations
        account.handlings.append(handling)
        return handling

    def heard(self, handling: Handling) -> None:
        """The handler has returned."""
        handling.has_returned = True

    def overhear(self, sender: Fingerprint, recipient: Fingerprint, frame: bytes, arrived: bool) -> None:
        """A frame goes from one agent to the other, or has come."""
        try:
            said = decode_frame(frame)
        except BusError:
            return
        if isinstance(said, Envelope):
            key = (said.head.sender, said.head.recipient, said.head.sequence)
            if arrived:
                if said.head.sender in self.revoked.get(recipient, ()):
                    self._too_late.add(key)
                return
            self.captured.append(Captured(sender, recipient, frame))
            if self._envelopes.setdefault(key, said.head.nonce) != said.head.nonce:
                self.problems.append(f"{short(sender)} uses sequence {said.head.sequence} twice")
        elif isinstance(said, Answer) and not arrived:
            self._judge_answer(sender, recipient, said)

    def _judge_answer(self, recipient: Fingerprint, sender: Fingerprint, answer: Answer) -> None:
        """The recipient of an envelope tells its sender what became of it."""
        if answer.outcome not in ("accepted", "duplicate"):
            self.refused += 1
            return
        mark = self._marks[sender, recipient]
        if answer.sequence <= mark:
            self.problems.append(f"{short(recipient)} takes sequence {answer.sequence} after {mark}")
        self._marks[sender, recipient] = max(mark, answer.sequence)
        if (sender, recipient, answer.sequence) in self._too_late:
            self.problems.append(f"{short(recipient)} takes something of {short(sender)}, who is revoked there")

    def in_the_end(self, kept: Mapping[Fingerprint, Kept], revoked: Iterable[Fingerprint]) -> list[str]:
        """What must hold when everything has come to rest."""
        problems = list(self.problems)
        gone = frozenset(revoked)
        for account in self.accounts.values():
            problems += _judge(account, kept[account.said.sender], gone)
        return problems + self._judge_order()

    def _judge_order(self) -> list[str]:
        """What was put behind others for the same peer was handled after them."""
        queues: defaultdict[tuple[Fingerprint, Fingerprint], list[Account]] = defaultdict(list)
        for account in self.accounts.values():
            if account.outbox_id is not None and account.place and account.outcomes == ["spooled"]:
                queues[account.said.sender, account.said.recipient].append(account)
        problems: list[str] = []
        for queue in queues.values():
            queue.sort(key=lambda each: each.outbox_id or 0)
            first = 0
            for account in queue:
                if account.has_waited and account.place < first:
                    problems.append(f"{account.said.body!r} overtakes others in the outbox")
                first = max(first, account.place)
        return problems


def _judge(account: Account, kept: Kept, revoked: frozenset[Fingerprint]) -> list[str]:
    said, outcomes = account.said, account.outcomes
    if {said.sender, said.recipient} & revoked:
        return []
    if said.message_id in kept.waiting:
        return [f"{said.body!r} still waits in the outbox"]
    is_handled = any(each.has_returned for each in account.handlings)
    if "misled" in outcomes:
        return [f"{said.body!r} has the answer to something else"]
    for outcome in outcomes:
        if outcome in ("delivered", "answered") and not is_handled:
            return [f"{said.body!r} was {outcome} and nobody handled it"]
    if "spooled" in outcomes and not is_handled and said.message_id not in kept.wedged | kept.expired:
        return [f"{said.body!r} was spooled, and is neither handled nor told of"]
    return []
