"""Rows of the lake's tables in Arrow, read and written by the driver: what brokers hold are short rows."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as pads

from parley.pipeline.lake.commit import WHOLE, live_files, open_table
from parley.pipeline.lake.files import DataFile, TableWriter
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.tables import Table

MOMENT: Final = pa.timestamp("us", tz="UTC")

FileTest = Callable[[Mapping[str, Any]], bool]
"""Whether a file can hold what is asked for, by what the log says of it: ``min``, ``max``, ``partition``."""


def read_rows(
    lake: Lake,
    table: Table,
    *,
    version: int | None = None,
    may_hold: FileTest = lambda entry: True,
    columns: Sequence[str] | None = None,
    condition: Any = None,
) -> Any:
    """Rows of a version of the table, without the columns that it is partitioned by."""
    entries = live_files(open_table(lake, table, version), WHOLE)
    root = Path(lake.path(table))
    paths = [str(root / path) for path, entry in sorted(entries.items()) if may_hold(entry)]
    rows: Any = pads.dataset(paths, schema=table.file_schema, format="parquet")
    return rows.to_table(columns=None if columns is None else list(columns), filter=condition)


def write_rows(lake: Lake, table: Table, rows: Any, partition: Mapping[str, str]) -> list[DataFile]:
    """Writes rows of one partition; only a commit makes them part of the table."""
    with TableWriter(lake, table) as writer:
        for batch in rows.to_batches():
            writer.write_partition(partition, batch)
    return writer.files


def moments(milliseconds: Any) -> Any:
    """Milliseconds since 1970 as moments."""
    return milliseconds.cast(pa.timestamp("ms", tz="UTC")).cast(MOMENT)


def repeated(value: Any, kind: Any, rows: int) -> Any:
    """A column of one value."""
    return pa.repeat(pa.scalar(value, kind), rows)
