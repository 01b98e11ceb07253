"""What the broker of a mesh promised, remembered for the time when it is away.

A message may be repeated only while the broker is sure to recognise it. So a row dies a safety margin before the
broker may forget: a tenth of its window, a day at least.
"""

import math
from typing import Final, NamedTuple

import apsw

from parley.core.errors import ConfigInvalid

RETENTION_DAYS_MIN: Final = 7
HOUR_MS: Final = 3_600_000
PERMANENT_HOURS: Final = 168
PERMANENT_HOURS_MAX: Final = 720
MARGIN_HOURS_MIN: Final = 24
INLINE_BYTES_DEFAULT: Final = 65_536

_READ: Final = "SELECT inline_bytes_max, max_age_ms FROM mesh_terms WHERE mesh_id = ?"
_WRITE: Final = (
    "INSERT INTO mesh_terms (mesh_id, inline_bytes_max, max_age_ms, agreed_at) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (mesh_id) DO UPDATE SET inline_bytes_max = excluded.inline_bytes_max,"
    " max_age_ms = excluded.max_age_ms, agreed_at = excluded.agreed_at"
)


class Terms(NamedTuple):
    """How large a sealed body may be, and how old a row may get."""

    inline_bytes_max: int
    max_age_ms: int


def max_age_hours(retention_days: int | None, override: int | None = None) -> int:
    """How old a row may get. ``retention_days`` is None where the broker forgets nothing.

    Raises ``ConfigInvalid`` for an override that leaves less than a day of the broker's window.
    """
    if retention_days is None:
        most, usual = PERMANENT_HOURS_MAX, PERMANENT_HOURS
    else:
        window = retention_days * 24
        most = window - MARGIN_HOURS_MIN
        usual = window - max(MARGIN_HOURS_MIN, math.ceil(window / 10))
    if override is None:
        return usual
    if override > most:
        raise ConfigInvalid(
            f"outbox.max_age_hours_override is {override}; the broker allows {most} at most",
            reason="outbox_max_age_above_dedupe_window",
            key="outbox.max_age_hours_override",
            limit=most,
        )
    return override


DEFAULT_TERMS: Final = Terms(INLINE_BYTES_DEFAULT, max_age_hours(RETENTION_DAYS_MIN) * HOUR_MS)
"""What any broker must grant that a daemon will talk to."""


def read_terms(db: apsw.Connection, mesh_id: str) -> Terms:
    """What was agreed last, or what every broker grants."""
    row = db.execute(_READ, (mesh_id,)).fetchone()
    return DEFAULT_TERMS if row is None else Terms(int(str(row[0])), int(str(row[1])))


def write_terms(db: apsw.Connection, mesh_id: str, terms: Terms, *, now_ms: int) -> None:
    """Remembers what was agreed."""
    db.execute(_WRITE, (mesh_id, terms.inline_bytes_max, terms.max_age_ms, now_ms))
