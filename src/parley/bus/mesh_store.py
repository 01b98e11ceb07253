"""``MeshStore``: what a bus must remember, as a small Protocol with one contract for every store behind it.

Order of things, which the store makes possible and the bus keeps: a received message is verified, admitted (committed),
acknowledged and handled; a sent one gets a sequence from a reserved block, is signed, written, acknowledged and only
then removed from the outbox.

agent-mesh described such a store with eight methods. What became of them:

- ``nonce_seen`` is kept, for diagnostics only. ``record_nonce`` and ``advance_seq`` are part of ``admit``: as steps of
  their own they let two connections with the same envelope both pass between the look and the write, and could not
  refuse anything.
- ``last_seq`` is kept, for diagnostics.
- ``next_out_seq`` is kept. ``raise_out_seq`` stands beside it, for a store that was restored from a backup.
- ``enqueue_outbox``, ``due_outbox`` and ``remove_outbox`` are kept. They are told the time, since a store reads no
  clock; the other methods of the outbox are for waiting, giving up and expiring, which the eight had no way to say.

All times are integer milliseconds since the epoch and come from the caller. They may jump back: what was written under
a later clock is then drawn nearer, to the longest wait and the longest life that there are.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from parley.bus.chain import CallLimit
from parley.core.limits import (
    BUS_BOX_BYTES_MAX,
    BUS_BOX_ITEMS_MAX,
    BUS_BOX_ITEMS_PER_PEER_MAX,
)

Verdict = Literal["accepted", "duplicate", "replay", "bad_sequence", "full", "spent"]
Exhausted = Literal["items", "bytes", "items_per_peer"]


class Admission(NamedTuple):
    """What ``admit`` answers."""

    verdict: Verdict
    inbox_id: int | None = None
    """Of an accepted message: what it is dispatched and removed by."""
    expected: int | None = None
    """Of a bad sequence: the smallest that would do."""


class Undispatched(NamedTuple):
    """A message that was accepted and whose handler has not returned."""

    id: int
    peer: bytes
    message_id: bytes
    payload: bytes
    admitted_at: int
    dispatches: int
    """How often a handler was called with it, or was about to be."""
    wedged: bool

    @property
    def redelivered(self) -> bool:
        """Whether a handler may have had it before."""
        return self.dispatches > 1


class NewOutboxItem(NamedTuple):
    """A message for the outbox. ``digest`` is that of the plaintext: the payload may be sealed anew at each attempt."""

    peer: bytes
    message_id: bytes
    payload: bytes
    digest: bytes
    expires_at: int
    not_before: int = 0


class OutboxItem(NamedTuple):
    """A message in the outbox."""

    id: int
    peer: bytes
    message_id: bytes
    payload: bytes
    digest: bytes
    attempts: int
    created_at: int
    not_before: int
    expires_at: int
    wedged: str | None
    """Why nothing more is tried, until somebody unwedges it."""
    last_error: str | None


class ExpiredItem(NamedTuple):
    """What is left of a message that expired: enough to tell of it."""

    id: int
    peer: bytes
    message_id: bytes
    attempts: int
    created_at: int
    expired_at: int
    why: str | None
    """Why it was wedged, or else what the last attempt failed with."""


class KnownPeer(NamedTuple):
    """An agent that was met: what is needed to seal for it, and to know what it wants, while it is away."""

    fingerprint: bytes
    agent_key: bytes
    role: str
    topics: tuple[str, ...]
    """What it subscribed to when it was last heard of."""
    seen_at: int


class Held(NamedTuple):
    """What a box holds, in all and for one peer."""

    items: int
    bytes: int
    items_of_peer: int


class Bounds(NamedTuple):
    """What a box may hold."""

    items: int = BUS_BOX_ITEMS_MAX
    bytes: int = BUS_BOX_BYTES_MAX
    items_per_peer: int = BUS_BOX_ITEMS_PER_PEER_MAX

    def exhausted(self, held: Held, payload_bytes: int) -> Exhausted | None:
        """Which bound one more message would break."""
        if held.items >= self.items:
            return "items"
        if held.bytes + payload_bytes > self.bytes:
            return "bytes"
        return "items_per_peer" if held.items_of_peer >= self.items_per_peer else None


class StoreBounds(NamedTuple):
    """The bounds of a store's two boxes: what was accepted and is not handled, and what is to be sent."""

    inbox: Bounds = Bounds()
    outbox: Bounds = Bounds()


class MeshStore(Protocol):
    """The memory of one bus. Its methods belong to one event loop, may be called at once, and never mix.

    Each of them is one transaction: it happens whole or not at all, also when its caller is cancelled. Those that are
    called one after the other happen in that order, also if nobody waited for the first. What it answers
    is as durable as the store is. Everything that it raises is a ``BusError``; after ``close`` that is ``StoreClosed``.
    Fingerprints and digests have 32 bytes, nonces 24, message ids 16.
    """

    @property
    def durable(self) -> bool:
        """Whether what it keeps is there after a restart."""
        ...

    async def admit(
        self,
        peer: bytes,
        nonce: bytes,
        sequence: int,
        message_id: bytes,
        payload: bytes,
        *,
        now: int,
        call_limits: Sequence[CallLimit] = (),
        dispatching: bool = False,
        kept: bool = True,
    ) -> Admission:
        """Judges a verified message, and remembers it if it is to be handled. In this order:

        - ``replay``: the nonce is known. Nothing changes.
        - ``bad_sequence``: not above the peer's last one, or too large to be held. The nonce is remembered.
        - ``duplicate``: this message of this peer was accepted before. Nonce and mark advance, nothing is counted.
        - ``spent``: a certificate of the chain has no calls left. Nothing changes.
        - ``full``: the inbox has no room. Nothing changes, so the very same envelope may come again.
        - ``accepted``: nonce, mark, message id and calls are remembered, and the message is in the inbox until
          ``dispatched``. With ``dispatching`` its handler is about to be called, which counts as the first time.

        A message that is not ``kept`` is judged and remembered like any other, without a place in the inbox: a reply,
        which is of no use to anybody after a restart. Nobody is held up for it, so its commit may wait for others.
        """
        ...

    async def last_seq(self, peer: bytes) -> int | None:
        """The highest sequence that was taken from the peer. For diagnostics: only ``admit`` may judge by it."""
        ...

    async def nonce_seen(self, nonce: bytes) -> bool:
        """Whether the nonce is remembered. For diagnostics: only ``admit`` may judge by it."""
        ...

    async def undispatched(self, *, after: int = 0, limit: int) -> list[Undispatched]:
        """What waits for its handler to return, wedged or not, by rising id, from the first above ``after``."""
        ...

    async def start_dispatch(self, inbox_id: int) -> Undispatched | None:
        """Counts that a handler is about to be called. None if the message is gone.

        If it has been tried as often as it may be, it is wedged instead and comes back as such: do not call.
        """
        ...

    async def dispatched(self, inbox_id: int) -> bool:
        """The handler has returned, or the message is given up: removes it. True if it was there.

        Nobody is held up for it, so its commit may wait for others.
        """
        ...

    async def unwedge_undispatched(self, inbox_id: int) -> bool:
        """Lets a wedged message be tried again, from the first time on. True if it was wedged."""
        ...

    async def next_out_seq(self) -> int:
        """A sequence that was never answered before, also not before a crash, and above all that were."""
        ...

    async def raise_out_seq(self, floor: int) -> bool:
        """Has the next sequence be ``floor`` at least. True if that moved it; it never goes back.

        Raises ``SequenceRefused`` for a jump beyond ``BUS_SEQUENCE_JUMP_MAX``.
        """
        ...

    async def enqueue_outbox(self, item: NewOutboxItem, *, now: int) -> int:
        """Takes a message to be sent; its id, which only rises. A message that is there already keeps the id it has.

        Raises ``MessageIdReused`` if the message with this id is for another peer or has another digest, ``OutboxFull``
        if it has no room, ``StoreInputInvalid`` if it would expire at once, or later than ``BUS_OUTBOX_MS_MAX``.
        """
        ...

    async def due_outbox(self, *, now: int, limit: int, peer: bytes | None = None) -> list[OutboxItem]:
        """What may be sent now, to all peers or one, by rising id.

        For each peer that is the front of its queue up to the first message that must still wait, so that none
        overtakes another. What is wedged or expired neither comes nor stands in the way.
        """
        ...

    async def next_due_at(self, *, now: int) -> int | None:
        """When ``due_outbox`` or ``expire_outbox`` will have something; if that is not after ``now``, they do now."""
        ...

    async def list_outbox(self, *, after: int = 0, limit: int) -> list[OutboxItem]:
        """Whatever is in the outbox, by rising id, from the first above ``after``."""
        ...

    async def remove_outbox(self, outbox_id: int) -> bool:
        """It was acknowledged, or is given up. True if it was there."""
        ...

    async def reschedule_outbox(self, outbox_id: int, *, now: int, not_before: int, error: str) -> bool:
        """An attempt failed and may succeed later, after ``BUS_BACKOFF_MS_MAX`` at the latest. True if it was there."""
        ...

    async def hasten_outbox(self, peer: bytes, *, now: int) -> bool:
        """The peer was seen: ends all waits for it. True if there were any."""
        ...

    async def wedge_outbox(self, outbox_id: int, *, reason: str) -> bool:
        """An attempt failed for good: keeps the message, and tries nothing more. True if it was not wedged before."""
        ...

    async def unwedge_outbox(self, outbox_id: int, *, now: int) -> bool:
        """Lets a wedged message be tried again, at its old place in the queue. True if it was wedged."""
        ...

    async def expire_outbox(self, *, now: int) -> list[OutboxItem]:
        """Removes what has expired, wedged or not, and answers it, once. ``expired_outbox`` can still tell of it."""
        ...

    async def expired_outbox(self, *, limit: int) -> list[ExpiredItem]:
        """The newest messages that expired, newest first, of ``BUS_EXPIRED_KEPT`` at most."""
        ...

    async def remember_peer(self, peer: KnownPeer) -> None:
        """Keeps this in the place of what was known of the peer. Of ``BUS_PEERS_KEPT``, those seen last stay."""
        ...

    async def known_peers(self, *, since: int) -> list[KnownPeer]:
        """Who was seen since then, the last one first."""
        ...

    async def close(self) -> None:
        """Finishes what was asked for and lets go of everything. To close again does nothing."""
        ...
