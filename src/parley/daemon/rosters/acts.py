"""What a member says in a roster: the entries of each act, made anew for whatever state they are to follow."""

from collections.abc import Callable, Sequence
from typing import Final

from parley.core.limits import CHECKPOINT_ENTRIES_MIN
from parley.core.roster import Invite, Name, Role, State, apply, entries
from parley.core.roster.authoring import join_entry, next_entry, rotate_entry
from parley.core.roster.epoch_keys import EpochKeys, fits, key_body, new_keys
from parley.core.roster.rules import Refusal
from parley.core.roster.state import RANK, state_hash
from parley.daemon.rosters.errands import Act, Errand, KeepKeys, Me

EXPIRED_AT_ONCE: Final = 40
"""Members whose ids fit into one entry."""


def says(kind: entries.Kind, body: entries.Body, unless: Callable[[State], bool] = lambda state: False) -> Act:
    """One entry, unless the state says already what it would."""

    def act(state: State, me: Me) -> Errand[list[bytes]]:
        yield from ()
        return [] if unless(state) else [_entry(state, me, kind, body)]

    return act


def leave(me_id: str) -> Act:
    return says("leave", entries.Leave(), lambda state: not state.members[me_id].is_active)


def rename(me_id: str, name: Name) -> Act:
    return says("rename", entries.Rename(name), lambda state: state.members[me_id].name == name)


def set_role(member_id: str, role: Role) -> Act:
    return says("role", entries.SetRole(member_id, role), lambda state: _role_of(state, member_id) == role)


def unban(member_id: str) -> Act:
    def is_lifted(state: State) -> bool:
        member = state.members.get(member_id)
        return member is not None and member.status != "banned"

    return says("unban", entries.OfMember(member_id), is_lifted)


def revoke_invite(invite: Invite) -> Act:
    return says("revoke_invite", entries.RevokeInvite(invite), lambda state: invite.id in state.invites_revoked)


def put_out(member_id: str, kind: entries.Kind) -> Act:
    """A ``remove`` or ``ban``, together with the key that the member is not to have; nothing if that is so already."""

    def act(state: State, me: Me) -> Errand[list[bytes]]:
        member = state.members.get(member_id)
        if member is not None and not member.is_active and (kind == "remove" or member.status == "banned"):
            return []
        first = _entry(state, me, kind, entries.OfMember(member_id))
        after = apply(state, first)
        if isinstance(after, Refusal) or member is None or not member.is_active:
            return [first]  # the rule says what is wrong with it; a ban of somebody who is gone needs no key
        return [first, (yield from new_epoch(after, me))]

    return act


def new_key(unless: Callable[[State], bool] = lambda state: state.owed == "") -> Act:
    """The keys of the next epoch, where they are still owed."""

    def act(state: State, me: Me) -> Errand[list[bytes]]:
        return [] if unless(state) else [(yield from new_epoch(state, me))]

    return act


def expire(now_ms: int) -> Act:
    """The end of ephemeral members whose time is over."""

    def act(state: State, me: Me) -> Errand[list[bytes]]:
        yield from ()
        at = _time(state, me)
        over = sorted(each.id for each in state.active() if each.until is not None and each.until <= min(at, now_ms))
        return [_entry(state, me, "expire", entries.Expire(over[:EXPIRED_AT_ONCE]))] if over else []

    return act


def renew(me_id: str, until: int) -> Act:
    return says("renew", entries.Renew(until), lambda state: (state.members[me_id].until or until) >= until)


def rotate(new_seed: bytes, *, compromised: bool) -> Act:
    def act(state: State, me: Me) -> Errand[list[bytes]]:
        yield from ()
        at = _time(state, me)
        return [rotate_entry(state, me.member_id, seed=me.seed, new_seed=new_seed, compromised=compromised, at=at)]

    return act


def checkpoint() -> Act:
    def act(state: State, me: Me) -> Errand[list[bytes]]:
        yield from ()
        if state.n - state.checkpoint < CHECKPOINT_ENTRIES_MIN:
            return []
        return [_entry(state, me, "checkpoint", entries.Checkpoint(state_hash(state)))]

    return act


def join(invite: Invite, secret: bytes, *, name: Name, until_in_ms: int | None = None) -> Act:
    """The joiner's own entry; ``me`` has no id yet."""

    def act(state: State, me: Me) -> Errand[list[bytes]]:
        yield from ()
        at = _time(state, me)
        until = None if until_in_ms is None else at + until_in_ms
        return [join_entry(state, invite, secret, name=name, seed=me.seed, at=at, until=until)]

    return act


def newest_keys(state: State, keys: Sequence[EpochKeys]) -> EpochKeys | None:
    """The newest keys that are those of the roster, if the member holds any."""
    newest_first = sorted((each for each in keys if each.mesh), key=lambda each: each.epoch, reverse=True)
    return next((each for each in newest_first if fits(state, each)), None)


def new_epoch(state: State, me: Me) -> Errand[bytes]:
    """The entry that begins the next epoch; its keys are on disk before anybody sees it."""
    keys = new_keys(state, me.random)
    yield KeepKeys(keys)
    return _entry(state, me, "key", key_body(state, keys, newest_keys(state, me.held()), me.random))


def _entry(state: State, me: Me, kind: entries.Kind, body: entries.Body) -> bytes:
    return next_entry(state, kind, body, by=me.member_id, seed=me.seed, at=_time(state, me))


def _time(state: State, me: Me) -> int:
    """Never before the entry that it follows, whatever the clock says."""
    return max(state.at, me.now_ms())


def _role_of(state: State, member_id: str) -> Role | None:
    member = state.members.get(member_id)
    return None if member is None or not member.is_active else member.role


def may_admin(state: State, member_id: str) -> bool:
    """Whether the member is an admin or an owner."""
    role = _role_of(state, member_id)
    return role is not None and RANK[role] >= RANK["admin"]
