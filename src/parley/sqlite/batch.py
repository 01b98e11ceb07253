"""Group commit as a plain function: waiting writes go in, their outcomes come out, and no thread is involved.

All writes of a batch share one transaction and so one sync of the disk. Each runs inside its own savepoint: one that
raises is undone alone, its exception is its outcome, and the others commit. When an error ends the whole transaction
(a full disk, an I/O error, a failed commit) nothing of it was acknowledged yet, and every write of the batch runs
again in a transaction of its own: whoever can succeed does, the rest are refused with the error that *they* met.

``before_commit`` runs once at the end of each transaction, for what is cheaper done for all writes than for each; it
fails with the transaction.

So a write may be called twice, and only what it does through the connection counts. A success is never reported
before the COMMIT that made it durable has returned.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import apsw

from parley.core.errors import ParleyError
from parley.sqlite.faults import ends_transaction, translate

T = TypeVar("T")
Write = Callable[[apsw.Connection], T]
"""One unit of work inside a transaction that somebody else opens and commits; it does neither itself."""

_BEGIN: Final = "BEGIN IMMEDIATE"
_COMMIT: Final = "COMMIT"
_ROLLBACK: Final = "ROLLBACK"
_SAVE: Final = "SAVEPOINT one_write"
_RELEASE: Final = "RELEASE one_write"
_UNDO: Final = "ROLLBACK TO one_write"


class Outcome(Generic[T]):
    """What became of one write: ``error`` is None and ``value`` is durable, or ``error`` tells why nothing happened."""

    __slots__ = ("error", "value", "waiter")

    def __init__(self, value: T | None = None, error: Exception | None = None, waiter: Any = None) -> None:
        self.value = value
        self.error = error
        self.waiter = waiter
        """Whatever the submitter wants to find again, such as a future; this module never looks at it."""


def run_batch(
    connection: apsw.Connection, writes: Sequence[Write[Any]], before_commit: Write[None] | None = None
) -> list[Outcome[Any]]:
    """Runs the writes in order and commits. Never raises for a failing write or a failing disk."""
    if len(writes) > 1:
        outcomes = _run_together(connection, writes, before_commit)
        if outcomes is not None:
            return outcomes
    return [_run_alone(connection, write, before_commit) for write in writes]


def _run_together(
    connection: apsw.Connection, writes: Sequence[Write[Any]], before_commit: Write[None] | None
) -> list[Outcome[Any]] | None:
    """The outcomes of one shared transaction, or None when it came to nothing and was rolled back."""
    execute = connection.cursor().execute
    outcomes: list[Outcome[Any]] = []
    try:
        execute(_BEGIN)
    except apsw.Error as error:  # nobody could begin; to try again one by one would only multiply the wait
        return [Outcome(error=_typed(error)) for _ in writes]
    try:
        for write in writes:
            execute(_SAVE)
            try:
                outcomes.append(Outcome(write(connection)))
            except Exception as error:
                if ends_transaction(error) or not connection.in_transaction:
                    _roll_back(connection)
                    return None
                execute(_UNDO)
                outcomes.append(Outcome(error=_typed(error)))
            execute(_RELEASE)
        if before_commit is not None:
            before_commit(connection)
        execute(_COMMIT)
    except Exception:  # of the transaction's own statements: nothing of it is on disk
        _roll_back(connection)
        return None
    except BaseException:
        _roll_back(connection)
        raise
    return outcomes


def _run_alone(connection: apsw.Connection, write: Write[Any], before_commit: Write[None] | None) -> Outcome[Any]:
    """One write in its own transaction; it needs no savepoint, as the transaction is its own."""
    try:
        connection.execute(_BEGIN)
        value = write(connection)
        if before_commit is not None:
            before_commit(connection)
        connection.execute(_COMMIT)
    except Exception as error:
        _roll_back(connection)
        return Outcome(error=_typed(error))
    except BaseException:
        _roll_back(connection)
        raise
    return Outcome(value)


def _roll_back(connection: apsw.Connection) -> None:
    """Leaves no transaction open. SQLite may have rolled back by itself; ROLLBACK cannot fail in a way that matters:
    a transaction that is not committed is gone with the log's next frame."""
    if connection.in_transaction:
        with contextlib.suppress(apsw.Error):
            connection.execute(_ROLLBACK)


def _typed(error: Exception) -> Exception:
    if isinstance(error, ParleyError) or not isinstance(error, apsw.Error):
        return error
    typed = translate(error)
    typed.__cause__ = error
    return typed
