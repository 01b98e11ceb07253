"""Who was met, as rules over a transaction."""

from typing import Final

import apsw

from parley.bus.mesh_store import KnownPeer
from parley.bus.rows import rows
from parley.core.limits import BUS_PEERS_KEPT

_BETWEEN: Final = "\n"
"""In no topic."""
_REMEMBER: Final = (
    "INSERT INTO known_peer VALUES (?, ?, ?, ?, ?) ON CONFLICT (fingerprint) DO UPDATE"
    " SET agent_key = excluded.agent_key, role = excluded.role, topics = excluded.topics, seen_at = excluded.seen_at"
)
_FORGET: Final = (
    "DELETE FROM known_peer WHERE fingerprint IN"
    " (SELECT fingerprint FROM known_peer ORDER BY seen_at DESC, fingerprint LIMIT -1 OFFSET ?)"
)
_KNOWN: Final = (
    "SELECT fingerprint, agent_key, role, topics, seen_at FROM known_peer WHERE seen_at >= ?"
    " ORDER BY seen_at DESC, fingerprint"
)


def remember(db: apsw.Connection, peer: KnownPeer) -> None:
    """As ``MeshStore.remember_peer``."""
    db.execute(_REMEMBER, (*peer[:3], _BETWEEN.join(peer.topics), peer.seen_at))
    db.execute(_FORGET, (BUS_PEERS_KEPT,))


def known(db: apsw.Connection, since: int) -> list[KnownPeer]:
    """As ``MeshStore.known_peers``."""
    return [
        KnownPeer(fingerprint, agent_key, role, tuple(topics.split(_BETWEEN)) if topics else (), seen_at)
        for fingerprint, agent_key, role, topics, seen_at in rows(db, _KNOWN, since)
    ]
