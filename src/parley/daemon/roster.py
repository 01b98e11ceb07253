"""What names mean in a mesh: members, topics, groups and everybody.

A name is looked up in what the broker told last. Keys, topics, groups and everybody need no looking up, so a message to
them is taken while the broker is away.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from parley.core import untrusted_json
from parley.core.daemon_errors import DestinationUnknown, MeshRequired, MeshUnreachable
from parley.core.errors import InvalidInput
from parley.core.files import write_atomic
from parley.core.limits import PAGE_LIMIT_MAX
from parley.daemon.outbox.accept import Destination
from parley.wire.daemon_home import DaemonHome

Ask = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Asks the broker a method with its parameters."""
MEMBERS_READ_MAX: Final = 1_000_000
"""Far more than any mesh has; a broker that never stops listing is not believed further."""
_KEY: Final = re.compile(r"[0-9a-f]{64}")
_KEY_PART: Final = re.compile(r"[0-9a-f]{16,63}")
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f]")


class Peer(msgspec.Struct, frozen=True):
    """A member as the broker tells of it."""

    member_id: str
    pubkey: str
    display_name: str
    role: str = "member"
    state: str = "active"
    old_keys: list[str] = []
    """Those that it had before, as far as they are known."""


class Roster(msgspec.Struct, frozen=True, dict=True):
    """The members of one mesh; None while the broker has not been asked yet."""

    mesh_id: str
    slug: str
    peers: Sequence[Peer] | None = None
    signed: bool = False
    """Whether it is the mesh's own roster, in which a member goes by its id, and not what a broker tells."""

    def active(self) -> list[Peer]:
        return [peer for peer in self.peers or () if peer.state == "active"]

    @cached_property
    def addresses(self) -> dict[str, list[Peer]]:
        """The active members by what nobody can choose: the keys and the id."""
        return {name: [peer] for peer in self.active() for name in (*peer.old_keys, peer.pubkey, peer.member_id)}

    @cached_property
    def names(self) -> dict[str, list[Peer]]:
        """The active members by what they call themselves, in any case."""
        found: dict[str, list[Peer]] = {}
        for peer in self.active():
            found.setdefault(peer.display_name.casefold(), []).append(peer)
        return found

    def beginning(self, part: str) -> list[Peer]:
        """The active members whose keys begin so."""
        return [peer for peer in self.active() if peer.pubkey.startswith(part)]


async def list_all(ask: Ask, method: str, name: str, **params: Any) -> list[dict[str, Any]]:
    """All that a method of the broker lists of members, page by page. An older broker answers everything at once."""
    found: list[dict[str, Any]] = []
    asked: dict[str, Any] = {**params, "limit": PAGE_LIMIT_MAX}
    while True:
        answer = await ask(method, asked)
        found += answer[name]
        cursor = answer.get("cursor")
        if cursor in (None, asked.get("after")) or len(found) >= MEMBERS_READ_MAX:
            return found
        asked = {**asked, "after": cursor}


def peers_of(members: list[dict[str, Any]]) -> list[Peer]:
    """The members in a broker's answer; what it adds is ignored."""
    return msgspec.convert(members, list[Peer])


def read_roster(home: DaemonHome, mesh_id: str, slug: str) -> Roster:
    """What the broker told last, also before this start: a name means the same while it is away."""
    try:
        peers = untrusted_json.decode(home.roster(mesh_id).read_bytes(), list[Peer])
    except (OSError, msgspec.DecodeError):
        return Roster(mesh_id, slug)
    return Roster(mesh_id, slug, peers)


def write_roster(home: DaemonHome, roster: Roster) -> None:
    """Keeps it. It can be asked for again, so nothing is lost with it."""
    write_atomic(home.roster(roster.mesh_id), msgspec.json.encode(list(roster.peers or ())), durable=False)


def resolve(to: str, rosters: Sequence[Roster]) -> Destination:
    """Where a message goes. Raises ``DestinationUnknown``, ``MeshRequired`` or ``MeshUnreachable``.

    ``rosters`` are the meshes that are possible: the one that was named, or all.
    """
    if not to or _CONTROLS.search(to):
        raise InvalidInput("to must not be empty or contain control characters", field="to")
    if to == "*" or to.startswith(("@", "#")):
        mesh = _only(rosters)
        if to.startswith("#"):
            return Destination(mesh.mesh_id, to, "topic", _named(to))
        return Destination(mesh.mesh_id, to, "queue", to if to == "*" else "@" + _named(to))
    matches = _matches(to, rosters)
    if len(matches) == 1:
        roster, peer = matches[0]
        return Destination(roster.mesh_id, to, "dm", peer.member_id if roster.signed else peer.pubkey)
    if matches:
        raise _ambiguous(to, matches)
    if _KEY.fullmatch(to.lower()) and not any(roster.signed for roster in rosters):
        return Destination(_only(rosters).mesh_id, to, "dm", to.lower())
    unasked = [roster.slug for roster in rosters if roster.peers is None]
    if unasked:
        raise MeshUnreachable(f"Nobody called {to} is known, and the broker cannot be asked", meshes=unasked)
    close = _close(to, rosters)
    meant = f"; did you mean {' or '.join(close)}?" if close else ""
    raise DestinationUnknown(f"Nobody in the mesh is called {to}{meant}", to=to, candidates=close)


def _named(to: str) -> str:
    if len(to) == 1:
        raise InvalidInput(f"{to} needs a name behind it", field="to")
    return to[1:]


def _only(rosters: Sequence[Roster]) -> Roster:
    if len(rosters) != 1:
        raise MeshRequired("Which mesh is meant?", attached=[roster.slug for roster in rosters])
    return rosters[0]


def _matches(to: str, rosters: Sequence[Roster]) -> list[tuple[Roster, Peer]]:
    """Who is meant. What nobody can choose counts before what everybody can: a whole key or an id is that member's,
    whoever else has made it its name, and so is the beginning of a key."""
    key, name = to.lower(), to.casefold()
    part = key if _KEY_PART.fullmatch(key) else None
    ways: tuple[Callable[[Roster], list[Peer]], ...] = (
        lambda roster: roster.addresses.get(key) or roster.addresses.get(to, []),
        lambda roster: [] if part is None else roster.beginning(part),
        lambda roster: roster.names.get(name, []),
    )
    for meant in ways:
        if found := [(roster, peer) for roster in rosters for peer in meant(roster)]:
            return found
    return []


def _ambiguous(to: str, matches: Sequence[tuple[Roster, Peer]]) -> Exception:
    slugs = list(dict.fromkeys(roster.slug for roster, _ in matches))
    if len(slugs) == len(matches):
        return MeshRequired(f"{to} is in several meshes", attached=slugs)
    candidates = [f"{peer.display_name} {peer.pubkey}" for _, peer in matches]
    return DestinationUnknown(f"{to} could be {' or '.join(candidates)}", to=to, candidates=candidates)


def _close(to: str, rosters: Sequence[Roster]) -> list[str]:
    import difflib

    names = [peer.display_name for roster in rosters for peer in roster.active()]
    return difflib.get_close_matches(to, names)
