"""What is done with a roster step by step, as generators without a socket, a clock or a disk.

An errand yields what it needs done and is sent what came of it; a refusal of the broker is thrown into it. Whoever
drives errands runs one at a time for each roster: each of them may change the copy. ``Keep`` and ``KeepKeys`` are on
disk when the errand goes on.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from parley.core.broker_errors import RosterRefused
from parley.core.daemon_errors import MeshUnreachable, RosterSplit
from parley.core.errors import ParleyError
from parley.core.limits import PAGE_LIMIT_MAX
from parley.core.roster import Refusal, State, Step
from parley.core.roster.epoch_keys import EpochKeys
from parley.core.roster.heads import Head
from parley.daemon.rosters.copy import RosterCopy

T = TypeVar("T")
TRIES_MAX: Final = 200
"""Appends that came too late before it is given up: everybody in a line of hundreds has had a turn by then."""
WAIT_MS_MAX: Final = 2_000
"""However long a broker says; by then a place in the line is lost."""
BROUGHT_AT_ONCE: Final = 16
"""Entries of the largest size that may be sent together."""


class Ask(NamedTuple):
    """Ask the broker; sent its result."""

    method: str
    params: dict[str, Any]


class Keep(NamedTuple):
    """Write down what the copy is now: these entries, in place of those after ``fork`` where it is given."""

    steps: Sequence[Step]
    fork: int | None = None


class KeepKeys(NamedTuple):
    """Write down keys of an epoch, before anything relies on them."""

    keys: EpochKeys


class Pause(NamedTuple):
    """Wait so long."""

    ms: int


Need = Ask | Keep | KeepKeys | Pause
Errand = Generator[Need, Any, T]


class Me(NamedTuple):
    """The member whose copy it is."""

    member_id: str
    seed: bytes
    seeds: Sequence[bytes]
    """All of its keys, replaced ones included: what was sealed to them may still come."""
    now_ms: Callable[[], int]
    random: Callable[[int], bytes]
    held: Callable[[], Sequence[EpochKeys]]
    """The keys of epochs that it holds now."""


Act = Callable[[State, Me], Errand[list[bytes]]]
"""The entries that an author wants to append to this state; none if there is nothing to be said any more."""


class _Page(msgspec.Struct, frozen=True):
    """The answer to ``roster_read``."""

    entries: list[str]
    head: Head
    restoring: bool = False


class _Appended(msgspec.Struct, frozen=True):
    """The answer to ``roster_append``."""

    appended: bool
    head: Head
    missing: list[str]
    reserved_ms: int | None = None
    wait_ms: int | None = None


class _Confirmed(msgspec.Struct, frozen=True):
    """The answer to ``roster_confirm``."""

    head: Head
    restoring: bool
    missing: list[str]


async def drive(errand: Errand[T], fill: Callable[[Need], Awaitable[Any]]) -> T:
    """Drives an errand to its end. ``fill`` does what it needs; a ``ParleyError`` that it raises is the errand's."""
    sent: Any = None
    refusal: ParleyError | None = None
    while True:
        try:
            need = errand.send(sent) if refusal is None else errand.throw(refusal)
        except StopIteration as end:
            return end.value
        sent = refusal = None
        try:
            sent = await fill(need)
        except ParleyError as error:
            refusal = error


def catch_up(copy: RosterCopy) -> Errand[Head]:
    """Reads what the copy does not have yet. The head that the broker told last."""
    while True:
        page = answer_of((yield Ask("roster_read", {"start": copy.n + 1, "limit": PAGE_LIMIT_MAX})), _Page)
        taken = yield from _take(copy, page.entries, page.head)
        if not taken or copy.n >= page.head.n:
            return page.head


def append(copy: RosterCopy, act: Act, me: Me, *, settling: bool = False) -> Errand[list[Step]]:
    """Appends what the member wants to say, however often others are faster. Empty when there was nothing to say.

    Raises ``RosterRefused`` for what may not stand there, ``RosterSplit`` unless that is to be settled, and what the
    broker refuses.
    """
    for _ in range(TRIES_MAX):
        if not settling:
            refuse_split(copy)
        if copy.state is None:
            yield from catch_up(copy)
        state = copy.state
        if state is None:
            raise MeshUnreachable("The broker has not shown the roster yet")
        entries = yield from act(state, me)
        if not entries:
            return []
        steps = copy.judge(entries)
        if isinstance(steps, Refusal):
            raise RosterRefused(f"The entry may not stand there: {steps.message}", reason=steps.reason)
        asked = Ask("roster_append", {"after": copy.n, "entries": [each.decode() for each in entries]})
        told = answer_of((yield asked), _Appended)
        if told.appended:
            copy.take(steps)
            copy.hear(told.head)
            yield Keep(steps)
            return steps
        yield from _take(copy, told.missing, told.head)
        if told.wait_ms is not None:
            yield Pause(min(told.wait_ms, WAIT_MS_MAX))
    raise MeshUnreachable("Others were faster each time")


def bring_back(copy: RosterCopy, head: Head, lost: Callable[[int, int], Sequence[bytes]]) -> Errand[bool]:
    """Brings a restored broker, whose roster ends at ``head``, what it lost, and lets the mesh go on where the copy
    ends. An owner's alone to do.

    False if the broker has something else than the copy; ``lost`` reads entries of the copy from a number on.
    """
    while copy.state is not None and copy.hash_of(head.n) == head.hash:
        entries = lost(head.n + 1, BROUGHT_AT_ONCE)
        params: dict[str, Any] = {"after": head.n, "entries": [each.decode() for each in entries]}
        if head.n + len(entries) >= copy.n:
            params["confirmed"] = copy.state.head
        told = answer_of((yield Ask("roster_confirm", params)), _Confirmed)
        copy.hear(told.head)
        if not told.restoring:
            return True
        if told.head.n <= head.n:
            return False
        head = told.head
    return False


def refuse_split(copy: RosterCopy) -> None:
    """Raises ``RosterSplit`` while the broker is known to have shown two rosters."""
    if copy.marks.split is not None:
        raise RosterSplit("The broker has shown two rosters of this mesh", n=copy.marks.split.n)


def answer_of(result: Any, kind: type[T]) -> T:
    """What a broker answered, in the form that is needed. Raises ``MeshUnreachable``."""
    try:
        return msgspec.convert(result, kind)
    except msgspec.ValidationError as error:
        raise MeshUnreachable(f"The broker's answer cannot be read: {error}") from error


def _take(copy: RosterCopy, texts: Sequence[str], head: Head) -> Errand[bool]:
    """Takes entries that the broker served, if they may follow. Whether there were any."""
    entries = [each.encode("utf-8", "surrogatepass") for each in texts]
    steps = copy.judge(entries) if entries else []
    if isinstance(steps, Refusal):
        _look_at_refused(copy, head, steps)
        return False
    copy.take(steps)
    copy.hear(head)
    if steps:
        yield Keep(steps)
    return bool(steps)


def _look_at_refused(copy: RosterCopy, head: Head, refusal: Refusal) -> None:
    """Entries that do not follow the copy, under a head that the broker signed, are another roster."""
    if refusal.reason == "conflict" and copy.hear(head) == "owed":
        copy.declare_split(head)
