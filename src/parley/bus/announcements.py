"""What others on the LAN have said about where peers are.

Anybody can say anything, under any name. So each announcement is a claim that costs a dial to look into, and their
number is bounded: of one peer the newest few are kept, of all peers the newest ones. Who floods can push out what
honest machines have announced, until they do so again; a peer that was met before is also known by its last address.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from parley.bus.fingerprint import Fingerprint
from parley.bus.transport import Address
from parley.core import limits


class Announcement(NamedTuple):
    """Who is said to be where."""

    peer: Fingerprint
    addresses: tuple[Address, ...]


class Announcements:
    """The ones that hold, by the name of their record."""

    def __init__(self) -> None:
        self._held: dict[str, Announcement] = {}
        self._watching: list[Callable[[Fingerprint], None]] = []

    def watch(self, seen: Callable[[Fingerprint], None]) -> None:
        """Has ``seen`` called whenever a peer is announced."""
        self._watching.append(seen)

    def put(self, name: str, peer: Fingerprint, addresses: Sequence[Address]) -> None:
        """Takes an announcement, in the place of an older one under this name."""
        self._held.pop(name, None)
        self._held[name] = Announcement(peer, tuple(addresses)[: limits.BUS_ANNOUNCED_ADDRESSES_MAX])
        of_peer = [each for each, held in self._held.items() if held.peer == peer]
        if len(of_peer) > limits.BUS_ANNOUNCEMENTS_PER_PEER_MAX:
            del self._held[of_peer[0]]
        if len(self._held) > limits.BUS_ANNOUNCEMENTS_MAX:
            del self._held[next(iter(self._held))]
        for seen in self._watching:
            seen(peer)

    def drop(self, name: str) -> None:
        """The announcement was taken back, or has expired."""
        self._held.pop(name, None)

    def candidates(self, peer: Fingerprint) -> list[Address]:
        """Where the peer is said to be, the newest first."""
        newest_first = (held.addresses for held in reversed(self._held.values()) if held.peer == peer)
        found = dict.fromkeys(address for addresses in newest_first for address in addresses)
        return list(found)[: limits.BUS_ANNOUNCED_ADDRESSES_MAX]

    def peers(self) -> set[Fingerprint]:
        """Who is announced."""
        return {held.peer for held in self._held.values()}
