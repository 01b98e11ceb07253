"""An inbox that takes the place of one that was lost: what it owes to readers and to the meshes.

Its events are numbered from the time on, so no number is given twice and a reader that comes with one of the lost log
is told that what follows was forgotten, instead of leaving it out. Each mesh's broker is asked once for the messages
that it still has, whenever it can be reached. Those are no news: they run no hooks.
"""

from datetime import datetime
from typing import Final

import apsw

from parley.daemon.inbox.events import append_event

_RENEW: Final = "INSERT INTO renewal (one, at) VALUES (1, ?)"
_NUMBER_FROM: Final = "INSERT INTO sqlite_sequence (name, seq) VALUES ('event', ?)"
_WANTS: Final = (
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM renewal) AND NOT EXISTS (SELECT 1 FROM refilled WHERE mesh_id = ?)"
)
_BEFORE_RENEWAL: Final = "SELECT 1 FROM renewal WHERE at >= ?"
_REFILLED: Final = "INSERT OR IGNORE INTO refilled (mesh_id) VALUES (?)"


def mark_renewed(db: apsw.Connection, *, now_ms: int, put_aside: str | None) -> None:
    """For an inbox in which nothing is yet."""
    db.execute(_RENEW, (now_ms,))
    db.execute(_NUMBER_FROM, (now_ms,))
    append_event(db, "inbox_corruption_recovered", {"put_aside": put_aside}, now_ms=now_ms)


def wants_refill(db: apsw.Connection, mesh_id: str) -> bool:
    """Whether the mesh's broker has yet to be asked for what the lost inbox held."""
    return bool(db.execute(_WANTS, (mesh_id,)).fetchall())


def was_lost(db: apsw.Connection, accepted_at: str) -> bool:
    """Whether a message that is delivered again was in the lost inbox, as far as can be known: it is that old."""
    try:
        accepted_ms = round(datetime.fromisoformat(accepted_at).timestamp() * 1000)
    except (ValueError, OverflowError):
        return False  # a broker may say anything
    return bool(db.execute(_BEFORE_RENEWAL, (accepted_ms,)).fetchall())


def mark_refilled(db: apsw.Connection, mesh_id: str) -> None:
    """The mesh's broker has taken the question."""
    db.execute(_REFILLED, (mesh_id,))
