"""Whom a bus believes: its own identity, what its user has revoked, and the checks that follow from both.

What was revoked is learned from peers while the bus runs, and only grows. Whoever keeps it on disk is told of each
change by ``learn``'s answer.
"""

from collections.abc import Iterable
from typing import NamedTuple

from parley.bus.chain import Authority, Chain, decode_chain, verify
from parley.bus.envelope import Envelope, Opened, open_envelope
from parley.bus.fingerprint import Fingerprint, fingerprint_of
from parley.bus.revocation import NOTHING_REVOKED, Revocations, decode_statement
from parley.core import sealing
from parley.core.bus_errors import ChainInvalid, EnvelopeInvalid


class Identity(NamedTuple):
    """Who a bus is: the agent's key, and the certificates that let it in."""

    seed: bytes
    chain: Chain
    revocations: Revocations = NOTHING_REVOKED
    """What is known to be revoked when the bus begins."""


class Trust:
    """The identity of one bus, and its judgement of others. It reads no clock."""

    def __init__(self, identity: Identity) -> None:
        """Raises ``ChainInvalid`` if the chain is another agent's."""
        if identity.chain.agent_key != sealing.public_key(identity.seed):
            raise ChainInvalid("the certificate is for another key than this agent's")
        self.seed = identity.seed
        self.user = fingerprint_of(identity.chain.user_key)
        self.agent = fingerprint_of(identity.chain.agent_key)
        self.chain = identity.chain.encode()
        self._own: Chain = identity.chain
        self._revocations = identity.revocations

    @property
    def revocations(self) -> Revocations:
        """All that is known to be revoked."""
        return self._revocations

    def renew(self, chain: Chain, now_ms: int) -> None:
        """Takes a newer chain for the same key. Raises ``ChainInvalid``, or what ``chain.verify`` raises."""
        if chain.agent_key != self._own.agent_key:
            raise ChainInvalid("the certificate is for another key than this agent's")
        self._verify(chain, now_ms)
        self._own = chain
        self.chain = chain.encode()

    def statements(self) -> tuple[bytes, ...]:
        """What peers are told of it."""
        return tuple(each.encode() for each in self._revocations.statements)

    def learn(self, statements: Iterable[bytes]) -> bool:
        """Takes what a peer says was revoked; True if something of it is new.

        Raises ``StatementInvalid`` or ``OtherUser`` for what the user did not sign, and ``RevocationsFull``.
        """
        known = self._revocations
        for each in statements:
            known = known.merge(decode_statement(each, user=self.user))
        if known is self._revocations:
            return False
        self._revocations = known
        return True

    def own(self, now_ms: int) -> Authority:
        """What this agent may do now. Raises what ``chain.verify`` raises."""
        return self._verify(self._own, now_ms)

    def judge(self, chain: bytes, peer: Fingerprint, now_ms: int) -> Authority:
        """What the peer that holds a connection may do now, by the chain that it shows.

        Raises ``ChainInvalid`` if it is not the peer's, and what ``chain.verify`` raises.
        """
        read = decode_chain(chain)
        if fingerprint_of(read.agent_key) != peer:
            raise ChainInvalid("the certificate is not that of the key that holds the connection")
        return self._verify(read, now_ms)

    def open(self, envelope: Envelope, peer: Fingerprint, now_ms: int) -> Opened:
        """Believes an envelope that came over a connection of the peer. Raises what ``open_envelope`` raises."""
        if envelope.head.sender != peer:
            raise EnvelopeInvalid("the sender is not the one who holds the connection")
        return open_envelope(
            envelope, recipient=self.agent, user=self.user, now_ms=now_ms, revocations=self._revocations
        )

    def _verify(self, chain: Chain, now_ms: int) -> Authority:
        return verify(chain, user=self.user, now_ms=now_ms, revocations=self._revocations)
