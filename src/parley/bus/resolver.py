"""Where a peer may be found, from three sources: what is announced now, where it was last reached, what a file says.

An address that is announced and has worked before comes first. Else the newest announcement does, and right after it
what this machine knows by itself, so that whoever announces other addresses under a peer's name makes nobody wait for
all of them.
"""

from collections.abc import Callable

from parley.bus.announcements import Announcements
from parley.bus.fingerprint import Fingerprint
from parley.bus.fixed_addresses import FixedAddresses
from parley.bus.last_addresses import LastAddresses
from parley.bus.transport import Address


class LanResolver:
    """A ``Resolver``. This machine's own agent is nobody's peer."""

    def __init__(
        self,
        own: Fingerprint,
        *,
        announced: Announcements,
        last: LastAddresses,
        fixed: FixedAddresses,
    ) -> None:
        self._own = own
        self._announced = announced
        self._last = last
        self._fixed = fixed

    def candidates(self, peer: Fingerprint) -> list[Address]:
        """Where the peer may be, the likeliest first; empty if nothing is known."""
        if peer == self._own:
            return []
        announced, last = self._announced.candidates(peer), self._last.candidates(peer)
        confirmed = [address for address in last if address in announced]
        return list(dict.fromkeys((*confirmed, *announced[:1], *last, *self._fixed.candidates(peer), *announced)))

    def peers(self) -> list[Fingerprint]:
        """Everybody for whom there are candidates."""
        return sorted((self._announced.peers() | self._last.peers() | self._fixed.peers()) - {self._own})

    def watch(self, seen: Callable[[Fingerprint], None]) -> None:
        """Has ``seen`` called, on the event loop, whenever a peer is announced, for the first time or again."""
        self._announced.watch(lambda peer: None if peer == self._own else seen(peer))
