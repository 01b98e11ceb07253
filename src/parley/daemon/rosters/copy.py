"""A member's own copy of a roster: what it adds up to, and what the broker and the other members say of its end.

The broker is believed about nothing here. It hands out entries, each of which is judged, and heads, which are good
only if they are on the chain that those entries make. What it signed and does not serve it owes; what it signed and is
not on the chain proves that it has shown two rosters.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from parley.core.roster import Refusal, State, Step, follow
from parley.core.roster.heads import Head, is_by_broker, judge_head

Judged = Literal["known", "owed", "split", "settled", "lie", "unknown"]
CONFIRMED_EVERY_MS: Final = 60_000
"""How often it is written down that a peer has confirmed the same head again."""
_BROKEN: Final = "conflict"


class Confirmed(msgspec.Struct, frozen=True):
    """Up to which entry a peer has the same roster, who said so last, and when."""

    n: int
    by: str
    at: int


class Marks(msgspec.Struct, frozen=True):
    """What is known of the end of a roster besides its entries."""

    head: Head | None = None
    """The newest head on this chain that the broker has signed: what messages say how far their sender had read."""
    owed: Head | None = None
    """The newest head that the broker has signed and not served."""
    split: Head | None = None
    """The head that proves that the broker has shown two rosters, until an owner settles it."""
    confirmed: Confirmed | None = None


class View(NamedTuple):
    """A copy at one moment, for threads that read while it grows. ``hashes`` only ever gets longer."""

    state: State
    hashes: Sequence[str]
    marks: Marks

    def hash_of(self, n: int) -> str | None:
        return self.hashes[n] if n <= self.state.n else None


class RosterCopy:
    """The entries that were judged, by their hashes, and the state after them."""

    def __init__(self, fingerprint: str, floor: tuple[int, str] | None = None) -> None:
        """``floor`` is an entry that must be on the chain: the end of the roster as an invite or a join showed it."""
        self.fingerprint = fingerprint
        self.state: State | None = None
        self.marks: Marks = Marks()
        self.upgrade_needed = False
        """Whether the mesh has rules that this Parley does not know."""
        self._floor = floor
        self._hashes: list[str] = []

    @property
    def n(self) -> int:
        """The number of the newest entry; -1 before the first."""
        return -1 if self.state is None else self.state.n

    @property
    def view(self) -> View | None:
        return None if self.state is None else View(self.state, self._hashes, self.marks)

    @property
    def is_whole(self) -> bool:
        """Whether the copy goes as far as the member has ever seen."""
        return self.state is not None and (self._floor is None or self.n >= self._floor[0])

    def restore(self, state: State | None, hashes: list[str], marks: Marks) -> None:
        """Takes up what was written down."""
        self.state, self._hashes, self.marks = state, hashes, marks

    def judge(self, entries: Sequence[bytes]) -> list[Step] | Refusal:
        """What the next entries make of the copy, or why they may not follow. Nothing is taken yet."""
        steps = follow(self.state, entries)
        if isinstance(steps, Refusal):
            self.upgrade_needed |= steps.reason == "upgrade_needed"
            return steps
        for step in steps:
            if step.entry.n == 0 and step.entry.hash != self.fingerprint:
                return Refusal(_BROKEN, "the roster is another mesh's")
            if self._floor is not None and self._floor[0] == step.entry.n and self._floor[1] != step.entry.hash:
                return Refusal(_BROKEN, "the roster is not the one that the member has joined")
        return steps

    def take(self, steps: Sequence[Step]) -> None:
        """Takes entries that were judged."""
        for step in steps:
            self._hashes.append(step.entry.hash)  # first: whoever has a view looks hashes up by its state
            self.state = step.state
        self._settle_marks()

    def become(self, other: "RosterCopy") -> None:
        """Goes over to another branch of the same roster, which an owner has settled on."""
        self._hashes, self.state, self.marks = other._hashes, other.state, other.marks

    def hear(self, head: Head) -> Judged:
        """What a head means, from whomever it comes; what it shows of the broker is remembered."""
        marks = self.marks
        if head == marks.head:
            return "known"
        verdict = self.judge_head(head)
        if verdict == "known" and (marks.head is None or head.n >= marks.head.n) and self._is_signed(head):
            self.marks = msgspec.structs.replace(marks, head=head)
        elif verdict == "owed" and (marks.owed is None or head.n > marks.owed.n):
            self.marks = msgspec.structs.replace(marks, owed=head)
        elif verdict == "split" and marks.split is None:
            self.marks = msgspec.structs.replace(marks, split=head)
        return verdict

    def judge_head(self, head: Head) -> Judged:
        """As ``hear``, and nothing is remembered. ``unknown``: nobody can tell before more was read."""
        if self.state is None:
            return "unknown"
        verdict = judge_head(self.state, self.hash_of, head)
        if verdict == "ahead":
            return "owed" if self._is_signed(head) else "unknown"
        return verdict

    def confirm(self, head: Head, by: str, at_ms: int) -> bool:
        """A peer has the same roster up to this entry. Whether that is news."""
        before = self.marks.confirmed
        is_recent = before is not None and at_ms - before.at < CONFIRMED_EVERY_MS
        if before is not None and (head.n < before.n or (head.n == before.n and is_recent)):
            return False
        self.marks = msgspec.structs.replace(self.marks, confirmed=Confirmed(head.n, by, at_ms))
        return True

    def declare_split(self, head: Head) -> None:
        """The broker has signed this and does not serve it."""
        self.marks = msgspec.structs.replace(self.marks, split=head)

    def hash_of(self, n: int) -> str | None:
        """The hash of an entry of the copy."""
        return self._hashes[n] if 0 <= n < len(self._hashes) else None

    def _is_signed(self, head: Head) -> bool:
        assert self.state is not None
        key = self.state.broker_at(head.n)
        return bool(key) and is_by_broker(head, key, self.fingerprint)

    def _settle_marks(self) -> None:
        """What the broker owed it may have served by now, and an owner may have settled a split."""
        assert self.state is not None
        marks = self.marks
        if marks.owed is not None and marks.owed.n <= self.state.n:
            owed, self.marks = marks.owed, msgspec.structs.replace(marks, owed=None)
            self.hear(owed)
        if self.marks.split is not None and self.marks.split.hash in self.state.settled:
            self.marks = msgspec.structs.replace(self.marks, split=None)
