"""What becomes of a mesh whose broker has shown two rosters: an owner says which one counts, and all others follow.

The branch that the broker serves now goes on, since nobody can append to another one. The owner names in it the
entries of the branch that has lost, and says again whom that one had removed, so that nobody comes back by a fork. A
member that has the losing branch reads the other one from the beginning, and goes over to it only if an owner whom it
knows, too, has declared its own void.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from parley.core.broker_errors import RosterRefused
from parley.core.errors import ParleyError
from parley.core.limits import PAGE_LIMIT_MAX
from parley.core.roster import Member, Refusal, State, Step, apply, entries, read_entry
from parley.core.roster.authoring import next_entry
from parley.daemon.rosters.acts import new_epoch
from parley.daemon.rosters.copy import RosterCopy
from parley.daemon.rosters.errands import Act, Errand, Keep, Me, append, catch_up

T = TypeVar("T")
LOST_MAX: Final = 32
"""Entries of the losing branch that one settlement names, the newest: their hashes have to fit into it."""
_REMOVALS: Final = ("remove", "ban")
Entries = Callable[[int, int], Sequence[bytes]]
"""Reads entries of the member's own copy, from a number on."""


class Branch(NamedTuple):
    """What the broker serves now, whether or not it is what the member has."""

    copy: RosterCopy
    steps: list[Step]

    def fork_from(self, own: RosterCopy) -> int:
        """The last entry that both have; -1 where that is none."""
        n = min(own.n, self.copy.n)
        while n >= 0 and own.hash_of(n) != self.copy.hash_of(n):
            n -= 1
        return n


def settle(copy: RosterCopy, me: Me, own: Entries) -> Errand[list[Step]]:
    """Says that the branch which the broker serves counts. Empty where there is nothing to be settled.

    Raises ``RosterRefused`` for whoever is not an owner on both branches, and what ``append`` raises.
    """
    split = copy.marks.split
    if split is None:
        return []
    branch = yield from _served(copy)
    fork = branch.fork_from(copy)
    if fork >= copy.n:
        yield from catch_up(copy)  # the member has what counts, and only has to name what does not
        return (yield from append(copy, _declares(split.n - 1, [split.hash]), me, settling=True))
    lost = [digest for n in range(fork + 1, copy.n + 1) if (digest := copy.hash_of(n)) is not None]
    if split.hash not in lost and branch.copy.hash_of(split.n) != split.hash:
        lost.append(split.hash)
    removals = [each for each in map(read_entry, own(fork + 1, PAGE_LIMIT_MAX)) if each.kind in _REMOVALS]
    _check_owner(copy.state, me.member_id)
    act = _declares(fork, lost[-LOST_MAX:], removals)
    said, kept = yield from _unkept(append(branch.copy, act, me, settling=True))
    yield from _go_over(copy, Branch(branch.copy, [*branch.steps, *kept]), fork)
    return said


def follow_settlement(copy: RosterCopy) -> Errand[bool]:
    """Goes over to the branch that the broker serves, if an owner has settled that it counts. Whether it did."""
    before = copy.state
    if copy.marks.split is None or before is None:
        return False
    branch = yield from _served(copy)
    fork, state = branch.fork_from(copy), branch.copy.state
    if state is None or not 0 <= fork < copy.n:
        return False
    void = {copy.hash_of(n) for n in range(fork + 1, copy.n + 1)}
    settlers = [step.entry.by for step in branch.steps if _voids(step, void)]
    if not any(_owns(before, by) for by in settlers):
        return False
    yield from _go_over(copy, branch, fork)
    return True


def _voids(step: Step, lost: set[str | None]) -> bool:
    body = step.entry.body
    return isinstance(body, entries.Settle) and not lost.isdisjoint(body.lost)


def _served(copy: RosterCopy) -> Errand[Branch]:
    """All that the broker serves, judged from the first entry on."""
    other = RosterCopy(copy.fingerprint)
    _, steps = yield from _unkept(catch_up(other))
    return Branch(other, steps)


def _go_over(copy: RosterCopy, branch: Branch, fork: int) -> Errand[None]:
    copy.become(branch.copy)
    yield Keep(branch.steps[fork + 1 :], fork)


def _declares(fork: int, lost: Sequence[str], removals: Sequence[entries.Entry] = ()) -> Act:
    """A settlement, and the removals of the branch that has lost, with the key that they owe."""

    def act(state: State, me: Me) -> Errand[list[bytes]]:
        if all(each in state.settled for each in lost):
            return []
        log = [_entry(state, me, "settle", entries.Settle(min(fork, state.n), list(lost)))]
        after = _applied(state, log[-1])
        for removal in removals:
            if isinstance(removal.body, entries.OfMember) and _is_active(after, removal.body.member):
                kind: entries.Kind = "ban" if removal.kind == "ban" else "remove"
                data = _entry(after, me, kind, removal.body)
                following = apply(after, data)
                if not isinstance(following, Refusal):  # whom the owner may not remove here stays
                    log.append(data)
                    after = following
        if after.owed == "now":
            log.append((yield from new_epoch(after, me)))
        return log

    return act


def _entry(state: State, me: Me, kind: entries.Kind, body: entries.Body) -> bytes:
    return next_entry(state, kind, body, by=me.member_id, seed=me.seed, at=max(state.at, me.now_ms()))


def _applied(state: State, data: bytes) -> State:
    after = apply(state, data)
    if isinstance(after, Refusal):
        raise RosterRefused(f"The mesh cannot be settled so: {after.message}", reason=after.reason)
    return after


def _check_owner(state: State | None, member_id: str) -> None:
    if state is None or not _owns(state, member_id):
        raise RosterRefused("Only an owner on both branches settles them", reason="not_allowed")


def _owns(state: State, member_id: str) -> bool:
    member: Member | None = state.members.get(member_id)
    return member is not None and member.is_active and member.role == "owner"


def _is_active(state: State, member_id: str) -> bool:
    member = state.members.get(member_id)
    return member is not None and member.is_active


def _unkept(errand: Errand[T]) -> Errand[tuple[T, list[Step]]]:
    """The errand, without what it would have written down; that comes with its result."""
    kept: list[Step] = []
    try:
        need = next(errand)
        while True:
            if isinstance(need, Keep):
                kept += need.steps
                need = errand.send(None)
                continue
            try:
                sent = yield need
            except ParleyError as refusal:
                need = errand.throw(refusal)
            else:
                need = errand.send(sent)
    except StopIteration as end:
        return end.value, kept
