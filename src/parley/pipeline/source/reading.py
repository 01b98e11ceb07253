"""Reading a range of a hub's log as Arrow batches: from its file where that can be opened, else from the hub itself.

``RangeReading`` is the only way in which the room reads a log; the data source, the stream and the ingest all use it,
and both of its paths give the same rows. It runs in Spark tasks, so all that it needs comes with the range.

While a range waits to be read, its hub may archive, or be restored from a backup and go on with other events under the
same ids. Who reads cannot tell by the rows that it gets. So a reading also says what the log held at that moment, and
which event the range follows: ``Taken``, for whoever planned the range to hold against the plan.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from parley.core.pipeline_errors import LakeConflict
from parley.pipeline.hubs import HubRef
from parley.pipeline.session import BATCH_ROWS
from parley.pipeline.source import files, http
from parley.pipeline.source.ranges import Bounds, EventRange
from parley.pipeline.source.schema import EVENT_SCHEMA, LOG_COLUMNS


class Taken(NamedTuple):
    """What reading a range has given. Digests stand for whole events; times and ids in them make each of its kind."""

    db_id: str
    lo: int
    hi: int
    held_lo: int
    """What the log held when it was read, as ``Bounds``."""
    held_hi: int
    rows: int
    first: int | None
    last: int | None
    before: str | None
    """The digest of the event that the range follows, if the log has it."""
    ending: str | None
    """The digest of the last event of the range."""
    broken: str | None = None
    """Why the reading was given up, in words."""

    @property
    def problem(self) -> str | None:
        """Why this cannot be all of the range."""
        if self.broken is not None:
            return self.broken
        if self.held_lo > self.lo:
            return f"events up to {self.held_lo} were archived"
        if self.held_hi < self.hi:
            return f"the log ended at event {self.held_hi}"
        return None


def read_bounds(hub: HubRef) -> Bounds:
    """What the hub's log holds now."""
    return files.read_bounds(hub.database) if hub.database is not None else http.read_bounds(hub)


def read_range(wanted: EventRange, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """The events of the range in the order of their ids, as batches of ``EVENT_SCHEMA``.

    Raises ``LakeConflict`` if the log does not hold all of the range any more: a part would look like all.
    """
    reading = RangeReading(wanted, batch_rows=batch_rows)
    yield from reading
    problem = reading.taken.problem
    if problem is not None:
        raise LakeConflict(f"Events {wanted.lo + 1} to {wanted.hi} of {wanted.hub.source} cannot be read: {problem}")


class RangeReading:
    """The events of a range, in batches of ``EVENT_SCHEMA``; after the last of them, ``taken`` tells what they were."""

    def __init__(self, wanted: EventRange, *, batch_rows: int = BATCH_ROWS) -> None:
        self._wanted, self._batch_rows = wanted, batch_rows
        self._held = Bounds(wanted.lo, 0)
        self._rows = 0
        self._first: int | None = None
        self._last: Any = None
        self._before: str | None = None
        self._broken: str | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._batches():
                rows = self._after_the_first(batch)
                if rows.num_rows:
                    self._note(rows)
                    yield _with_db_id(rows, self._wanted.hub.db_id)
        except LakeConflict as conflict:
            self._broken = str(conflict)

    @property
    def taken(self) -> Taken:
        """What was read so far."""
        wanted, last = self._wanted, None if self._last is None else self._last.to_pylist()[0]
        return Taken(
            wanted.hub.db_id,
            wanted.lo,
            wanted.hi,
            *self._held,
            self._rows,
            self._first,
            None if last is None else last["event_id"],
            self._before,
            None if last is None else digest_of(last),
            self._broken,
        )

    def _batches(self) -> Iterator[pa.RecordBatch]:
        path = self._wanted.hub.database
        if path is not None:
            return files.read_batches(path, self._wanted, self._batch_rows, self._told)
        return http.read_batches(self._wanted, self._batch_rows, self._told)

    def _told(self, held: Bounds) -> None:
        self._held = held

    def _after_the_first(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch without the event that the range follows, which is looked at and not a part of it."""
        if self._last is not None or batch.column("event_id")[0].as_py() > self._wanted.lo:
            return batch
        self._before = digest_of(batch.slice(0, 1).to_pylist()[0])
        return batch.slice(1)

    def _note(self, rows: pa.RecordBatch) -> None:
        if self._first is None:
            self._first = rows.column("event_id")[0].as_py()
        self._rows += rows.num_rows
        self._last = rows.slice(rows.num_rows - 1)


def digest_of(event: Any) -> str:
    """What stands for an event as it was logged."""
    told = json.dumps([event[name] for name in LOG_COLUMNS])
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def break_between(followed: frozenset[str], pieces: Sequence[Taken]) -> str | None:
    """Why the pieces of one hub, in their order, are not one log that goes on from an event; None if they are.

    ``followed`` are digests of that event as the lake has it; none if nobody knows it any more.
    """
    known, end = followed, None
    for number, piece in enumerate(pieces):
        if piece.problem is not None:
            return piece.problem
        expected = end == piece.lo if number else bool(followed) and piece.held_lo < piece.lo
        if piece.before is None and expected:
            return f"event {piece.lo} is gone"
        if known and piece.before is not None and piece.before not in known:
            return f"event {piece.lo} is another one than before"
        if piece.ending is not None:
            known, end = frozenset([piece.ending]), piece.last
    return None


def _with_db_id(batch: pa.RecordBatch, db_id: str) -> pa.RecordBatch:
    columns = dict(zip(LOG_COLUMNS, batch.columns, strict=True))
    columns["db_id"] = pa.repeat(pa.scalar(db_id, pa.string()), batch.num_rows)
    return pa.RecordBatch.from_arrays([columns[name] for name in EVENT_SCHEMA.names], schema=EVENT_SCHEMA)
