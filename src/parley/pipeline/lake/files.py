"""Writing a table's files in tasks. A file that was written is nothing yet: only a commit makes it part of the table.

Each file is synced to disk before its name is handed back, so a commit never refers to one that a power cut can take
away. Its statistics come from the Parquet footer and let every reader of the table skip files by them.
"""

import functools
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parley.core.ids import new_uuid
from parley.core.pipeline_errors import LakeInvalid
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ZSTD_LEVEL: Final = 1
FILE_ROWS_MAX: Final = 4_000_000
OPEN_FILES_MAX: Final = 64
"""Partitions that one task writes to at once; with one more, the file that was written to longest ago is finished."""
STATISTIC_CHARS_MAX: Final = 64
"""Ids, names and times are shorter; longer text has no order that anybody asks for."""
NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
_FOLDER_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
FACTS_DDL: Final = "path string, bytes bigint, partition string, modified_ms bigint, statistics string, rows bigint"

Partition = Mapping[str, str | None]
Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class DataFile(NamedTuple):
    """A file that was written: what a commit has to say about it. ``path`` is relative to the table's folder."""

    path: str
    bytes: int
    partition: Partition
    modified_ms: int
    statistics: str
    rows: int


def stage(frame: "DataFrame", lake: Lake, table: Table) -> list[DataFile]:
    """Lets each partition of the frame write its rows to files of the table; only a commit makes them visible.

    The frame has the table's columns, in any order. Repartition it first by what the files are to hold together.
    """
    columns = frame.select(*table.schema.names)
    return collect_files(columns.mapInArrow(_writing(lake, table), FACTS_DDL))


def collect_files(facts: "DataFrame") -> list[DataFile]:
    """The files that tasks have told of with ``tell``."""
    return [
        DataFile(row.path, row.bytes, json.loads(row.partition), row.modified_ms, row.statistics, row.rows)
        for row in facts.collect()
    ]


def tell(files: Iterable[DataFile]) -> Iterator[pa.RecordBatch]:
    """The files of a task as rows of ``FACTS_DDL``."""
    rows = [file._replace(partition=json.dumps(file.partition))._asdict() for file in files]
    if rows:
        yield pa.RecordBatch.from_pylist(rows)


def partitions_of(files: Iterable[DataFile]) -> list[Partition]:
    """The partitions that the files belong to, each once."""
    return [dict(each) for each in dict.fromkeys(tuple(file.partition.items()) for file in files)]


def _writing(lake: Lake, table: Table) -> Task:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with TableWriter(lake, table) as writer:
            for batch in batches:
                writer.write(batch)
        yield from tell(writer.files)

    return write


class TableWriter:
    """Writes batches of a table to files of their partitions. Used with ``with``; ``files`` is complete after it.

    If the block ends with an error, what was written is removed.
    """

    def __init__(self, lake: Lake, table: Table, schema: pa.Schema | None = None) -> None:
        """``schema`` is that of the files, if it is another than the table's own."""
        self.files: list[DataFile] = []
        self._root = Path(lake.path(table))
        self._table = table
        self._schema = schema or table.file_schema
        self._open: dict[tuple[str | None, ...], _OpenFile] = {}

    def __enter__(self) -> "TableWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for key in list(self._open):
            self._finish(key)
        if kind is not None:
            for file in self.files:
                (self._root / file.path).unlink(missing_ok=True)

    def write(self, batch: pa.RecordBatch) -> None:
        """Writes the rows, each to the file of its partition."""
        if not self._table.partition_by:
            self._put((), batch)
            return
        names = list(self._table.partition_by)
        keys = pa.Table.from_batches([batch.select(names)]).group_by(names).aggregate([]).to_pylist()
        for key in keys:
            rows = batch if len(keys) == 1 else batch.filter(_rows_of(batch, key))
            self._put(tuple(None if value is None else str(value) for value in key.values()), rows)

    def write_partition(self, partition: Partition, batch: pa.RecordBatch) -> None:
        """Writes rows that are known to belong to one partition."""
        self._put(tuple(partition[name] for name in self._table.partition_by), batch)

    def _put(self, key: tuple[str | None, ...], batch: pa.RecordBatch) -> None:
        file = self._open.pop(key, None)
        if file is None:
            if len(self._open) >= OPEN_FILES_MAX:
                self._finish(next(iter(self._open)))
            partition = dict(zip(self._table.partition_by, key, strict=True))
            file = _OpenFile(self._root, partition, self._schema, self._table.plain)
        self._open[key] = file  # last again: the first is the one that was written to longest ago
        file.write(batch.select(self._schema.names).cast(self._schema))
        if file.rows >= FILE_ROWS_MAX:
            self._finish(key)

    def _finish(self, key: tuple[str | None, ...]) -> None:
        self.files.append(self._open.pop(key).finish())


class _OpenFile:
    def __init__(self, root: Path, partition: Partition, schema: pa.Schema, plain: Collection[str]) -> None:
        self.rows = 0
        self._root, self._partition = root, partition
        folder = "/".join(f"{name}={_folder_name(value)}" for name, value in partition.items())
        self._path = f"{folder}/part-{new_uuid()}.parquet" if folder else f"part-{new_uuid()}.parquet"
        (root / self._path).parent.mkdir(parents=True, exist_ok=True)
        self._footers: list[Any] = []
        self._writer = pq.ParquetWriter(
            str(root / self._path),
            schema,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            use_dictionary=[name for name in schema.names if name not in plain],
            metadata_collector=self._footers,
        )

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def finish(self) -> DataFile:
        self._writer.close()
        with (self._root / self._path).open("rb") as file:
            os.fsync(file.fileno())
        return _described(self._root, self._path, self._partition, self._footers[0])


def describe(lake: Lake, table: Table, path: str, partition: Partition) -> DataFile:
    """What a commit has to say about a file that was written earlier."""
    root = Path(lake.path(table))
    return _described(root, path, partition, pq.read_metadata(root / path))


def _described(root: Path, path: str, partition: Partition, footer: Any) -> DataFile:
    status = (root / path).stat()
    statistics = json.dumps(_statistics(footer))
    return DataFile(path, status.st_size, partition, status.st_mtime_ns // 1_000_000, statistics, footer.num_rows)


def _rows_of(batch: pa.RecordBatch, key: Mapping[str, Any]) -> Any:
    """Which rows belong to the partition."""
    masks = [
        pc.is_null(batch.column(name)) if value is None else pc.fill_null(pc.equal(batch.column(name), value), False)
        for name, value in key.items()
    ]
    return functools.reduce(pc.and_, masks)


def _folder_name(value: str | None) -> str:
    """The value in a path. What readers would escape in different ways is no value to partition by."""
    if value is not None and _FOLDER_NAME.fullmatch(value) is None:
        raise LakeInvalid(f"{value!r} cannot be the name of a partition", value=value)
    return NULL_PARTITION if value is None else value


def _statistics(footer: Any) -> dict[str, Any]:
    """What the Delta log says about a file: rows, nulls, and the bounds of short columns, from the file's footer."""
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(footer.num_columns):
        name: str = footer.schema.column(index).path
        groups = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
        if "." in name or any(group is None for group in groups):
            continue
        nulls[name] = sum(group.null_count or 0 for group in groups)
        bounded = [group for group in groups if group.has_min_max]
        if bounded:
            low, high = min(group.min for group in bounded), max(group.max for group in bounded)
            if _has_order(low) and _has_order(high):
                lows[name], highs[name] = _as_json(low, up=False), _as_json(high, up=True)
    return {"numRecords": footer.num_rows, "minValues": lows, "maxValues": highs, "nullCount": nulls}


def _has_order(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= STATISTIC_CHARS_MAX
    return isinstance(value, int | datetime) and not isinstance(value, bool)


def _as_json(value: Any, *, up: bool) -> Any:
    """A bound as the log writes it; times have milliseconds there, rounded away from what they bound."""
    if not isinstance(value, datetime):
        return value
    rounded = value.astimezone(UTC) + timedelta(microseconds=999 if up else 0)
    return rounded.strftime("%Y-%m-%dT%H:%M:%S.") + f"{rounded.microsecond // 1000:03d}Z"
