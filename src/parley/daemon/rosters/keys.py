"""How the keys of an epoch get to all who are in the mesh, as errands.

What comes from others is compared with the roster's commitments, so it does not matter who hands keys on, and nobody
can dictate one. What does not fit is thrown away, so that it is seen to be wanted again.
"""

import base64
import binascii
from typing import Any, Final, NamedTuple

import msgspec

from parley.core.errors import InvalidInput, RateLimited
from parley.core.roster import Member, State
from parley.core.roster.epoch_keys import EpochKeys, fits, hand, take
from parley.daemon.rosters.acts import newest_keys
from parley.daemon.rosters.copy import RosterCopy
from parley.daemon.rosters.errands import Ask, Errand, KeepKeys, Me, answer_of

WANTED_MAX: Final = 1_000
"""Members who are given keys in one errand; those who come after them wait for the next."""


class _Gift(msgspec.Struct, frozen=True):
    key_epoch: int
    giver_id: str
    giver_key: str
    sealed: str


class _Gifts(msgspec.Struct, frozen=True):
    """The answer to ``keys``."""

    key_epoch: int
    keys: list[_Gift]


class _Wanting(msgspec.Struct, frozen=True):
    member_id: str


class _Wanted(msgspec.Struct, frozen=True):
    """The answer to ``keys_wanted``."""

    key_epoch: int
    wanted: list[_Wanting]
    cursor: str | None = None


def take_keys(copy: RosterCopy, me: Me) -> Errand[bool]:
    """Takes over the keys that others have handed on, and throws the others away. Whether there were new ones."""
    told = answer_of((yield Ask("keys", {})), _Gifts)
    state, found = copy.state, False
    for gift in told.keys if state is not None else ():
        assert state is not None
        if gift.key_epoch not in state.epochs or any(
            each.epoch == gift.key_epoch and each.mesh and fits(state, each) for each in me.held()
        ):
            continue  # of an epoch that the copy does not know yet; or it is here already
        keys = _opened(gift, state, me)
        if keys is not None and fits(state, keys):
            yield KeepKeys(keys)
            found = True
        else:
            yield Ask("refuse_key", {"key_epoch": gift.key_epoch, "giver_id": gift.giver_id})
    return found


class HandedOn(NamedTuple):
    """How many were given keys, and whether others still wait: the broker takes only so many requests at a time."""

    given: int
    more: bool = False


def hand_on_keys(copy: RosterCopy, me: Me) -> Errand[HandedOn]:
    """Hands the current keys to the active members who lack them."""
    state = copy.state
    keys = None if state is None else newest_keys(state, me.held())
    if state is None or keys is None or keys.epoch != state.epoch:
        return HandedOn(0)
    given, after = 0, None
    while given < WANTED_MAX:
        asked: dict[str, Any] = {"limit": WANTED_MAX} if after is None else {"limit": WANTED_MAX, "after": after}
        told = answer_of((yield Ask("keys_wanted", asked)), _Wanted)
        if told.key_epoch != state.epoch:
            break  # the broker has a newer roster; the next errand reads it first
        for each in told.wanted:
            member = state.members.get(each.member_id)
            if member is not None and member.is_active and member.id != me.member_id:
                try:
                    yield Ask("give_key", _gift(keys, state, member, me))
                except RateLimited:
                    return HandedOn(given, more=True)
                given += 1
        if told.cursor in (None, after):
            break
        after = told.cursor
    return HandedOn(given, given >= WANTED_MAX)


def _gift(keys: EpochKeys, state: State, member: Member, me: Me) -> dict[str, Any]:
    recipient = bytes.fromhex(member.key)
    sealed = hand(keys, fingerprint=state.fingerprint, giver_seed=me.seed, recipient=recipient, random=me.random)
    return {"member_id": member.id, "key_epoch": keys.epoch, "sealed": base64.b64encode(sealed).decode()}


def _opened(gift: _Gift, state: State, me: Me) -> EpochKeys | None:
    try:
        sealed, giver = base64.b64decode(gift.sealed, validate=True), bytes.fromhex(gift.giver_key)
    except (binascii.Error, ValueError):
        return None
    for seed in me.seeds:
        try:
            keys = take(sealed, gift.key_epoch, fingerprint=state.fingerprint, giver=giver, recipient_seed=seed)
        except InvalidInput:
            return None
        if keys is not None:
            return keys
    return None


def has_current(state: State, me: Me) -> bool:
    """Whether the member holds the keys of the current epoch."""
    found = newest_keys(state, me.held())
    return found is not None and found.epoch == state.epoch
