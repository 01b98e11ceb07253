"""A hub that was restored from a backup goes on in the lake under a new epoch.

Bronze keeps what its log still has. The events after that are no longer its own: they go to a table of what was lost,
with the epoch that they belonged to, and what silver and gold made of them is built anew. Two tables cannot be
committed at once, so the lost events come first. A run that is killed in between leaves them in both; the next one
writes them again in the place of the first, and then takes them out of bronze.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from parley.pipeline.lake.catalogue.bronze import EVENTS, LOST_EVENTS
from parley.pipeline.lake.commit import WHOLE, Step, discard, ensure_table, exchange, live_files
from parley.pipeline.lake.cursors import read_cursors
from parley.pipeline.lake.epochs import FORMAT_WITH_EPOCHS, epoch_of, epoch_step
from parley.pipeline.lake.files import DataFile, TableWriter
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.reading import bounds_meet

if TYPE_CHECKING:
    from deltalake import DeltaTable

COUNTER_PREFIX: Final = "parley.lost."
"""A cursor per hub that moves with each commit of lost events, so that two runs at once do not both add them."""
ABOUT: Final = {"parley": "ingest"}


def begin_epoch(
    lake: Lake, table: "DeltaTable", files: Mapping[str, Mapping[str, Any]], db_id: str, cursor: Step, now_ms: int
) -> int:
    """Takes the events of a hub after ``cursor.reached`` out of bronze, and gives the hub its next epoch.

    ``files`` are those of bronze's version that may hold such events. Raises ``LakeConflict`` if another run was
    quicker.
    """
    cursors = read_cursors(lake, EVENTS, table.version())
    epoch = epoch_of(cursors, db_id)
    lake.raise_format(FORMAT_WITH_EPOCHS)
    lost: Any = (pc.field("db_id") == db_id) & (pc.field("event_id") > cursor.reached)
    _keep_lost(lake, files, lost, db_id, epoch, now_ms)
    kept = _write_others(lake, table, files, ~lost)
    steps = [cursor, epoch_step(cursors, db_id, epoch + 1)]
    try:
        exchange(lake, EVENTS, kept, {path: dict(entry) for path, entry in files.items()}, cursors=steps, about=ABOUT)
    except BaseException:
        discard(lake, EVENTS, kept)
        raise
    return epoch + 1


def _keep_lost(
    lake: Lake, files: Mapping[str, Mapping[str, Any]], lost: Any, db_id: str, epoch: int, now_ms: int
) -> None:
    name = COUNTER_PREFIX + db_id
    found = ensure_table(lake, LOST_EVENTS)
    stands = read_cursors(lake, LOST_EVENTS, found.version()).get(name)
    before = {path: entry for path, entry in live_files(found, WHOLE).items() if _is_of(entry, db_id, epoch)}
    added = {
        "epoch": pa.scalar(epoch, pa.int64()),
        "lost_at": pa.scalar(now_ms * 1000, pa.timestamp("us", tz="UTC")),
    }
    with TableWriter(lake, LOST_EVENTS) as writer:
        for path, entry in files.items():
            told = added | {"day": pa.scalar(entry["partition"]["day"], pa.string())}
            for batch in _read(lake, path, EVENTS.file_schema, lost):
                for column, value in told.items():
                    batch = batch.append_column(column, pa.repeat(value, batch.num_rows))
                writer.write(batch.select(LOST_EVENTS.schema.names))
    try:
        steps = [Step(name, stands, (stands or 0) + 1)]
        exchange(lake, LOST_EVENTS, writer.files, before, cursors=steps, about=ABOUT)
    except BaseException:
        discard(lake, LOST_EVENTS, writer.files)
        raise


def _is_of(entry: Mapping[str, Any], db_id: str, epoch: int) -> bool:
    """Whether the file has events of this epoch; a file of this table has those of one."""
    return bounds_meet(entry, "db_id", at_least=db_id, at_most=db_id) and bounds_meet(
        entry, "epoch", at_least=epoch, at_most=epoch
    )


def _write_others(lake: Lake, table: "DeltaTable", files: Mapping[str, Mapping[str, Any]], kept: Any) -> list[DataFile]:
    # The columns that the table has, also those that only a newer Parley knows.
    columns = [field for field in pa.schema(table.schema().to_arrow()) if field.name not in EVENTS.partition_by]
    with TableWriter(lake, EVENTS, pa.schema(columns)) as writer:
        for path, entry in files.items():
            for batch in _read(lake, path, pa.schema(columns), kept):
                writer.write_partition({"day": entry["partition"]["day"]}, batch)
    return writer.files


def _read(lake: Lake, path: str, schema: pa.Schema, wanted: Any) -> Any:
    rows: Any = pads.dataset([str(Path(lake.path(EVENTS)) / path)], schema=schema, format="parquet")
    return (batch for batch in rows.to_batches(filter=wanted) if batch.num_rows)
