"""What a broker's notice means in the daemon's log."""

from typing import Any, NamedTuple

import msgspec

from parley.daemon.inbox.events import EventKind
from parley.wire.broker import Notice


class Told(NamedTuple):
    """An event that is to be written."""

    kind: EventKind
    data: dict[str, Any]


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
