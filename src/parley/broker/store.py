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

from parley.broker.policy import Policy
from parley.broker.signals import Signal
from parley.broker.tx import Rule
from parley.sqlite import Outcome

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

    def listen(self, on_signal: Callable[[Signal], None]) -> None:
        """Calls back, on a thread of the store's, for what other brokers on the same database did."""
        ...

    def close(self) -> None:
        """Gives back what the store holds."""
        ...


class StoreMethods(ABC):
    """What a store has in common with every other, over its ``commit``."""

    policy: Policy

    @abstractmethod
    def commit(self, rules: Sequence[Rule[Any]]) -> list[Outcome[Any]]: ...

    def call(self, rule: Rule[T]) -> T:
        (outcome,) = self.commit([rule])
        if outcome.error is not None:
            raise outcome.error
        return cast("T", outcome.value)
