"""What a connection asks of the store, as values: each is a rule that can be looked at before it runs.

Those that come by the thousand can also run side by side, many as one: ``together``. They tell a refusal by their value
and never raise one, so that none of them has to be undone alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from parley.broker.policy import Policy
from parley.broker.rules.accept import AcceptOutcome, Incoming, accept, accept_all
from parley.broker.rules.deliver import Acknowledgement, Claim, acknowledge, claim
from parley.broker.rules.presence import disconnect
from parley.broker.tx import Tx
from parley.wire.broker import DeliveryAcked, Push


@dataclass(frozen=True, slots=True)
class AcceptMessage:
    """A message that a member sent."""

    message: Incoming
    policy: Policy

    @property
    def locks_mesh(self) -> str:
        """The mesh that the message is sent in."""
        return self.message.mesh_id

    def __call__(self, tx: Tx) -> AcceptOutcome:
        return accept(tx, self.message, self.policy)

    @staticmethod
    def together(tx: Tx, rules: "Sequence[AcceptMessage]") -> list[AcceptOutcome]:
        """All messages; they come to one broker, which has one policy."""
        return accept_all(tx, [each.message for each in rules], rules[0].policy)


@dataclass(frozen=True, slots=True)
class ClaimDeliveries:
    """Deliveries for a connection that has room for them."""

    member_id: str
    connection_id: str
    count: int
    lease_ms: int

    def __call__(self, tx: Tx) -> list[Push]:
        return self.together(tx, [self])[0]

    @staticmethod
    def together(tx: Tx, rules: "Sequence[ClaimDeliveries]") -> list[list[Push]]:
        """For all connections."""
        claims = [Claim(each.member_id, each.connection_id, each.count) for each in rules]
        return claim(tx, claims, rules[0].lease_ms)


@dataclass(frozen=True, slots=True)
class AcknowledgeDeliveries:
    """What a member has on its disk."""

    member_id: str
    deliveries: tuple[DeliveryAcked, ...]

    def __call__(self, tx: Tx) -> int:
        return self.together(tx, [self])[0]

    @staticmethod
    def together(tx: Tx, rules: "Sequence[AcknowledgeDeliveries]") -> list[int]:
        """From all members."""
        return acknowledge(tx, [Acknowledgement(each.member_id, each.deliveries) for each in rules])


@dataclass(frozen=True, slots=True)
class EndConnection:
    """A connection is gone; what it had leased is queued again."""

    connection_id: str

    def __call__(self, tx: Tx) -> tuple[str, ...]:
        return disconnect(tx, self.connection_id)


Gathered = AcceptMessage | ClaimDeliveries | AcknowledgeDeliveries
"""The rules that run side by side."""
