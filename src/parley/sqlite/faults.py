"""SQLite's failures as errors of the product, told apart by result code and never by text.

``apsw`` has one exception class per primary result code, so the class *is* the code; an exception that a VFS raised
itself carries no ``result`` attribute of its own, but has the same class.
"""

from typing import Final

import apsw

from parley.core.errors import DatabaseCorrupt, InternalError, ParleyError, ServiceUnavailable

BUSY_RETRY_SECONDS: Final = 1.0
FULL_RETRY_SECONDS: Final = 5.0
"""A full disk is emptied by a person or a rotation, not within the second."""

_UNAVAILABLE: Final[dict[type[apsw.Error], tuple[str, str, float]]] = {
    apsw.BusyError: ("busy", "The database is busy", BUSY_RETRY_SECONDS),
    apsw.LockedError: ("busy", "The database is locked", BUSY_RETRY_SECONDS),
    apsw.FullError: ("disk_full", "The disk is full", FULL_RETRY_SECONDS),
    apsw.IOError: ("io_error", "The disk reported an error", FULL_RETRY_SECONDS),
    apsw.CantOpenError: ("cannot_open", "The database file cannot be opened", FULL_RETRY_SECONDS),
    apsw.NoMemError: ("no_memory", "There is not enough memory", BUSY_RETRY_SECONDS),
    apsw.ReadOnlyError: ("read_only", "The database is read-only", FULL_RETRY_SECONDS),
    apsw.PermissionsError: ("read_only", "The database may not be accessed", FULL_RETRY_SECONDS),
    apsw.InterruptError: ("interrupted", "The statement was interrupted", BUSY_RETRY_SECONDS),
}
_CORRUPT: Final = (apsw.CorruptError, apsw.NotADBError)
_ENDING: Final = (
    *_CORRUPT,
    apsw.BusyError,
    apsw.FullError,
    apsw.IOError,
    apsw.CantOpenError,
    apsw.NoMemError,
    apsw.ReadOnlyError,
    apsw.InterruptError,
    apsw.AbortError,
    apsw.ProtocolError,
)


def translate(error: apsw.Error) -> ParleyError:
    """The typed error for this result code. The caller raises it ``from`` the original."""
    extended = getattr(error, "extendedresult", None)
    for kind in type(error).__mro__:
        known = _UNAVAILABLE.get(kind)
        if known is not None:
            reason, sentence, retry_after = known
            return ServiceUnavailable(sentence, reason=reason, retry_after=retry_after, sqlite_code=extended)
    if isinstance(error, _CORRUPT):
        return DatabaseCorrupt("The database is damaged", sqlite_code=extended)
    return InternalError("The database refused a statement", sqlite_code=extended, sqlite_error=type(error).__name__)


def ends_transaction(error: BaseException) -> bool:
    """Whether a transaction that met this error must not go on.

    For most of these SQLite has rolled the transaction back already; for the rest the medium cannot be trusted
    with the other writes of the same transaction.
    """
    return isinstance(error, _ENDING)
