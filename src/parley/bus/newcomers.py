"""Who may connect, how often: bounds that leave room for everybody else.

A newcomer is a connection that has not proven a key. Anybody on the LAN can make many, so none is refused: a new one
ends the oldest one of the address that has the most. Whoever opens connections and says nothing crowds out itself, and
a machine that proves its key at once is through before its turn comes.

A connection that has proven a key comes from a machine of the user's. Of those too many are refused, as none of them
may be ended for another one.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from parley.core import limits


class ConnectionBounds(NamedTuple):
    """How many of each there may be."""

    newcomers_max: int = limits.BUS_NEWCOMERS_MAX
    connections_max: int = limits.BUS_CONNECTIONS_MAX
    connections_per_address_max: int = limits.BUS_CONNECTIONS_PER_ADDRESS_MAX


DEFAULT_BOUNDS: Final = ConnectionBounds()


class Newcomer:
    """One connection that is on its way."""

    def __init__(self, host: str, end: Callable[[], None]) -> None:
        self.host = host
        self.end = end


class Doors:
    """Counts the connections that come in."""

    def __init__(self, bounds: ConnectionBounds) -> None:
        self._bounds = bounds
        self._newcomers: dict[Newcomer, None] = {}
        self._connections: Counter[str] = Counter()

    def arrive(self, newcomer: Newcomer) -> None:
        """Lets it try, and ends another one if there are too many."""
        if len(self._newcomers) >= self._bounds.newcomers_max:
            crowding = self._crowding()
            self.depart(crowding)
            crowding.end()
        self._newcomers[newcomer] = None

    def depart(self, newcomer: Newcomer) -> None:
        """It has proven its key, or failed to, or was ended."""
        self._newcomers.pop(newcomer, None)

    def enter(self, host: str) -> bool:
        """Counts a connection that has proven its key, unless there are too many."""
        full = self._connections.total() >= self._bounds.connections_max
        if full or self._connections[host] >= self._bounds.connections_per_address_max:
            return False
        self._connections[host] += 1
        return True

    def leave(self, host: str) -> None:
        """A connection that had entered is closed."""
        self._connections[host] -= 1
        self._connections += Counter()  # which forgets hosts that have none

    def end_newcomers(self) -> None:
        """Ends all that are on their way."""
        for newcomer in list(self._newcomers):
            newcomer.end()

    def _crowding(self) -> Newcomer:
        busiest, _ = Counter(newcomer.host for newcomer in self._newcomers).most_common(1)[0]
        return next(newcomer for newcomer in self._newcomers if newcomer.host == busiest)
