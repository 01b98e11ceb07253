"""Reading a range of a hub's log as Arrow batches: from its file where that can be opened, else from the hub itself.

``read_range`` is the only way in which the room reads a log; the data source, the stream and the ingest all call it,
and both of its paths give the same rows. It runs in Spark tasks, so all that it needs comes with the range.
"""

from collections.abc import Iterator

import pyarrow as pa

from parley.core.pipeline_errors import LakeConflict
from parley.pipeline.hubs import HubRef
from parley.pipeline.session import BATCH_ROWS
from parley.pipeline.source import files, http
from parley.pipeline.source.ranges import Bounds, EventRange
from parley.pipeline.source.schema import EVENT_SCHEMA, LOG_COLUMNS


def read_bounds(hub: HubRef) -> Bounds:
    """What the hub's log holds now."""
    return files.read_bounds(hub.database) if hub.database is not None else http.read_bounds(hub)


def read_range(wanted: EventRange, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """The events of the range in the order of their ids, as batches of ``EVENT_SCHEMA``.

    Raises ``LakeConflict`` if events of the range were archived since it was planned: a part would look like all.
    """
    path = wanted.hub.database
    batches = (
        files.read_batches(path, wanted, batch_rows) if path is not None else http.read_batches(wanted, batch_rows)
    )
    for batch in batches:
        yield _with_db_id(batch, wanted.hub.db_id)
    if read_bounds(wanted.hub).lo > wanted.lo:
        raise LakeConflict(f"Events after {wanted.lo} of {wanted.hub.source} were archived while they were read")


def _with_db_id(batch: pa.RecordBatch, db_id: str) -> pa.RecordBatch:
    columns = dict(zip(LOG_COLUMNS, batch.columns, strict=True))
    columns["db_id"] = pa.repeat(pa.scalar(db_id, pa.string()), batch.num_rows)
    return pa.RecordBatch.from_arrays([columns[name] for name in EVENT_SCHEMA.names], schema=EVENT_SCHEMA)
