"""The methods behind ``request`` frames, each a rule for the member of the connection."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from parley.broker import roster_methods
from parley.broker.done import Done
from parley.broker.member_page import MemberPage
from parley.broker.rules import (
    audit,
    grants,
    invites,
    keys,
    members,
    mesh_limits,
    messages,
    presence,
    profiles,
    topics,
)
from parley.broker.rules.members import RANK, Member
from parley.broker.rules.recipients import CAPABILITIES
from parley.broker.rules.roster_log import find_roster
from parley.broker.tx import Tx
from parley.core import sealing
from parley.core.broker_errors import NotAllowed, RosterDecides
from parley.core.clock import iso
from parley.core.errors import InvalidInput, NotFound
from parley.wire import mesh_methods as wire
from parley.wire.broker import Notice
from parley.wire.invites import decode_invite
from parley.wire.validation_errors import invalid


@dataclass(frozen=True, slots=True)
class CallMethod:
    """A request of a member."""

    mesh_id: str
    member_id: str
    method: str
    params: dict[str, Any] = field(hash=False)

    @property
    def locks_mesh(self) -> str | None:
        """Which mesh nobody else changes meanwhile. To read it does not keep anybody from sending."""
        return None if self.method in _READING else self.mesh_id

    def __call__(self, tx: Tx) -> Done:
        known = wire.METHODS.get(self.method)
        if known is None:
            raise NotFound(f"There is no method {self.method}", method=self.method)
        try:
            params = wire.params_of(known, self.params)
        except msgspec.ValidationError as error:
            raise invalid(error, method=self.method) from None
        if self.locks_mesh is not None:
            members.lock_mesh(tx, self.locks_mesh)
        caller = members.active_member(tx, self.mesh_id, self.member_id)
        if self.method in roster_methods.REPLACED and find_roster(tx, self.mesh_id) is not None:
            raise RosterDecides(f"{self.method} is for meshes without a roster; here an entry says it")
        if RANK[caller.role] < RANK[known.role]:
            raise NotAllowed(f"{self.method} needs the role {known.role}", role=caller.role, needed=known.role)
        return _HANDLERS[self.method](tx, caller, params)._replace(mesh_id=self.mesh_id)


def member_view(member: Member) -> dict[str, Any]:
    """A member as others see it."""
    return {
        "member_id": member.member_id,
        "pubkey": member.pubkey,
        "display_name": member.display_name,
        "role": member.role,
        "state": member.state,
        "joined_at": iso(member.joined_ms),
        "seen_at": None if member.seen_ms is None else iso(member.seen_ms),
    }


def _peers(tx: Tx, caller: Member, params: wire.MemberPage) -> Done:
    page = MemberPage(params)
    found = members.members_after(tx, caller.mesh_id, page.after, page.read)
    ids = [each.member_id for each in found]
    now, groups = presence.doings(tx, ids), topics.groups_of(tx, ids)
    told = profiles.profiles(tx, ids)
    for member in found:
        name = member.member_id
        profile = told.get(name)
        hidden = profile is not None and not profile.visible and name != caller.member_id
        status, summary, connected = now[name]
        more: dict[str, Any] = {"status": status, "summary": summary, "connected": connected, "profile": None}
        if profile is not None and profile.sealed is not None:
            more["profile"] = {"sealed": profile.sealed, "key_epoch": profile.key_epoch}
        page.add(name, None if hidden else {**member_view(member), **more, "groups": groups[name]})
    return Done({"peers": page.views, "cursor": page.cursor})


def _members(tx: Tx, caller: Member, params: wire.ListMembers) -> Done:
    page = MemberPage(params)
    found = members.members_after(tx, caller.mesh_id, page.after, page.read, former=params.former)
    for each in found:
        page.add(each.member_id, member_view(each))
    cursor = page.cursor
    if params.limit is None and not params.former and cursor is None:
        # A daemon that knows no pages finds whom to let in again only among all who ever joined.
        for each in members.members_after(tx, caller.mesh_id, "", page.read, former=True):
            page.add(each.member_id, member_view(each))
    return Done({"members": page.views, "cursor": cursor})


def _topics(tx: Tx, caller: Member, _: wire.Nothing) -> Done:
    return Done({"topics": topics.list_topics(tx, caller.mesh_id, caller.member_id)})


def _subscribe(tx: Tx, caller: Member, params: wire.OfTopic) -> Done:
    changed = topics.subscribe(tx, caller.mesh_id, caller.member_id, params.topic)
    return Done({"topic": params.topic, "changed": changed})


def _unsubscribe(tx: Tx, caller: Member, params: wire.OfTopic) -> Done:
    changed = topics.unsubscribe(tx, caller.mesh_id, caller.member_id, params.topic)
    return Done({"topic": params.topic, "changed": changed})


def _join_group(tx: Tx, caller: Member, params: wire.OfGroup) -> Done:
    changed = topics.join_group(tx, caller.mesh_id, caller.member_id, params.group)
    return Done({"group": params.group, "changed": changed})


def _leave_group(tx: Tx, caller: Member, params: wire.OfGroup) -> Done:
    changed = topics.leave_group(tx, caller.mesh_id, caller.member_id, params.group)
    return Done({"group": params.group, "changed": changed})


def _set_presence(tx: Tx, caller: Member, params: wire.SetPresence) -> Done:
    presence.set_presence(tx, caller.member_id, params.status, params.summary, params.for_ms)
    told = {"member_id": caller.member_id, "status": params.status}
    return Done({"status": params.status}, (caller.member_id,), notices=(Notice("presence", told),))


def _set_profile(tx: Tx, caller: Member, params: wire.SetProfile) -> Done:
    if (params.sealed is None) != (params.key_epoch is None):
        raise InvalidInput("A sealed profile has a key epoch", field="key_epoch")
    profiles.set_profile(tx, caller.member_id, profiles.SealedProfile(params.visible, params.sealed, params.key_epoch))
    return Done({"visible": params.visible})


def _grants(tx: Tx, caller: Member, _: wire.Nothing) -> Done:
    return Done({"grants": grants.grants_of(tx, caller.member_id)})


def _grant(tx: Tx, caller: Member, params: wire.Grant) -> Done:
    return _granted(tx, caller, params.member_id, tuple(params.capabilities))


def _block(tx: Tx, caller: Member, params: wire.OfMember) -> Done:
    return _granted(tx, caller, params.member_id, ())


def _unblock(tx: Tx, caller: Member, params: wire.OfMember) -> Done:
    return _granted(tx, caller, params.member_id, CAPABILITIES)


def _granted(tx: Tx, caller: Member, peer_id: str, capabilities: tuple[str, ...]) -> Done:
    if peer_id == caller.member_id:
        raise InvalidInput("Nobody needs a grant for what it sends to itself", field="member_id")
    chosen = grants.grant(tx, caller.mesh_id, caller.member_id, peer_id, capabilities)
    return Done({"member_id": peer_id, "capabilities": chosen})


def _message_status(tx: Tx, caller: Member, params: wire.MessageStatus) -> Done:
    return Done(messages.message_status(tx, caller.mesh_id, caller.member_id, params.client_message_id))


def _messages_reached(tx: Tx, caller: Member, params: wire.MessagesReached) -> Done:
    ids = params.client_message_ids
    return Done({"messages": messages.messages_reached(tx, caller.mesh_id, caller.member_id, ids)})


def _redeliver(tx: Tx, caller: Member, _: wire.Nothing) -> Done:
    return Done({"deliveries": messages.redeliver(tx, caller.member_id)}, (caller.member_id,))


def _rotate_key(tx: Tx, caller: Member, params: wire.RotateKey) -> Done:
    signed = wire.rotation_bytes(caller.mesh_id, caller.member_id, params.pubkey)
    if not sealing.verify(bytes.fromhex(params.pubkey), bytes.fromhex(params.signature), signed):
        raise InvalidInput("The new key did not sign its own rotation", field="signature")
    member = members.rotate_key(tx, caller.mesh_id, caller.member_id, params.pubkey, params.proof)
    if member.pubkey != caller.pubkey:
        audit.record(tx, caller.mesh_id, "member_keypair_rotated", caller.member_id, pubkey=member.pubkey)
    told = {"member_id": member.member_id, "pubkey": member.pubkey, "previous": caller.pubkey}
    result = {"member_id": member.member_id, "pubkey": member.pubkey}
    return Done(result, notices=(Notice("member_keypair_rotated", told),))


def _leave(tx: Tx, caller: Member, _: wire.Nothing) -> Done:
    return _ended(tx, caller, caller.member_id, "left")


def _kick(tx: Tx, caller: Member, params: wire.OfMember) -> Done:
    member = members.active_member(tx, caller.mesh_id, params.member_id)
    invites.role_below(caller, member)
    audit.record(tx, caller.mesh_id, "member_kicked", caller.member_id, member_id=member.member_id)
    return Done({"member_id": member.member_id}, kicked=(member.member_id,))


def _revoke(tx: Tx, caller: Member, params: wire.OfMember) -> Done:
    invites.role_below(caller, members.get_member(tx, caller.mesh_id, params.member_id))
    return _ended(tx, caller, params.member_id, "revoked")


def _ban(tx: Tx, caller: Member, params: wire.OfMember) -> Done:
    invites.role_below(caller, members.get_member(tx, caller.mesh_id, params.member_id))
    return _ended(tx, caller, params.member_id, "banned")


def _ended(tx: Tx, caller: Member, member_id: str, how: members.Ending) -> Done:
    before = members.get_member(tx, caller.mesh_id, member_id)
    member = members.end_membership(tx, caller.mesh_id, member_id, how)
    if member.state == before.state:
        return Done({"member_id": member_id, "state": member.state}, ended=(member_id,))
    audit.record(tx, caller.mesh_id, f"member_{how}", caller.member_id, member_id=member_id)
    epoch = members.lock_mesh(tx, caller.mesh_id).key_epoch
    told = Notice("member_gone", {"member_id": member_id, "state": member.state, "key_epoch": epoch})
    return Done({"member_id": member_id, "state": member.state}, ended=(member_id,), notices=(told,))


def _unban(tx: Tx, caller: Member, params: wire.OfMember) -> Done:
    before = members.get_member(tx, caller.mesh_id, params.member_id)
    member = members.lift_ban(tx, caller.mesh_id, params.member_id)
    if member.state != before.state:
        audit.record(tx, caller.mesh_id, "member_unbanned", caller.member_id, member_id=member.member_id)
    return Done({"member_id": member.member_id, "state": member.state})


def _set_role(tx: Tx, caller: Member, params: wire.SetRole) -> Done:
    member = members.set_role(tx, caller.mesh_id, params.member_id, params.role)
    audit.record(tx, caller.mesh_id, "role_changed", caller.member_id, member_id=member.member_id, role=member.role)
    return Done({"member_id": member.member_id, "role": member.role})


def _mesh(tx: Tx, caller: Member, _: wire.Nothing) -> Done:
    return Done(msgspec.to_builtins(mesh_limits.limits_of(tx, caller.mesh_id)))


def _set_connection_policy(tx: Tx, caller: Member, params: wire.SetConnectionPolicy) -> Done:
    changed = mesh_limits.set_connection_policy(tx, caller.mesh_id, caller.member_id, params.policy)
    return Done({"connection_policy": params.policy, "changed": changed})


def _keys_wanted(tx: Tx, caller: Member, params: wire.MemberPage) -> Done:
    page = MemberPage(params)
    epoch, wanted = keys.keys_wanted(tx, caller.mesh_id, caller.member_id, page.after, page.read)
    for each in wanted:
        page.add(str(each["member_id"]), each)
    return Done({"key_epoch": epoch, "wanted": page.views, "cursor": page.cursor})


def _give_key(tx: Tx, caller: Member, params: wire.GiveKey) -> Done:
    given = keys.give_key(tx, caller.mesh_id, caller.member_id, params.member_id, params.key_epoch, params.sealed)
    told = Notice("key_given", {"member_id": params.member_id, "key_epoch": params.key_epoch})
    return Done({"member_id": params.member_id, "given": given}, notices=(told,) if given else ())


def _refuse_key(tx: Tx, caller: Member, params: wire.RefuseKey) -> Done:
    changed = keys.refuse_key(tx, caller.member_id, params.key_epoch, params.giver_id)
    told = Notice("key_wanted", {"member_id": caller.member_id, "key_epoch": params.key_epoch})
    return Done({"changed": changed}, notices=(told,) if changed else ())


def _keys(tx: Tx, caller: Member, _: wire.Nothing) -> Done:
    epoch, given = keys.keys_for(tx, caller.mesh_id, caller.member_id)
    return Done({"key_epoch": epoch, "keys": given})


def _invites(tx: Tx, caller: Member, _: wire.Nothing) -> Done:
    return Done({"invites": invites.list_invites(tx, caller.mesh_id)})


def _create_invite(tx: Tx, caller: Member, params: wire.CreateInvite) -> Done:
    invite, secret = decode_invite(params.invite)
    if secret:
        raise InvalidInput("The secret of an invite is not for the broker", field="invite")
    if invite.mesh_id != caller.mesh_id:
        raise InvalidInput("The invite is for another mesh", field="invite")
    return Done({"invite_id": invite.invite_id, "created": invites.register_invite(tx, invite, caller.member_id)})


def _revoke_invite(tx: Tx, caller: Member, params: wire.OfInvite) -> Done:
    changed = invites.revoke_invite(tx, caller.mesh_id, params.invite_id, caller.member_id)
    return Done({"invite_id": params.invite_id, "changed": changed})


def _audit(tx: Tx, caller: Member, params: wire.Page) -> Done:
    rows = audit.entries(tx, caller.mesh_id, params.after, params.limit)
    found = [
        {"number": number, "at": iso(at_ms), "event": event, "actor": actor, "payload": msgspec.json.decode(payload)}
        for number, at_ms, event, actor, payload, _, _ in rows
    ]
    return Done({"entries": found, "verified": audit.verify(tx, caller.mesh_id) is None})


_HANDLERS: Final[dict[str, Callable[[Tx, Member, Any], Done]]] = {
    "peers": _peers,
    "members": _members,
    "topics": _topics,
    "subscribe": _subscribe,
    "unsubscribe": _unsubscribe,
    "join_group": _join_group,
    "leave_group": _leave_group,
    "set_presence": _set_presence,
    "set_profile": _set_profile,
    "grants": _grants,
    "grant": _grant,
    "block": _block,
    "unblock": _unblock,
    "message_status": _message_status,
    "messages_reached": _messages_reached,
    "redeliver": _redeliver,
    "rotate_key": _rotate_key,
    "leave": _leave,
    "kick": _kick,
    "revoke": _revoke,
    "ban": _ban,
    "unban": _unban,
    "set_role": _set_role,
    "mesh": _mesh,
    "set_connection_policy": _set_connection_policy,
    "keys_wanted": _keys_wanted,
    "give_key": _give_key,
    "refuse_key": _refuse_key,
    "keys": _keys,
    "invites": _invites,
    "create_invite": _create_invite,
    "revoke_invite": _revoke_invite,
    "audit": _audit,
    **roster_methods.HANDLERS,
}
_READING: Final = frozenset(
    (
        "peers",
        "members",
        "topics",
        "grants",
        "message_status",
        "messages_reached",
        "mesh",
        "keys_wanted",
        "keys",
        "invites",
        "audit",
        "roster_read",
    )
)
