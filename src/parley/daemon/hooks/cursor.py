"""How far the hooks are: what a crash left over is handed to them after the next start."""

from typing import Final

import apsw

_READ: Final = "SELECT event_id FROM hook_cursor"
_WRITE: Final = (
    "INSERT INTO hook_cursor (one, event_id) VALUES (1, ?)"
    " ON CONFLICT (one) DO UPDATE SET event_id = max(event_id, excluded.event_id)"
)
_RUN: Final = (
    "SELECT json_extract(data, '$.event_id'), json_extract(data, '$.hook') FROM event"
    " WHERE event_id > ? AND kind = 'hook_executed'"
)


def read_cursor(db: apsw.Connection) -> int | None:
    """The event up to which all hooks are done; None before the first start."""
    rows = db.execute(_READ).fetchall()
    return int(str(rows[0][0])) if rows else None


def write_cursor(db: apsw.Connection, event_id: int) -> None:
    """All hooks are done up to this event."""
    db.execute(_WRITE, (event_id,))


def runs_after(db: apsw.Connection, event_id: int) -> set[tuple[int, str]]:
    """Which hooks have run on which later events: they are written down as they end, in any order."""
    return {(int(str(event)), str(hook)) for event, hook in db.execute(_RUN, (event_id,)).fetchall() if event}
