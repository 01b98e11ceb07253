"""How a member stands to its roster and its broker now: what is owed, since when, and whose turn it is to act.

Nothing here waits by itself. Whoever looks hands in the time, in seconds of a clock that never goes back.
"""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from parley.core.limits import CHECKPOINT_ENTRIES_MIN
from parley.core.roster import Member, State
from parley.core.roster.epoch_keys import EpochKeys
from parley.core.roster.heads import Head
from parley.daemon.rosters import acts
from parley.daemon.rosters.acts import may_admin, newest_keys
from parley.daemon.rosters.copy import RosterCopy
from parley.daemon.rosters.errands import Act, Me
from parley.wire.rosters import RosterStanding

SERVED_SECONDS: Final = 60.0
"""How long a broker may take to serve what it has signed, from when a connection is open."""
CONFIRM_SECONDS: Final = 60.0
"""How long an owner waits for others who have seen more, before a restored broker goes on."""
OWED_SECONDS: Final = 600.0
"""How long a key may be owed after somebody left: several who leave cost one key. Also how long a member who may make
keys waits for one that nobody hands to it, before it makes the next."""
EXPIRED_SECONDS: Final = 60.0
"""How long a plain member leaves it to admins to say that somebody's time is over."""
LOOK_SECONDS: Final = 5.0
EPHEMERAL_MS: Final = 23 * 3_600_000
"""How far ahead an ephemeral membership is renewed: less than the most, as clocks differ."""
RENEW_MS: Final = 12 * 3_600_000


class Shown(NamedTuple):
    """What people are told of a roster when it changes."""

    split: bool
    key_owed: bool
    single_owner: bool
    upgrade_needed: bool


CALM: Final = Shown(split=False, key_owed=False, single_owner=False, upgrade_needed=False)


class Standing:
    """What is remembered of a connection, and since when things are owed."""

    def __init__(self) -> None:
        self.head_n = -1
        """The number of the newest entry that the broker has told of."""
        self.restoring = False
        self.shown = CALM
        self._told: Head | None = None
        self._head: Head | None = None
        self._opened_at = 0.0
        self._since: dict[str, float] = {}

    def opened(self, standing: RosterStanding, now: float) -> None:
        """A connection is open; this is how the broker's roster stands."""
        self._opened_at, self._head, self.head_n = now, standing.head, standing.head.n
        self.restoring, self._told = standing.restoring, standing.told
        self._since.pop("served", None)

    def told_of(self, n: int) -> None:
        """The broker has said that there are entries up to this one."""
        self.head_n = max(self.head_n, n)

    def owes(self, now: float) -> None:
        """Somebody has shown a head that the broker has signed and not served."""
        self._since.setdefault("served", now)

    def restored(self) -> None:
        """An owner has confirmed where the roster ends."""
        self.restoring, self._told = False, None

    def served(self, copy: RosterCopy, head: Head, now: float) -> None:
        """All was read that the broker serves. What it owes for a minute of connection splits the mesh."""
        self._head, self.head_n = head, head.n
        missing = self.missing_head(copy)
        if missing is None or self.restoring:
            self._since.pop("served", None)
            return
        if now - self._since.setdefault("served", now) >= SERVED_SECONDS:
            copy.declare_split(missing)

    def missing_head(self, copy: RosterCopy) -> Head | None:
        """What the broker has signed and does not serve, to this member or to another."""
        if copy.marks.split is not None:
            return None
        if copy.marks.owed is not None:
            return copy.marks.owed
        own = copy.marks.head
        return own if own is not None and self._head is not None and self._head.n < own.n else None

    def to_be_confirmed(self, copy: RosterCopy, member_id: str, now: float) -> Head | None:
        """Where a restored broker's roster ends, if this member is to bring back the rest and let it go on."""
        state, head = copy.state, self._head
        if not self.restoring or state is None or head is None or now - self._opened_at < CONFIRM_SECONDS:
            return None
        own = state.members.get(member_id)
        is_owner = own is not None and own.is_active and own.role == "owner"
        is_behind = (self._told is not None and self._told.n > copy.n) or copy.marks.owed is not None
        return head if is_owner and not is_behind and copy.hash_of(head.n) == head.hash else None

    def since(self, what: str, is_so: bool, now: float) -> float:
        """For how long something has been so, as far as anybody looked; 0 while it is not."""
        if not is_so:
            self._since.pop(what, None)
            return 0.0
        return now - self._since.setdefault(what, now)

    def look_again_in(self, now: float) -> float:
        """When something that is waited for may be due."""
        if self.restoring or "served" in self._since:
            return LOOK_SECONDS
        waits = [OWED_SECONDS - (now - since) for since in self._since.values()]
        return max(LOOK_SECONDS, min(waits, default=math.inf))

    def news(self, now: Shown) -> dict[str, Any]:
        """What is to be told, where anything has changed."""
        before, self.shown = self.shown, now
        return {} if now == before else now._asdict()


def standing_of(copy: RosterCopy, member_id: str, held: Sequence[EpochKeys]) -> Shown:
    """How it stands, for people."""
    state = copy.state
    if state is None:
        return CALM
    keys = newest_keys(state, held)
    lacks_key = state.epoch > 0 and (keys is None or keys.epoch != state.epoch)
    return Shown(
        split=copy.marks.split is not None,
        key_owed=state.owed != "" or lacks_key,
        single_owner=len(state.owners()) == 1 and len(state.names) > 1,
        upgrade_needed=copy.upgrade_needed,
    )


def duties(copy: RosterCopy, me: Me, standing: Standing, now: float) -> list[Act]:
    """What this member has to say in the roster now, without anybody asking."""
    state = copy.state
    own = None if state is None else state.members.get(me.member_id)
    if state is None or own is None or not own.is_active or copy.marks.split is not None or standing.restoring:
        return []
    found = [
        _key_owed(state, me, standing, now),
        _expiry(state, me, standing, now),
        _renewal(own, me),
        _checkpoint(state, own),
    ]
    return [each for each in found if each is not None]


def _key_owed(state: State, me: Me, standing: Standing, now: float) -> Act | None:
    owed_for = standing.since("owed", state.owed == "soon", now)
    keys, epoch = newest_keys(state, me.held()), state.epoch
    lacked_for = standing.since("lacked", epoch > 0 and (keys is None or keys.epoch != epoch), now)
    if not may_admin(state, me.member_id):
        return None
    if state.owed == "now" or owed_for >= OWED_SECONDS:
        return acts.new_key()
    if epoch == 0 or lacked_for >= OWED_SECONDS:
        return acts.new_key(unless=lambda later: later.epoch != epoch)
    return None


def _expiry(state: State, me: Me, standing: Standing, now: float) -> Act | None:
    now_ms = me.now_ms()
    is_due = any(each.until is not None and each.until <= now_ms for each in state.active())
    waited = standing.since("expiry", is_due, now)
    return acts.expire(now_ms) if is_due and (may_admin(state, me.member_id) or waited >= EXPIRED_SECONDS) else None


def _renewal(own: Member, me: Me) -> Act | None:
    now_ms = me.now_ms()
    if own.until is None or own.until - now_ms > RENEW_MS:
        return None
    return acts.renew(own.id, now_ms + EPHEMERAL_MS)


def _checkpoint(state: State, own: Member) -> Act | None:
    if own.role != "owner" or state.n - state.checkpoint < CHECKPOINT_ENTRIES_MIN:
        return None
    return acts.checkpoint()
