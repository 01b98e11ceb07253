"""Sending one message to one peer until it is acknowledged: tried again under the same message id, in a new envelope.

A peer that already has the message says that it is a duplicate, so trying again never makes two of it. A peer that
expects a higher sequence remembers more of us than our store does, as after a restore from a backup: the counter
catches up, as far as the store lets it, and the message goes again.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from parley.bus.connection import Connection
from parley.bus.connections import Connections
from parley.bus.envelope import NONCE_BYTES, Head, encode
from parley.bus.fingerprint import Fingerprint, short
from parley.bus.link import refused_by
from parley.bus.link_frames import Answer
from parley.bus.mesh_store import MeshStore
from parley.bus.trust import Trust
from parley.core.bus_errors import BusError, ChannelClosed, NotAcknowledged, SequenceRefused
from parley.core.clock import Clock
from parley.core.limits import BUS_TRIES_MAX
from parley.core.sealing import Random

_log: Final = logging.getLogger(__name__)

Taken = Literal["accepted", "duplicate"]


class Outgoing(NamedTuple):
    """A message as it goes into an envelope."""

    message_id: bytes
    payload: tuple[bytes, ...]
    """In parts."""
    sealed: bool = False
    topic: str | None = None
    """What the peer must be allowed to listen on; None if that cannot be told, since only the peer can read it."""


class Sender:
    """Sends to any peer."""

    def __init__(
        self,
        trust: Trust,
        store: MeshStore,
        connections: Connections,
        clock: Clock,
        random: Random = secrets.token_bytes,
    ) -> None:
        self._trust = trust
        self._store = store
        self._connections = connections
        self._clock = clock
        self._random = random

    async def send(
        self,
        peer: Fingerprint,
        message: Outgoing,
        *,
        patience_seconds: float = 0.0,
        answer: "asyncio.Future[bytes] | None" = None,
    ) -> Taken:
        """Returns once the peer has the message, which the ``answer`` to it would tell, too.

        Raises what ``Connections.to`` raises, ``NotAcknowledged``, ``ChannelClosed``, the peer's refusal, or the
        ``StoreError`` for which there is no sequence.
        """
        failure: BusError | None = None
        for _ in range(BUS_TRIES_MAX):
            connection = await self._connections.to(peer, patience_seconds=patience_seconds)
            authority = connection.link.authority(self._clock.now_ms())
            if message.topic is not None:
                authority.require_topic(message.topic)
            try:
                return await self._deliver(connection, message, answer)
            except (NotAcknowledged, ChannelClosed) as error:
                failure = error
        assert failure is not None
        raise failure

    async def _deliver(self, connection: Connection, message: Outgoing, told: "asyncio.Future[bytes] | None") -> Taken:
        expected = 0
        for _ in range(BUS_TRIES_MAX):
            answer = await connection.deliver(self._store.next_out_seq, self._signing(connection.peer, message), told)
            if answer.outcome != "bad_sequence":
                return _taken(connection.peer, answer)
            expected = answer.expected
            if await self._store.raise_out_seq(expected):
                _log.warning(
                    "%s has seen later sequences of ours, so the counter jumps to %d", short(connection.peer), expected
                )
        raise SequenceRefused("the peer goes on refusing our sequences", peer=connection.peer.hex(), floor=expected)

    def _signing(self, peer: Fingerprint, message: Outgoing) -> Callable[[int], tuple[bytes, ...]]:
        def sign(sequence: int) -> tuple[bytes, ...]:
            nonce = self._random(NONCE_BYTES)
            head = Head(self._trust.agent, peer, nonce, sequence, message.message_id, message.sealed)
            return encode(head, *message.payload, chain=self._trust.chain, seed=self._trust.seed), *message.payload

        return sign


def _taken(peer: Fingerprint, answer: Answer) -> Taken:
    if answer.outcome == "accepted" or answer.outcome == "duplicate":
        return answer.outcome
    assert answer.refusal is not None
    raise refused_by(peer, answer.refusal)
