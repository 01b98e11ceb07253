"""The seam under a broker: what keeps its meshes.

A store is synchronous and coarse: it is handed rules, runs them together in one transaction, a savepoint for each, and
returns once they are on disk. Whatever wants to wait in another way (a thread, an event loop, a simulated scheduler) is
put around it.

What holds for every store, and is shown by one suite of tests:

- ``commit`` gives an outcome for each rule, in order. One with a value is durable. One with an error left nothing
  behind.
- A rule that raises costs its neighbours nothing. A fault of the medium costs only those that cannot be run again
  alone.
- Rules see what those before them in the same call have done, and nothing of a transaction that is not committed.
- The numbers of a mesh's history and of its deliveries follow the order of the commits.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, cast

from parley.broker.calls import AcceptMessage, AcknowledgeDeliveries, ClaimDeliveries, EndConnection
from parley.broker.policy import Policy
from parley.broker.rules.accept import AcceptOutcome, Incoming
from parley.broker.signals import Signal
from parley.broker.tx import Rule
from parley.sqlite import Outcome
from parley.wire.broker import DeliveryAcked, Push

T = TypeVar("T")


class BrokerStore(Protocol):
    """What a broker needs of its database. The module's text is the contract."""

    policy: Policy
    broker_id: str
    """Who this database is to its members. It stays the same for life."""

    @property
    def epoch(self) -> int:
        """Which life of the database this is: one more after each restore of a backup, and never otherwise."""
        ...

    def commit(self, rules: Sequence[Rule[Any]]) -> list[Outcome[Any]]:
        """Runs the rules together. Never raises for a rule or a medium that fails."""
        ...

    def call(self, rule: Rule[T]) -> T:
        """Runs one rule and returns its value or raises its error."""
        ...

    def accept(self, batch: Sequence[Incoming]) -> list[Outcome[AcceptOutcome]]:
        """Messages that wait, accepted together. A refusal is a value, too; an error says that nothing is known."""
        ...

    def claim(self, member_id: str, connection_id: str, count: int) -> list[Push]:
        """Leases deliveries to a connection of the member."""
        ...

    def acknowledge(self, member_id: str, deliveries: Sequence[DeliveryAcked]) -> int:
        """The member has these on disk; how many of them are its own and were not acknowledged before."""
        ...

    def release(self, connection_id: str) -> tuple[str, ...]:
        """The connection is gone; for whom something is queued again."""
        ...

    def listen(self, on_signal: Callable[[Signal], None]) -> None:
        """Calls back, on a thread of the store's, for what other brokers on the same database did."""
        ...

    def close(self) -> None:
        """Gives back what the store holds."""
        ...


class StoreMethods(ABC):
    """The named methods of a store over its ``commit``."""

    policy: Policy

    @abstractmethod
    def commit(self, rules: Sequence[Rule[Any]]) -> list[Outcome[Any]]: ...

    def call(self, rule: Rule[T]) -> T:
        (outcome,) = self.commit([rule])
        if outcome.error is not None:
            raise outcome.error
        return cast("T", outcome.value)

    def accept(self, batch: Sequence[Incoming]) -> list[Outcome[AcceptOutcome]]:
        return self.commit([AcceptMessage(message, self.policy) for message in batch])

    def claim(self, member_id: str, connection_id: str, count: int) -> list[Push]:
        return self.call(ClaimDeliveries(member_id, connection_id, count, self.policy.lease_ms))

    def acknowledge(self, member_id: str, deliveries: Sequence[DeliveryAcked]) -> int:
        return self.call(AcknowledgeDeliveries(member_id, tuple(deliveries)))

    def release(self, connection_id: str) -> tuple[str, ...]:
        return self.call(EndConnection(connection_id))
