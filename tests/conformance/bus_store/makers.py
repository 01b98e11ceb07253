"""Peers, nonces, ids and messages that are told apart by a number."""

import hashlib
from pathlib import Path
from typing import Any

from parley.bus import Admission, KnownPeer, MeshStore, NewOutboxItem
from parley.bus.sqlite_store import SqliteMeshStore
from parley.bus.store_file import StoreIdentity

NOW = 1_767_225_600_000
HOUR_MS = 3_600_000
ME = StoreIdentity(b"a" * 32, b"u" * 32)
SOMEBODY_ELSE = StoreIdentity(b"b" * 32, b"u" * 32)


def peer(number: int) -> bytes:
    return _bytes("peer", number, 32)


def certificate(number: int) -> bytes:
    return _bytes("certificate", number, 32)


def nonce(number: int) -> bytes:
    return _bytes("nonce", number, 24)


def message_id(number: int) -> bytes:
    return _bytes("message", number, 16)


def digest(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=32).digest()


async def admit(
    store: MeshStore, sequence: int, *, of: int = 1, by: int | None = None, number: int | None = None, **more: Any
) -> Admission:
    """Admits message ``number`` of peer ``of`` under nonce ``by``; each of them is the sequence unless told."""
    unique = sequence % 2**32
    payload = more.pop("payload", b"hello")
    return await store.admit(
        peer(of),
        nonce(unique if by is None else by),
        sequence,
        message_id(unique if number is None else number),
        payload,
        **{"now": NOW, **more},
    )


async def accepted(store: MeshStore, sequence: int, **more: Any) -> int:
    """Admits a message that must be accepted; its id in the inbox."""
    admission = await admit(store, sequence, **more)
    assert admission.verdict == "accepted", admission
    assert admission.inbox_id is not None
    return admission.inbox_id


def item(number: int, *, to: int = 1, payload: bytes = b"hello", lives_ms: int = HOUR_MS, at: int = 0) -> NewOutboxItem:
    """A message for the outbox that expires an hour after ``NOW``."""
    return NewOutboxItem(peer(to), message_id(number), payload, digest(payload), NOW + lives_ms, at)


async def enqueued(store: MeshStore, number: int, *, now: int = NOW, **more: Any) -> int:
    """Takes a message to be sent; its id in the outbox."""
    return await store.enqueue_outbox(item(number, **more), now=now)


def known(number: int, seen_at: int = NOW, *topics: str) -> KnownPeer:
    """A peer that was met then, and what it subscribed to."""
    return KnownPeer(peer(number), b"k" * 32, "builder", topics, seen_at)


async def due(store: MeshStore, now: int = NOW, *, to: int | None = None, limit: int = 100) -> list[int]:
    """The ids of what is due."""
    found = await store.due_outbox(now=now, limit=limit, peer=None if to is None else peer(to))
    return [each.id for each in found]


def open_store(path: Path, **more: Any) -> SqliteMeshStore:
    """The durable store of this agent."""
    return SqliteMeshStore(path, more.pop("identity", ME), **more)


def _bytes(kind: str, number: int, length: int) -> bytes:
    return hashlib.blake2b(f"{kind} {number}".encode(), digest_size=length).digest()
