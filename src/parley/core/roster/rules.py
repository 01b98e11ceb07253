"""Which entry may follow which, as one pure function: broker, daemon, simulator and audit all call ``apply``.

It reads no clock, knows no secret and draws no randomness, so everybody who has the same entries has the same members.
It believes nobody: an entry counts because its author signed it and could do, by all that stood before it, what it
says. Nothing here depends on who carried the entries.
"""

import base64
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, NoReturn

from msgspec.structs import replace

from parley.core import sealing
from parley.core.errors import InvalidInput
from parley.core.limits import CHECKPOINT_ENTRIES_MIN, EPHEMERAL_MS_MAX, INVITE_USES_MAX, NAME_KEPT_MS
from parley.core.roster import entries as are
from parley.core.roster.entries import NOTHING_BEFORE, RULES, Entry, Invite, read_entry
from parley.core.roster.state import RANK, EpochKey, GivenUp, Member, OldKey, Owed, State, Status, outranks, state_hash

RESERVED: Final = frozenset(("self", "all", "here", "everyone", "parley"))
"""Names that would be read as something else."""
MEMBER: Final = "mem_"


class Refusal(NamedTuple):
    """Why an entry may not stand where it is. ``reason`` is for programs."""

    reason: str
    message: str


class _RefusedError(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.refusal = Refusal(reason, message)


def apply(state: State | None, data: bytes) -> State | Refusal:
    """The state after one more entry. Without a state the entry is the first."""
    try:
        entry = read_entry(data)
        return _begin(entry) if state is None else _follow(state, entry)
    except InvalidInput as error:
        return Refusal(str(error.details.get("reason", "not_canonical")), error.message)
    except _RefusedError as error:
        return error.refusal


def apply_all(state: State | None, entries: Iterable[bytes]) -> State | Refusal:
    """The state after all of them, which are taken together or not at all."""
    for data in entries:
        after = apply(state, data)
        if isinstance(after, Refusal):
            return after
        state = after
    return Refusal("no_entries", "there is no entry") if state is None else state


def judge_invite(state: State, invite: Invite, at: int) -> Refusal | None:
    """Why nobody could join by this invite as things are; None if somebody could."""
    try:
        _check_invite(state, invite, _issuer(state, invite), at)
    except _RefusedError as error:
        return error.refusal
    return None


def member_id(entry: Entry) -> str:
    """The id of the member whom a ``found`` or ``join`` makes: the hash of the entry, which no other one has."""
    return MEMBER + base64.urlsafe_b64encode(bytes.fromhex(entry.hash)).rstrip(b"=").decode()


def _begin(entry: Entry) -> State:
    body = entry.body
    if not isinstance(body, are.Found) or entry.n != 0 or entry.prev != NOTHING_BEFORE:
        _refuse("no_beginning", "a roster begins with the entry that founds it")
    if body.rules != RULES:
        _refuse("upgrade_needed", f"the mesh has rules of version {body.rules}; this Parley knows {RULES}")
    if entry.by != body.key or not are.is_signed(entry, body.key, ""):
        _refuse("bad_signature", "the founder did not sign this")
    _check_key(body.key)
    if body.name in RESERVED:
        _refuse("name_reserved", f"nobody can be called {body.name}")
    founder = Member(member_id(entry), body.key, body.name, "owner", (0, 0), 0, entry.at)
    return State(
        fingerprint=entry.hash,
        rules=body.rules,
        n=0,
        head=entry.hash,
        at=entry.at,
        founder=founder.id,
        members={founder.id: founder},
        keys={founder.key: founder.id},
        names={founder.name: founder.id},
    )


def _follow(state: State, entry: Entry) -> State:
    if state.rules > RULES:
        _refuse("upgrade_needed", f"the mesh has rules of version {state.rules}; this Parley knows {RULES}")
    if entry.n != state.n + 1 or entry.prev != state.head:
        _refuse("conflict", f"entry {entry.n} does not follow entry {state.n}")
    if isinstance(entry.body, are.Found):
        _refuse("no_beginning", "a roster begins once")
    rule = _RULES[entry.kind]
    author = _joiner(state, entry) if isinstance(entry.body, are.Join) else _author(state, entry)
    changed = rule(state, entry, author, entry.body)
    return replace(
        changed,
        n=entry.n,
        head=entry.hash,
        at=entry.at,
        may_adopt=entry.kind == "adopt" or (entry.kind == "broker" and entry.n == 1),
    )


def _author(state: State, entry: Entry) -> Member:
    author = state.members.get(entry.by)
    if author is None or not author.is_active:
        _refuse("unknown_author", "its author is no member")
    if not are.is_signed(entry, author.key, state.fingerprint):
        _refuse("bad_signature", "its author did not sign this")
    if entry.at < state.at and author.role != "owner":
        _refuse("time_went_back", "its time is before that of the entry before")
    return author


def _joiner(state: State, entry: Entry) -> Member:
    """Who is to be a member by this entry, checked as far as it is not the rule's."""
    body = entry.body
    assert isinstance(body, are.Join)
    try:
        key_is_one = len(bytes.fromhex(entry.by)) == are.HASH_BYTES
    except ValueError:
        key_is_one = False
    if not key_is_one or not are.is_signed(entry, entry.by, state.fingerprint):
        _refuse("bad_signature", "the joiner did not sign this")
    if entry.at < state.at:
        _refuse("time_went_back", "its time is before that of the entry before")
    invite = body.invite
    return Member(
        id=member_id(entry),
        key=entry.by,
        name=body.name,
        role=invite.role,
        since=(entry.n, 0),
        joined=entry.n,
        joined_at=entry.at,
        until=body.until,
        invite=invite.id,
        issuer=invite.issuer,
    )


def _join(state: State, entry: Entry, joiner: Member, body: are.Join) -> State:
    issuer = _issuer(state, body.invite)
    _check_invite(state, body.invite, issuer, entry.at)
    if not are.is_join_countersigned(body, joiner.key, state.fingerprint):
        _refuse("bad_invite", "the joiner does not hold the invite's secret")
    _check_joining_key(state, joiner.key)
    if joiner.until is not None:
        _check_until(joiner.until, entry.at)
        if joiner.role == "owner":
            _refuse("not_allowed", "an ephemeral member cannot own a mesh")
    named = _take_name(state, joiner, joiner.name, entry.at)
    uses = {**state.invite_uses, body.invite.id: state.invite_uses.get(body.invite.id, 0) + 1}
    return replace(
        named,
        members={**state.members, joiner.id: joiner},
        keys={**state.keys, joiner.key: joiner.id},
        invite_uses=uses,
    )


def _issuer(state: State, invite: Invite) -> Member:
    issuer = state.members.get(invite.issuer)
    if issuer is None:
        _refuse("bad_invite", "the invite's issuer was never a member")
    if not are.is_invite_signed(invite, issuer.key, state.fingerprint):
        _refuse("bad_invite", "the invite is not signed by its issuer's key")
    return issuer


def _check_invite(state: State, invite: Invite, issuer: Member, at: int) -> None:
    if not issuer.is_active or RANK[issuer.role] < max(RANK["admin"], RANK[invite.role]):
        _refuse("invite_void", "its issuer may not invite to this role any more")
    if invite.id in state.invites_revoked:
        _refuse("invite_revoked", "the invite was taken back")
    if at >= invite.expires:
        _refuse("invite_expired", "the invite has expired")
    if state.invite_uses.get(invite.id, 0) >= min(invite.uses, INVITE_USES_MAX):
        _refuse("invite_used", "the invite has let in as many as it says")


def _check_key(key: str) -> None:
    """Everybody has to seal the mesh's keys to every member: a key that signs and nothing else would stop them."""
    if not sealing.can_be_sealed_to(bytes.fromhex(key)):
        _refuse("bad_key", "nothing can be sealed to this key")


def _check_joining_key(state: State, key: str) -> None:
    _check_key(key)
    known = state.with_key(key)
    if known is None:
        return
    if known.is_active:
        _refuse("key_taken", "the key is a member's")
    if known.status == "banned":
        _refuse("banned", "the key is banned until an admin lifts the ban")
    if known.key != key:
        _refuse("key_taken", "the key was replaced before and does not come back")


def _leave(state: State, entry: Entry, author: Member, body: are.Leave) -> State:
    if author.role == "owner" and len(state.owners()) == 1 and len(state.names) > 1:
        _refuse("last_owner", "the last owner cannot go; make somebody else an owner first")
    return _end(state, entry, author, "left", owed="soon")


def _rename(state: State, entry: Entry, author: Member, body: are.Rename) -> State:
    if body.name == author.name:
        _refuse("unchanged", "the member is called so")
    named = _take_name(_give_up_name(state, author, entry.at), author, body.name, entry.at)
    return _with(named, replace(author, name=body.name))


def _renew(state: State, entry: Entry, author: Member, body: are.Renew) -> State:
    if author.until is None:
        _refuse("not_allowed", "the membership has no end that could be put off")
    _check_until(body.until, entry.at)
    return _with(state, replace(author, until=body.until))


def _rotate(state: State, entry: Entry, author: Member, body: are.Rotate) -> State:
    _check_key(body.key)
    if body.key in state.keys:
        _refuse("key_taken", "the key is or was a member's")
    if not are.is_rotation_countersigned(body, author.id, author.key, state.fingerprint):
        _refuse("bad_signature", "the new key did not sign this")
    old = OldKey(author.key, entry.n, state.epoch, body.compromised)
    changed = replace(author, key=body.key, old_keys=(*author.old_keys, old))
    owing = _owe(_with(state, changed), "now" if body.compromised else "soon")
    return replace(owing, keys={**state.keys, body.key: author.id})


def _remove(state: State, entry: Entry, author: Member, body: are.OfMember) -> State:
    return _put_out(state, entry, author, _active(state, body.member), "removed")


def _ban(state: State, entry: Entry, author: Member, body: are.OfMember) -> State:
    member = _known(state, body.member)
    if member.status == "banned":
        _refuse("unchanged", "the member is banned")
    if member.is_active:
        return _put_out(state, entry, author, member, "banned")
    if state.keys[member.key] != member.id:
        _refuse("not_active", "the key has joined again; ban the member that it is now")
    _check_outranks(author, member)
    return _with(state, replace(member, status="banned"))


def _unban(state: State, entry: Entry, author: Member, body: are.OfMember) -> State:
    member = _known(state, body.member)
    if member.status != "banned":
        _refuse("unchanged", "the member is not banned")
    _check_outranks(author, member)
    return _with(state, replace(member, status="removed"))


def _set_role(state: State, entry: Entry, author: Member, body: are.SetRole) -> State:
    member = _active(state, body.member)
    if member.role == body.role:
        _refuse("unchanged", f"the member is {body.role} already")
    steps_down = member.id == author.id and RANK[body.role] < RANK[author.role]
    if not steps_down:
        _check_outranks(author, member)
    if RANK[body.role] > RANK[author.role]:
        _refuse("not_allowed", f"the role {author.role} cannot give the role {body.role}")
    if steps_down and author.role == "owner" and len(state.owners()) == 1:
        _refuse("last_owner", "a mesh needs an owner; make somebody else one first")
    if body.role == "owner" and member.until is not None:
        _refuse("not_allowed", "an ephemeral member cannot own a mesh")
    return _with(state, replace(member, role=body.role, since=(entry.n, 0)))


def _revoke_invite(state: State, entry: Entry, author: Member, body: are.RevokeInvite) -> State:
    issuer = _issuer(state, body.invite)
    if issuer.id != author.id:
        _check_outranks(author, issuer)
    if body.invite.id in state.invites_revoked:
        _refuse("unchanged", "the invite was taken back before")
    return _revoke(state, body.invite.id, entry.n)


def _expire(state: State, entry: Entry, author: Member, body: are.Expire) -> State:
    if body.members != sorted(set(body.members)):
        _refuse("malformed", "members that expire are listed once each, in order")
    for each in body.members:
        member = _active(state, each)
        if member.until is None or member.until > entry.at:
            _refuse("not_expired", "the membership is not over")
        state = _end(state, entry, member, "expired", owed="soon")
    return state


def _key(state: State, entry: Entry, author: Member, body: are.Key) -> State:
    _check_rank(author, "admin")
    if body.epoch != state.epoch + 1:
        _refuse("wrong_epoch", f"the next key is that of epoch {state.epoch + 1}")
    if body.previous is not None and body.previous.epoch >= body.epoch:
        _refuse("wrong_epoch", "the key before is of an earlier epoch")
    made = EpochKey(body.mesh, body.data, entry.n, author.id, body.previous)
    return replace(state, epochs={**state.epochs, body.epoch: made}, owed="")


def _void(state: State, entry: Entry, author: Member, body: are.Void) -> State:
    _check_rank(author, "owner")
    made = state.epochs.get(body.epoch)
    if made is None:
        _refuse("wrong_epoch", "there is no such key epoch")
    if made.is_void:
        _refuse("unchanged", "the key epoch is void")
    voided = replace(state, epochs={**state.epochs, body.epoch: replace(made, is_void=True)})
    return _owe(voided, "now") if body.epoch == state.epoch else voided


def _name_broker(state: State, entry: Entry, author: Member, body: are.NameBroker) -> State:
    _check_rank(author, "owner")
    if body.key == state.broker:
        _refuse("unchanged", "the mesh is at this broker")
    return replace(state, brokers={**state.brokers, entry.n: body.key})


def _adopt(state: State, entry: Entry, author: Member, body: are.Adopt) -> State:
    if not state.may_adopt or author.id != state.founder:
        _refuse("not_allowed", "members are adopted by the founder, right after the broker was named")
    for place, each in enumerate(body.members):
        state = _adopted(state, entry, each, (entry.n, place))
    return state


def _adopted(state: State, entry: Entry, each: are.Adopted, since: tuple[int, int]) -> State:
    if each.id in state.members:
        _refuse("key_taken", f"{each.id} is listed twice")
    founder = state.members[state.founder]
    if each.key == founder.key:
        if each.role != "owner":
            _refuse("not_allowed", "who founds a mesh is an owner of it")
        return _renumber(state, founder, each, since)
    _check_key(each.key)
    if each.key in state.keys:
        _refuse("key_taken", f"the key of {each.id} is listed twice")
    member = Member(each.id, each.key, each.name, each.role, since, entry.n, entry.at)
    named = _take_name(state, member, each.name, entry.at)
    return replace(named, members={**state.members, each.id: member}, keys={**state.keys, each.key: each.id})


def _renumber(state: State, founder: Member, each: are.Adopted, since: tuple[int, int]) -> State:
    """The founder, who goes by the id, the name and in the order of the list that it adopts."""
    without = {name: member for name, member in state.members.items() if name != founder.id}
    names = {name: member for name, member in state.names.items() if member != founder.id}
    known = replace(founder, id=each.id, name=each.name, since=since)
    named = _take_name(replace(state, names=names), known, each.name, state.at)
    return replace(
        named, founder=each.id, members={**without, each.id: known}, keys={**state.keys, founder.key: each.id}
    )


def _rules(state: State, entry: Entry, author: Member, body: are.Rules) -> State:
    _check_rank(author, "owner")
    if body.version <= state.rules:
        _refuse("unchanged", f"the mesh has rules of version {state.rules}")
    return replace(state, rules=body.version)


def _settle(state: State, entry: Entry, author: Member, body: are.Settle) -> State:
    _check_rank(author, "owner")
    if body.fork > state.n or author.since[0] > body.fork:
        _refuse("not_allowed", "a fork is settled by who was an owner before it")
    return replace(state, settled={**state.settled, **dict.fromkeys(body.lost, entry.n)})


def _checkpoint(state: State, entry: Entry, author: Member, body: are.Checkpoint) -> State:
    _check_rank(author, "owner")
    if entry.n - state.checkpoint < CHECKPOINT_ENTRIES_MIN:
        _refuse("not_allowed", f"there are {CHECKPOINT_ENTRIES_MIN} entries between two checkpoints")
    if body.state != state_hash(state):
        _refuse("wrong_state", "the entries before it add up to something else")
    return replace(state, checkpoint=entry.n)


def _put_out(state: State, entry: Entry, author: Member, member: Member, how: Status) -> State:
    """Ends a membership against the member's will, and the invite by which it came."""
    _check_outranks(author, member)
    ended = _end(state, entry, member, how, owed="now")
    return ended if member.invite is None else _revoke(ended, member.invite, entry.n)


def _end(state: State, entry: Entry, member: Member, how: Status, *, owed: Owed) -> State:
    without = _give_up_name(state, member, entry.at, free_now=how == "expired")
    ended = _with(without, replace(member, status=how, ended=entry.n))
    return _owe(ended, owed)


def _revoke(state: State, invite: str, n: int) -> State:
    return replace(state, invites_revoked={**state.invites_revoked, invite: state.invites_revoked.get(invite, n)})


def _owe(state: State, when: Owed) -> State:
    """A key that is owed now stays so, whatever else comes; where there was never one, none is owed."""
    if state.epoch == 0 or state.owed == "now":
        return state
    return replace(state, owed=when)


def _with(state: State, member: Member) -> State:
    return replace(state, members={**state.members, member.id: member})


def _take_name(state: State, member: Member, name: str, at: int) -> State:
    if name in RESERVED:
        _refuse("name_reserved", f"nobody can be called {name}")
    if name in state.names:
        _refuse("name_taken", f"somebody else is called {name}")
    before = state.given_up.get(name)
    if before is not None and at < before.free_at and state.members[before.member].key != member.key:
        _refuse("name_taken", f"{name} was somebody else's until lately")
    given_up = {each: value for each, value in state.given_up.items() if each != name}
    return replace(state, names={**state.names, name: member.id}, given_up=given_up)


def _give_up_name(state: State, member: Member, at: int, *, free_now: bool = False) -> State:
    names = {name: each for name, each in state.names.items() if name != member.name}
    if free_now:
        return replace(state, names=names)
    kept = GivenUp(member.id, at + NAME_KEPT_MS)
    return replace(state, names=names, given_up={**state.given_up, member.name: kept})


def _known(state: State, name: str) -> Member:
    member = state.members.get(name)
    if member is None:
        _refuse("unknown_member", "there never was such a member")
    return member


def _active(state: State, name: str) -> Member:
    member = _known(state, name)
    if not member.is_active:
        _refuse("not_active", "the member is none any more")
    return member


def _check_outranks(author: Member, member: Member) -> None:
    _check_rank(author, "admin")
    if not outranks(author, member):
        _refuse("not_allowed", f"{author.name} does not decide over {member.name}")


def _check_rank(author: Member, least: str) -> None:
    if RANK[author.role] < RANK[least]:
        _refuse("not_allowed", f"the role {author.role} may not do this")


def _check_until(until: int, at: int) -> None:
    if not at < until <= at + EPHEMERAL_MS_MAX:
        _refuse("bad_until", "an ephemeral membership ends within a day, unless it is renewed")


def _refuse(reason: str, message: str) -> NoReturn:
    raise _RefusedError(reason, message)


_RULES: Final[dict[str, Callable[[State, Entry, Member, Any], State]]] = {
    "broker": _name_broker,
    "adopt": _adopt,
    "join": _join,
    "leave": _leave,
    "rename": _rename,
    "renew": _renew,
    "rotate": _rotate,
    "remove": _remove,
    "ban": _ban,
    "unban": _unban,
    "role": _set_role,
    "revoke_invite": _revoke_invite,
    "expire": _expire,
    "key": _key,
    "void": _void,
    "rules": _rules,
    "settle": _settle,
    "checkpoint": _checkpoint,
}
