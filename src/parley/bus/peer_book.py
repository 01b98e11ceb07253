"""Who was met, at hand in memory and kept in the store: whom to publish to, and how to seal for who is away."""

import logging
from collections.abc import Iterator
from typing import Final

from parley.bus.connection import Connection
from parley.bus.fingerprint import Fingerprint, short
from parley.bus.mesh_store import KnownPeer, MeshStore
from parley.bus.trust import Trust
from parley.core.bus_errors import BusError
from parley.core.clock import Clock
from parley.core.limits import BUS_PEER_SEEN_MS

_log: Final = logging.getLogger(__name__)


class PeerBook:
    """Loaded at the start; it grows by whom the bus meets."""

    def __init__(self, store: MeshStore, trust: Trust, clock: Clock) -> None:
        self._store = store
        self._trust = trust
        self._clock = clock
        self._known: dict[bytes, KnownPeer] = {}

    async def load(self) -> None:
        """Takes up who was met before."""
        since = max(0, self._clock.now_ms() - BUS_PEER_SEEN_MS)
        self._known = {each.fingerprint: each for each in await self._store.known_peers(since=since)}

    def __iter__(self) -> Iterator[KnownPeer]:
        """Who was seen within the last 30 days and is not revoked."""
        since = self._clock.now_ms() - BUS_PEER_SEEN_MS
        revoked = self._trust.revocations.revoked
        return (each for each in self._known.values() if each.seen_at >= since and each.fingerprint not in revoked)

    def get(self, peer: Fingerprint) -> KnownPeer | None:
        """What is known of a peer."""
        return self._known.get(peer)

    def meet(self, connection: Connection) -> KnownPeer | None:
        """Notes what the peer has just said of itself. None if its certificate holds no longer."""
        now = self._clock.now_ms()
        hello = connection.link.met
        try:
            authority = connection.link.authority(now)
        except BusError:
            return None
        topics = () if hello is None else hello.topics
        known = KnownPeer(connection.peer, authority.agent_key, authority.role, topics, now)
        self._known[connection.peer] = known
        return known

    async def keep(self, known: KnownPeer) -> None:
        """Writes it down. What cannot be written is known until the bus ends."""
        try:
            await self._store.remember_peer(known)
        except BusError as error:
            _log.error("what %s said cannot be kept: %s", short(Fingerprint(known.fingerprint)), error)
