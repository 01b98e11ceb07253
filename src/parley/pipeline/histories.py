"""Whether a hub's log is still the one that bronze has taken events from, and where the two part.

A cursor is only a number. A hub that was restored from a backup gives the numbers after it once more, to other events,
and so does a copy of a workspace that is named instead of the original; once such a log is longer than the cursor, it
looks like one that has merely gone on. So before anything is taken, the hub's own event at the cursor is held against
the one that bronze has there. Times and ids in it make it equal to no other. It costs a row of one file that the
table's log names, and a row of the hub's log.

Where one of the two no longer has the event, because it was archived or removed, nothing can be said, and nothing is.
"""

from bisect import bisect_left
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from parley.pipeline.hubs import HubRef
from parley.pipeline.lake.catalogue.bronze import EVENTS
from parley.pipeline.lake.commit import WHOLE, live_files
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.reading import bounds_meet
from parley.pipeline.source.ranges import EventRange
from parley.pipeline.source.reading import RangeReading, Taken, digest_of

if TYPE_CHECKING:
    from deltalake import DeltaTable


class Histories:
    """What bronze holds at one version of the table, to hold hubs against. The table's log is read once for all."""

    def __init__(self, lake: Lake, table: "DeltaTable") -> None:
        self._root = Path(lake.path(EVENTS))
        self._table = table

    def held(self, db_id: str, event_id: int) -> dict[str, str]:
        """The digest of the event that bronze has under this id, and the source that it was taken from.

        None if it has none; more than one only where it was damaged.
        """
        return {digest_of(row): row["source"] for row in self._rows(db_id, event_id).to_pylist()}

    def agreement(self, hub: HubRef, lowest: int, highest: int) -> int:
        """The last event up to ``highest`` that the hub and bronze have alike; 0 if there is none.

        Up to ``lowest`` the hub has archived its events: those cannot be compared, and are taken to be alike.
        """
        ids = self._ids(hub.db_id, highest)
        known = bisect_left(ids, lowest + 1)
        alike = bisect_left(ids, True, lo=known, key=lambda event_id: not self._has_same(hub, event_id))
        return ids[alike - 1] if alike else 0

    def sources(self, db_id: str) -> list[str]:
        """The workspaces and addresses that events of the hub were taken from."""
        rows = self._scan(list(self.files_beyond(db_id, 0)), ["source"], pc.field("db_id") == db_id)
        return sorted(rows["source"].unique().to_pylist())

    def files_beyond(self, db_id: str, event_id: int) -> dict[str, Mapping[str, Any]]:
        """The files that may hold events of the hub after this one, with what the log says of them."""
        return {
            path: entry
            for path, entry in (*self._files.get(db_id, ()), *self._files.get(None, ()))
            if bounds_meet(entry, "db_id", at_least=db_id, at_most=db_id)
            and bounds_meet(entry, "event_id", at_least=event_id + 1)
        }

    def _has_same(self, hub: HubRef, event_id: int) -> bool:
        return event_at(hub, event_id).ending in self.held(hub.db_id, event_id)

    def _rows(self, db_id: str, event_id: int) -> Any:
        wanted: Any = (pc.field("db_id") == db_id) & (pc.field("event_id") == event_id)
        return self._scan(self._files_for(db_id, event_id), None, wanted)

    def _ids(self, db_id: str, highest: int) -> list[int]:
        """The ids of a hub's events up to one, in their order."""
        wanted: Any = (pc.field("db_id") == db_id) & (pc.field("event_id") <= highest)
        return sorted(self._scan(list(self.files_beyond(db_id, 0)), ["event_id"], wanted)["event_id"].to_pylist())

    def _scan(self, paths: list[str], columns: list[str] | None, wanted: Any) -> Any:
        try:
            rows: Any = pads.dataset(
                [str(self._root / path) for path in paths], schema=EVENTS.file_schema, format="parquet"
            )
            return rows.to_table(columns=columns, filter=wanted)
        except (OSError, pa.ArrowInvalid):
            # A file that is lost or damaged is for an audit to tell; it does not keep new events out.
            return EVENTS.file_schema.empty_table()

    def _files_for(self, db_id: str, event_id: int) -> list[str]:
        """The files that may hold the event; one without statistics may."""
        beyond = self.files_beyond(db_id, event_id - 1)
        return [path for path, entry in beyond.items() if bounds_meet(entry, "event_id", at_most=event_id)]

    @cached_property
    def _files(self) -> dict[str | None, list[tuple[str, Mapping[str, Any]]]]:
        """The files by their hub, None for those that may be of several: many hubs do not look through each other's."""
        files: dict[str | None, list[tuple[str, Mapping[str, Any]]]] = {}
        for path, entry in live_files(self._table, WHOLE).items():
            lows: dict[str, Any] = entry["min"] or {}
            highs: dict[str, Any] = entry["max"] or {}
            hub = lows.get("db_id")
            files.setdefault(hub if hub == highs.get("db_id") else None, []).append((path, entry))
        return files


def event_at(hub: HubRef, event_id: int) -> Taken:
    """What the hub's log has under this id now: its digest is ``ending``."""
    reading = RangeReading(EventRange(hub, event_id - 1, event_id))
    for _ in reading:
        pass
    return reading.taken
