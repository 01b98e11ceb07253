"""The bus: agents of one user on a LAN with no server between them. Keys and trust, envelopes that prove them, what
each agent keeps, and the ``Bus`` on which they ask, answer, publish and subscribe.

``home`` has keys on disk, ``tls_transport`` is how machines reach each other, and ``sqlite_store`` the durable store.
Each is imported by whoever wants it: nothing here opens a file, a socket or SQLite by itself.
"""

from parley.bus.blocking_bus import BlockingBus, BlockingSubscription
from parley.bus.bus import Bus
from parley.bus.caveats import EVERYTHING, Caveats, topic_names
from parley.bus.chain import Authority, CallLimit, Certificate, Chain, certify, decode_chain, verify
from parley.bus.envelope import Envelope, Head, Opened, decode, encode, open_envelope
from parley.bus.fingerprint import Fingerprint, fingerprint_of, parse_fingerprint, short
from parley.bus.memory_store import MemoryMeshStore
from parley.bus.memory_transport import MemoryNetwork
from parley.bus.mesh_store import (
    Admission,
    Bounds,
    ExpiredItem,
    KnownPeer,
    MeshStore,
    NewOutboxItem,
    OutboxItem,
    StoreBounds,
    Undispatched,
    Verdict,
)
from parley.bus.options import BusOptions, Delivery, Peer
from parley.bus.payload import open_payload, seal_payload
from parley.bus.revocation import NOTHING_REVOKED, Revocations, Statement, decode_statement, state
from parley.bus.spool import Outbox
from parley.bus.static_resolver import StaticResolver
from parley.bus.subscription import Message, Subscription
from parley.bus.transport import Address, Channel, Resolver, Transport
from parley.bus.trust import Identity

__all__ = [
    "EVERYTHING",
    "NOTHING_REVOKED",
    "Address",
    "Admission",
    "Authority",
    "BlockingBus",
    "BlockingSubscription",
    "Bounds",
    "Bus",
    "BusOptions",
    "CallLimit",
    "Caveats",
    "Certificate",
    "Chain",
    "Channel",
    "Delivery",
    "Envelope",
    "ExpiredItem",
    "Fingerprint",
    "Head",
    "Identity",
    "KnownPeer",
    "MemoryMeshStore",
    "MemoryNetwork",
    "MeshStore",
    "Message",
    "NewOutboxItem",
    "Opened",
    "Outbox",
    "OutboxItem",
    "Peer",
    "Resolver",
    "Revocations",
    "Statement",
    "StaticResolver",
    "StoreBounds",
    "Subscription",
    "Transport",
    "Undispatched",
    "Verdict",
    "certify",
    "decode",
    "decode_chain",
    "decode_statement",
    "encode",
    "fingerprint_of",
    "open_envelope",
    "open_payload",
    "parse_fingerprint",
    "seal_payload",
    "short",
    "state",
    "topic_names",
    "verify",
]
