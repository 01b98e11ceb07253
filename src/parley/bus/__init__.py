"""The bus: agents of one user on a LAN with no server between them. Keys and trust, envelopes that prove them, and what
each agent keeps.

``home`` has keys on disk, ``tls_transport`` is how machines reach each other, and ``sqlite_store`` the durable store.
Each is imported by whoever wants it. What this module exports is pure.
"""

from parley.bus.caveats import EVERYTHING, Caveats, topic_names
from parley.bus.chain import Authority, CallLimit, Certificate, Chain, certify, decode_chain, verify
from parley.bus.envelope import Envelope, Head, Opened, decode, encode, open_envelope
from parley.bus.fingerprint import Fingerprint, fingerprint_of, parse_fingerprint, short
from parley.bus.memory_store import MemoryMeshStore
from parley.bus.mesh_store import (
    Admission,
    Bounds,
    ExpiredItem,
    MeshStore,
    NewOutboxItem,
    OutboxItem,
    StoreBounds,
    Undispatched,
    Verdict,
)
from parley.bus.payload import open_payload, seal_payload
from parley.bus.revocation import NOTHING_REVOKED, Revocations, Statement, decode_statement, state

__all__ = [
    "EVERYTHING",
    "NOTHING_REVOKED",
    "Admission",
    "Authority",
    "Bounds",
    "CallLimit",
    "Caveats",
    "Certificate",
    "Chain",
    "Envelope",
    "ExpiredItem",
    "Fingerprint",
    "Head",
    "MemoryMeshStore",
    "MeshStore",
    "NewOutboxItem",
    "Opened",
    "OutboxItem",
    "Revocations",
    "Statement",
    "StoreBounds",
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
