"""Appending to a roster: the broker judges by the same rule as everybody else, and keeps the order.

Entries are taken together or not at all, under the lock of the mesh. That entries came too late is no error: whoever
sent them is answered with what came before, and signs again. Everything else that speaks against them is, and then
nothing was changed.

What only a broker can see to is here: that times are near its clock, that a member does not fill the log, and that
whoever loses one race after another has a turn.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from parley.broker.done import Done
from parley.broker.policy import DAY_MS
from parley.broker.rules import roster_turns
from parley.broker.rules.broker_key import broker_seed
from parley.broker.rules.members import refuse_when_full
from parley.broker.rules.roster_log import Kept, extend_log, get_roster, page, signed_head
from parley.broker.rules.roster_members import write_members
from parley.broker.rules.roster_state import current_state
from parley.broker.rules.roster_turns import Asker
from parley.broker.tx import Tx
from parley.core import sealing
from parley.core.broker_errors import RosterClock, RosterRefused, RosterRestoring, RosterTooSoon
from parley.core.limits import PAGE_LIMIT_MAX, ROSTER_APPEND_BYTES_MAX
from parley.core.roster import Refusal, State, Step, follow
from parley.core.roster.heads import Head
from parley.wire.broker import Notice

SKEW_MS: Final = 600_000
"""How far the time of an entry may be from the broker's clock."""
MEMBER_EVERY_MS: Final = 60_000
"""A member that is neither admin nor owner appends one entry in this time."""
NAMES_A_DAY: Final = 10
"""And so many renames and rotations in a day, each of which all members have to take note of."""
_RENAMING: Final = ("rename", "rotate")
_NOTICE: Final = "roster_head"


def append(tx: Tx, mesh_id: str, asker: Asker, after: int, texts: Sequence[str]) -> Done:
    """Takes the entries that follow ``after``, or tells what came before them. The mesh is locked.

    What was appended before, in an answer that was lost, is answered as it was then.
    """
    kept, entries = get_roster(tx, mesh_id), as_bytes(texts)
    if _is_repeated(tx, kept, after, entries):
        head = signed_head(tx, kept, after + len(entries), broker_seed(tx))
        return _answer(head, appended=True)
    if kept.restoring:
        raise RosterRestoring("The roster was restored from a backup and is not confirmed yet")
    if after > kept.n:
        raise RosterRefused(f"The broker's roster ends at {kept.n}", reason="ahead", n=kept.n)
    roster_turns.tidy(tx, mesh_id)
    _check_allowance(tx, mesh_id, asker, len(entries))
    if after < kept.n or not roster_turns.is_free_for(tx, mesh_id, asker, n=kept.n + 1):
        turn = roster_turns.stand_in_line(tx, mesh_id, asker, n=kept.n + 1)
        missing = [each.decode() for each in page(tx, mesh_id, after + 1, PAGE_LIMIT_MAX)]
        return _answer(kept.head, missing=missing, reserved_ms=turn.reserved_ms, wait_ms=turn.wait_ms)
    state = current_state(tx, mesh_id, kept.fingerprint, kept.head.hash)
    steps = judged(follow(state, entries))
    _check_steps(tx, mesh_id, asker, steps)
    roster_turns.leave_line(tx, mesh_id, asker)
    return taken(tx, kept, state, steps)


def taken(tx: Tx, kept: Kept, before: State, steps: Sequence[Step]) -> Done:
    """Writes what was judged, and tells everybody."""
    written = extend_log(tx, kept, steps, broker_seed(tx))
    ended = write_members(tx, kept.mesh_id, before, steps[-1].state)
    notice = Notice(_NOTICE, msgspec.to_builtins(written.head))
    return _answer(written.head, appended=True)._replace(ended=ended, notices=(notice,), mesh_id=kept.mesh_id)


def as_bytes(texts: Sequence[str]) -> list[bytes]:
    """The entries as they were signed. Raises ``RosterRefused`` for more than may be appended together."""
    try:
        entries = [each.encode() for each in texts]
    except UnicodeEncodeError as error:
        raise RosterRefused("An entry is no text", reason="not_canonical") from error
    if sum(map(len, entries)) > ROSTER_APPEND_BYTES_MAX:
        raise RosterRefused(
            f"Entries that are appended together have at most {ROSTER_APPEND_BYTES_MAX} bytes", reason="too_large"
        )
    return entries


def judged(found: list[Step] | Refusal) -> list[Step]:
    """The steps. Raises ``RosterRefused`` with the rule's reason."""
    if isinstance(found, Refusal):
        raise RosterRefused(f"The entry was refused: {found.message}", reason=found.reason)
    return found


def check_time(tx: Tx, step: Step) -> None:
    """Raises ``RosterClock`` for an entry of another time than this."""
    if abs(step.entry.at - tx.now_ms) > SKEW_MS:
        raise RosterClock(
            "The entry's time is more than ten minutes from the broker's", at=step.entry.at, broker_ms=tx.now_ms
        )


def check_broker(tx: Tx, state: State) -> None:
    """A broker signs heads only while it is the one that the roster names: others would not be believed."""
    if state.broker != sealing.public_key(broker_seed(tx)).hex():
        raise RosterRefused(
            "The roster names another broker; append that entry to your own copy and take the roster there",
            reason="other_broker",
        )


def _check_steps(tx: Tx, mesh_id: str, asker: Asker, steps: Sequence[Step]) -> None:
    """What is the broker's to check of entries that may stand there."""
    for step in steps:
        if step.entry.by != asker.name or (asker.role is None) != (step.entry.kind == "join"):
            raise RosterRefused("Everybody appends its own entries", reason="not_its_author")
        check_time(tx, step)
        refuse_adoption(step)
        if step.entry.kind == "join":
            refuse_when_full(tx, mesh_id)
    _check_names(tx, mesh_id, asker, steps)
    check_broker(tx, steps[-1].state)


def refuse_adoption(step: Step) -> None:
    """Ids that are listed and not made could be those of another mesh."""
    if step.entry.kind == "adopt":
        raise RosterRefused("This broker does not take members of an older mesh", reason="adopt")


def _check_allowance(tx: Tx, mesh_id: str, asker: Asker, count: int) -> None:
    if asker.role != "member":
        if asker.role is None and count != 1:
            raise RosterRefused("A joiner appends one entry", reason="one_at_a_time")
        return
    if count != 1:
        raise RosterRefused("A member appends one entry at a time", reason="one_at_a_time")
    now = tx.now_ms
    last = tx.one(
        "SELECT max(appended_ms) FROM mesh_log WHERE mesh_id = ? AND author = ? AND appended_ms <= ?",
        *(mesh_id, asker.name, now),
    )
    wasted = roster_turns.wasted_until(tx, mesh_id, asker)
    free_at = max(0 if last is None or last[0] is None else last[0] + MEMBER_EVERY_MS, wasted or 0)
    if free_at > now:
        raise RosterTooSoon("A member appends one entry a minute", retry_after=(free_at - now) / 1000)


def _check_names(tx: Tx, mesh_id: str, asker: Asker, steps: Sequence[Step]) -> None:
    if asker.role != "member" or all(step.entry.kind not in _RENAMING for step in steps):
        return
    rows = tx.all(
        "SELECT appended_ms FROM mesh_log WHERE mesh_id = ? AND author = ? AND appended_ms > ? AND kind IN (?, ?)"
        " ORDER BY appended_ms",
        *(mesh_id, asker.name, tx.now_ms - DAY_MS, *_RENAMING),
    )
    if len(rows) >= NAMES_A_DAY:
        wait_ms = rows[-NAMES_A_DAY][0] + DAY_MS - tx.now_ms
        raise RosterTooSoon(f"A member has {NAMES_A_DAY} new names and keys a day", retry_after=wait_ms / 1000)


def _is_repeated(tx: Tx, kept: Kept, after: int, entries: Sequence[bytes]) -> bool:
    if after + len(entries) > kept.n:
        return False
    return page(tx, kept.mesh_id, after + 1, len(entries)) == list(entries)


def _answer(
    head: Head,
    *,
    appended: bool = False,
    missing: Sequence[str] = (),
    reserved_ms: int | None = None,
    wait_ms: int | None = None,
) -> Done:
    result: dict[str, Any] = {
        "appended": appended,
        "head": msgspec.to_builtins(head),
        "missing": list(missing),
        "reserved_ms": reserved_ms,
        "wait_ms": wait_ms,
    }
    return Done(result)
