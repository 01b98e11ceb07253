"""A LAN with no server: what each agent's bus keeps.

``parley.bus.sqlite_store`` holds the durable store; it is imported by whoever wants one, since it loads SQLite.
"""

from parley.bus.memory_store import MemoryMeshStore
from parley.bus.mesh_store import (
    Admission,
    Bounds,
    CallLimit,
    ExpiredItem,
    MeshStore,
    NewOutboxItem,
    OutboxItem,
    StoreBounds,
    Undispatched,
    Verdict,
)

__all__ = [
    "Admission",
    "Bounds",
    "CallLimit",
    "ExpiredItem",
    "MemoryMeshStore",
    "MeshStore",
    "NewOutboxItem",
    "OutboxItem",
    "StoreBounds",
    "Undispatched",
    "Verdict",
]
