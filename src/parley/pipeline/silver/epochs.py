"""Silver forgets what it has of hubs that were restored, so that they are folded anew from what bronze has now.

Every table remembers the epoch of each hub that its rows are of. Where bronze's is another, the rows go and the cursor
goes back to the beginning, in one commit for each table. The quarantine comes last: no table may be ahead of it.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc
import pyarrow.dataset as pads

from parley.pipeline.lake.catalogue.bronze import EVENTS
from parley.pipeline.lake.catalogue.silver import QUARANTINE
from parley.pipeline.lake.commit import WHOLE, Step, discard, ensure_table, exchange, exists, live_files
from parley.pipeline.lake.cursors import read_cursors
from parley.pipeline.lake.epochs import epoch_of, epoch_step, epochs_in
from parley.pipeline.lake.files import DataFile, TableWriter
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.reading import bounds_meet
from parley.pipeline.lake.tables import Table
from parley.pipeline.silver.reading import cursor_prefix
from parley.pipeline.silver.specs import SPECS

ABOUT: Final = {"parley": "build"}


def forget_restored(lake: Lake) -> None:
    """Takes the rows of hubs that have another epoch in bronze out of every table."""
    epochs = epochs_in(read_cursors(lake, EVENTS)) if exists(lake, EVENTS) else {}
    for table in (*(spec.table for spec in SPECS), QUARANTINE) if epochs else ():
        found = ensure_table(lake, table)
        cursors = read_cursors(lake, table, found.version())
        others = {db_id: epoch for db_id, epoch in epochs.items() if epoch_of(cursors, db_id) != epoch}
        steps = [epoch_step(cursors, db_id, epoch) for db_id, epoch in others.items()]
        names = [cursor_prefix(table) + db_id for db_id in others]
        steps += [Step(name, cursors[name], 0) for name in names if name in cursors]
        if steps:
            _forget(lake, table, others, live_files(found, WHOLE), steps)


def _forget(
    lake: Lake, table: Table, hubs: Collection[str], entries: dict[str, dict[str, Any]], steps: list[Step]
) -> None:
    gone = {
        path: entry
        for path, entry in entries.items()
        if any(bounds_meet(entry, "db_id", at_least=db_id, at_most=db_id) for db_id in hubs)
    }
    kept = _write_others(lake, table, hubs, gone)
    try:
        exchange(lake, table, kept, gone, cursors=steps, about=ABOUT)
    except BaseException:
        discard(lake, table, kept)
        raise


def _write_others(
    lake: Lake, table: Table, hubs: Collection[str], entries: dict[str, dict[str, Any]]
) -> list[DataFile]:
    with TableWriter(lake, table) as writer:
        for path, entry in entries.items():
            rows: Any = pads.dataset([str(Path(lake.path(table)) / path)], schema=table.file_schema, format="parquet")
            for batch in rows.to_batches(filter=~pc.field("db_id").isin(sorted(hubs))):
                if batch.num_rows:
                    writer.write_partition(entry["partition"] or {}, batch)
    return writer.files
