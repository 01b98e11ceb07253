"""What a connection asks of the store, as values: each is a rule that can be looked at before it runs."""

from dataclasses import dataclass

from parley.broker.policy import Policy
from parley.broker.rules.accept import AcceptOutcome, Incoming, accept
from parley.broker.rules.deliver import acknowledge, claim
from parley.broker.rules.presence import disconnect
from parley.broker.tx import Tx
from parley.wire.broker import DeliveryAcked, Push


@dataclass(frozen=True, slots=True)
class AcceptMessage:
    """A message that a member sent."""

    message: Incoming
    policy: Policy

    def __call__(self, tx: Tx) -> AcceptOutcome:
        return accept(tx, self.message, self.policy)


@dataclass(frozen=True, slots=True)
class ClaimDeliveries:
    """Deliveries for a connection that has room for them."""

    member_id: str
    connection_id: str
    count: int
    lease_ms: int

    def __call__(self, tx: Tx) -> list[Push]:
        return claim(tx, self.member_id, self.connection_id, self.count, self.lease_ms)


@dataclass(frozen=True, slots=True)
class AcknowledgeDeliveries:
    """What a member has on its disk."""

    member_id: str
    deliveries: tuple[DeliveryAcked, ...]

    def __call__(self, tx: Tx) -> int:
        return acknowledge(tx, self.member_id, self.deliveries)


@dataclass(frozen=True, slots=True)
class EndConnection:
    """A connection is gone; what it had leased is queued again."""

    connection_id: str

    def __call__(self, tx: Tx) -> tuple[str, ...]:
        return disconnect(tx, self.connection_id)
