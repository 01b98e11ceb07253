"""Putting counted rows in the place of those that a gold table has: all of them, or those of some hubs."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from parley.pipeline.lake import WHOLE, DataFile, Lake, Step, Table, commit, discard, stage
from parley.pipeline.lake.commit import exchange, live_files, open_table
from parley.pipeline.lake.files import TableWriter
from parley.pipeline.lake.reading import bounds_meet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ABOUT: Final = {"parley": "build"}
FILE_ROWS: Final = 50_000
"""A file with so many rows takes no further hub, so that news of a small hub do not write a large one's rows again."""
_BATCH_ROWS: Final = 200_000


def replace_table(lake: Lake, table: Table, rows: "DataFrame", *steps: Step) -> int:
    """Makes the rows of a frame all that the table holds. Returns how many they are."""
    files = stage(rows, lake, table)
    try:
        commit(lake, table, files, cursors=steps, replace=WHOLE, about=ABOUT)
    except BaseException:
        discard(lake, table, files)
        raise
    return sum(file.rows for file in files)


def replace_hubs(lake: Lake, table: Table, rows: Any, hubs: Collection[str] | None, steps: Sequence[Step]) -> int:
    """Makes the rows of an Arrow table all that the table holds of these hubs, or of all. Returns how many they are."""
    old = live_files(open_table(lake, table), WHOLE)
    gone = {path: entry for path, entry in old.items() if hubs is None or _may_hold(entry, hubs)}
    files: list[DataFile] = []
    try:
        for part in _parts(rows):
            files += _write(lake, table, part.to_batches(max_chunksize=_BATCH_ROWS))
        if hubs is not None and gone:
            files += _write(lake, table, _others(lake, table, gone, hubs))
        exchange(lake, table, files, gone, cursors=steps, about=ABOUT)
    except BaseException:
        discard(lake, table, files)
        raise
    return rows.num_rows


def _may_hold(entry: dict[str, Any], hubs: Collection[str]) -> bool:
    return any(bounds_meet(entry, "db_id", at_least=hub, at_most=hub) for hub in hubs)


def _parts(rows: Any) -> Iterator[Any]:
    """The rows in the order of their hubs, in parts of which each ends with a hub."""
    rows = rows.set_column(0, "db_id", pc.cast(rows["db_id"], pa.string()))
    if len(pc.unique(rows["db_id"])) > 1:
        rows = rows.sort_by("db_id")
    sizes = pc.value_counts(rows["db_id"]).field("counts").to_pylist()
    start = end = 0
    for size in sizes:
        end += size
        if end - start >= FILE_ROWS:
            yield rows.slice(start, end - start)
            start = end
    if end > start:
        yield rows.slice(start)


def _others(lake: Lake, table: Table, gone: Collection[str], hubs: Collection[str]) -> Iterator[Any]:
    """The rows of other hubs in files that go."""
    root = Path(lake.path(table))
    files: Any = pads.dataset([str(root / path) for path in gone], schema=table.file_schema, format="parquet")
    yield from files.to_batches(filter=~pc.field("db_id").isin(pa.array(sorted(hubs), pa.string())))


def _write(lake: Lake, table: Table, batches: Any) -> list[DataFile]:
    with TableWriter(lake, table) as writer:
        for batch in batches:
            if batch.num_rows:
                writer.write(batch)
    return writer.files
