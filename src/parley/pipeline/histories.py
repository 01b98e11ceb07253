"""Whether a hub's log is still the one that bronze has taken events from.

A cursor is only a number. A hub that was restored from a backup gives the numbers after it once more, to other events,
and so does a copy of a workspace that is named instead of the original; once such a log is longer than the cursor, it
looks like one that has merely gone on. So before anything is taken, the hub's own event at the cursor is held against
the one that bronze has there. Times and ids in it make it equal to no other. It costs a row of one file that the
table's log names, and a row of the hub's log.

Where one of the two no longer has the event, because it was archived or removed, nothing can be said, and nothing is.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from parley.core.pipeline_errors import LakeConflict
from parley.pipeline.hubs import HubRef
from parley.pipeline.lake.catalogue.bronze import EVENTS
from parley.pipeline.lake.commit import WHOLE, live_files
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.reading import bounds_meet
from parley.pipeline.source.ranges import EventRange
from parley.pipeline.source.reading import read_range
from parley.pipeline.source.schema import EVENT_SCHEMA

if TYPE_CHECKING:
    from deltalake import DeltaTable


class Histories:
    """What bronze holds at one version of the table, to hold hubs against. The table's log is read once for all."""

    def __init__(self, lake: Lake, table: "DeltaTable") -> None:
        self._root = Path(lake.path(EVENTS))
        self._table = table

    def has_parted(self, hub: HubRef, event_id: int) -> bool:
        """Whether the hub has another event under this id than bronze."""
        held = self._held(hub.db_id, event_id)
        logged = _logged(hub, event_id) if held else []
        return bool(logged) and logged[0] not in held

    def _held(self, db_id: str, event_id: int) -> list[dict[str, Any]]:
        paths = [str(self._root / path) for path in self._files_for(db_id, event_id)]
        wanted: Any = (pc.field("db_id") == db_id) & (pc.field("event_id") == event_id)
        try:
            rows: Any = pads.dataset(paths, schema=EVENT_SCHEMA, format="parquet")
            return rows.to_table(filter=wanted).to_pylist()
        except (OSError, pa.ArrowInvalid):
            return []  # a file that is lost or damaged is for an audit to tell; it does not keep new events out

    def _files_for(self, db_id: str, event_id: int) -> list[str]:
        """The files that may hold the event; one without statistics may."""
        return [
            path
            for path, entry in (*self._files.get(db_id, ()), *self._files.get(None, ()))
            if bounds_meet(entry, "db_id", at_least=db_id, at_most=db_id)
            and bounds_meet(entry, "event_id", at_least=event_id, at_most=event_id)
        ]

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


def _logged(hub: HubRef, event_id: int) -> list[dict[str, Any]]:
    try:
        return [row for batch in read_range(EventRange(hub, event_id - 1, event_id)) for row in batch.to_pylist()]
    except LakeConflict:
        return []  # it has just been archived
