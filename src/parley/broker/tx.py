"""The seam under the rules: a transaction that somebody else opened and will commit.

SQL is written once, with ``?`` for a value. What differs between the stores is here: a rule that reads rows in order to
change them ends its query with ``for_update``, and one that takes its share of many with ``skip_locked``. SQLite has
one writer at a time and needs neither.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Row = tuple[Any, ...]


class Tx(Protocol):
    """What a rule may use: the open transaction, one reading of the clock, and new ids."""

    @property
    def now_ms(self) -> int:
        """When the rule runs: every time that it writes."""
        ...

    @property
    def for_update(self) -> str:
        """Locks the rows of a query until the end of the transaction."""
        ...

    @property
    def skip_locked(self) -> str:
        """The same, and leaves out rows that another transaction has locked."""
        ...

    def all(self, sql: str, *args: Any) -> list[Row]:
        """All rows of the statement."""
        ...

    def one(self, sql: str, *args: Any) -> Row | None:
        """The first row, or None."""
        ...

    def run(self, sql: str, *args: Any) -> int:
        """Runs a statement that returns no rows; how many rows it changed."""
        ...

    def each(self, sql: str, rows: Sequence[Row]) -> list[list[Row]]:
        """The rows of a query for each row of values, in one journey to the database however many there are."""
        ...

    def many(self, sql: str, rows: Iterable[Row]) -> list[Row]:
        """Does a change for each row of values, in one journey, too; all rows that it returns, in any order.

        No two rows of values may mean the same row of a table.
        """
        ...

    def new_id(self, prefix: str) -> str:
        """An id that no row of the database has."""
        ...


Rule = Callable[[Tx], T]
"""A unit of work in a transaction. Only what it does through the ``Tx`` counts; it may be called again."""


def meshes_locked(rules: Iterable[Rule[Any]]) -> list[str]:
    """The meshes whose rows the rules lock, in the one order in which everybody takes them.

    A rule that locks one says so by ``locks_mesh``. Rules that run in one transaction keep each other's locks until its
    end: were they taken as they come, two transactions could wait for each other.
    """
    found: set[str | None] = {getattr(rule, "locks_mesh", None) for rule in rules}
    return sorted(each for each in found if each is not None)
