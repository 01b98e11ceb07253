"""The transaction that a mutation rule works in.

A rule gets a ``Tx``: the connection inside an open transaction, one reading of the clock, and the source of ids. It
changes rows and appends events; whoever opened the transaction commits both together. The events stay in ``Tx.events``
for the feed.
"""

from collections.abc import Sequence

import apsw

from parley.core.clock import iso
from parley.core.ids import IdSource
from parley.workspace.log import Draft, StoredEvent, append_event, append_events


class Tx:
    """What a rule may use: the open transaction, the time, new ids, and the log."""

    __slots__ = ("db", "events", "ids", "now_ms", "ts")

    def __init__(self, db: apsw.Connection, now_ms: int, ids: IdSource) -> None:
        self.db = db
        self.now_ms = now_ms
        self.ts = iso(now_ms)
        self.ids = ids
        self.events: list[StoredEvent] = []

    def new_id(self, prefix: str) -> str:
        """An id above every id in the database."""
        return self.ids.new(prefix, self.now_ms)

    def append(self, draft: Draft) -> int:
        """Appends one event and returns its id."""
        event = append_event(self.db, self.ts, draft)
        self.events.append(event)
        return event.event_id

    def append_many(self, drafts: Sequence[Draft]) -> range:
        """Appends events and returns their ids, which follow each other."""
        events = append_events(self.db, self.ts, drafts)
        self.events.extend(events)
        return range(events[0].event_id, events[-1].event_id + 1) if events else range(0)
