"""What a broker's notice means in the daemon's log."""

from typing import Any, Final, NamedTuple

import msgspec

from parley.core.roster import State
from parley.daemon.inbox.events import EventKind
from parley.wire.broker import Notice


class Told(NamedTuple):
    """An event that is to be written."""

    kind: EventKind
    data: dict[str, Any]


BROKERS_WORDS: Final = {"removed": "revoked", "expired": "left"}
"""What a broker calls a member that is none any more, where the roster says otherwise."""


class _PeersChanged(msgspec.Struct, frozen=True):
    connected: list[str] = []
    disconnected: list[str] = []
    presence: dict[str, str] = {}
    more: int = 0


def events_of(notice: Notice, own_id: str) -> list[Told]:
    """The events, without what a member knows of itself."""
    if notice.name != "peers_changed":
        kind: EventKind = "peer_leave" if notice.name == "member_gone" else "system"
        return [Told(kind, {"name": notice.name, **notice.data})]
    try:
        changed = msgspec.convert(notice.data, _PeersChanged)
    except msgspec.ValidationError:
        return [Told("system", {"name": notice.name})]
    told = [
        *(Told("peer_join", {"name": "peer_connected", "member_id": each}) for each in changed.connected),
        *(Told("peer_leave", {"name": "peer_disconnected", "member_id": each}) for each in changed.disconnected),
        *(
            Told("system", {"name": "presence", "member_id": each, "status": status})
            for each, status in changed.presence.items()
        ),
    ]
    told = [each for each in told if each.data["member_id"] != own_id]
    return [*told, Told("system", {"name": notice.name, "more": changed.more})] if changed.more else told


def events_of_members(before: State, after: State) -> list[Told]:
    """Who has come, gone or got another key since, as the roster has it."""
    told: list[Told] = []
    for name, member in after.members.items():
        known = before.members.get(name)
        if known == member:
            continue
        if known is None and member.is_active:
            about = {"member_id": name, "display_name": member.name, "pubkey": member.key}
            told.append(Told("system", {"name": "member_joined", **about}))
        elif known is not None and known.is_active and not member.is_active:
            gone = {"member_id": name, "state": BROKERS_WORDS.get(member.status, member.status)}
            told.append(Told("peer_leave", {"name": "member_gone", **gone, "key_epoch": after.epoch}))
        elif known is not None and known.key != member.key:
            keys = {"member_id": name, "pubkey": member.key, "previous": known.key}
            told.append(Told("system", {"name": "member_keypair_rotated", **keys}))
    return told
