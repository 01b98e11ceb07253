"""A resolver that is told where everybody is."""

from collections.abc import Callable, Mapping, Sequence

from parley.bus.fingerprint import Fingerprint
from parley.bus.transport import Address


class StaticResolver:
    """A ``Resolver`` whose addresses come from whoever made it: a file, a person, a test."""

    def __init__(self, known: Mapping[Fingerprint, Sequence[Address]] | None = None) -> None:
        self._known = {peer: tuple(addresses) for peer, addresses in (known or {}).items()}
        self._watchers: list[Callable[[Fingerprint], None]] = []

    def candidates(self, peer: Fingerprint) -> Sequence[Address]:
        return self._known.get(peer, ())

    def peers(self) -> Sequence[Fingerprint]:
        return tuple(self._known)

    def watch(self, seen: Callable[[Fingerprint], None]) -> None:
        self._watchers.append(seen)

    def announce(self, peer: Fingerprint, *addresses: Address) -> None:
        """The peer may be found at these from now on, and nowhere else. To be called on the event loop."""
        self._known[peer] = addresses
        for seen in self._watchers:
            seen(peer)

    def withdraw(self, peer: Fingerprint) -> None:
        """Nothing is known of the peer any more."""
        self._known.pop(peer, None)
