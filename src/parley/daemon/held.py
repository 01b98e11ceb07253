"""What either of the daemon's databases holds, as its triggers count it, and when its file was compacted last."""

from typing import Final

import apsw

ROWS_AT_ONCE: Final = 100
"""Rows that are forgotten in one transaction, so that no other write waits long for its turn."""
VACUUM_MS: Final = 7 * 24 * 3_600_000
"""How often a file is compacted."""
VACUUM_BYTES_MAX: Final = 64 * 1024 * 1024
"""A larger file is compacted at a start only: while it is, nothing can be written."""
_BYTES: Final = "SELECT bytes FROM held_bytes"
_DUE: Final = "SELECT vacuumed_at <> 0 AND abs(? - vacuumed_at) >= ? FROM held"
_BEGIN: Final = "UPDATE held SET vacuumed_at = ? WHERE vacuumed_at = 0"
_VACUUMED: Final = "UPDATE held SET vacuumed_at = ?"


def held_bytes(db: apsw.Connection) -> int:
    """The bytes of all messages that can still be read or sent."""
    return int(str(db.execute(_BYTES).fetchall()[0][0]))


def vacuum_is_due(db: apsw.Connection, *, now_ms: int) -> bool:
    """Whether a week has passed; a clock that was set does not put it off."""
    return bool(db.execute(_DUE, (now_ms, VACUUM_MS)).fetchall()[0][0])


def begin_week(db: apsw.Connection, *, now_ms: int) -> None:
    """The first week of a file begins when it is first looked at."""
    db.execute(_BEGIN, (now_ms,))


def mark_vacuumed(db: apsw.Connection, *, now_ms: int) -> None:
    """The file was compacted just now."""
    db.execute(_VACUUMED, (now_ms,))
