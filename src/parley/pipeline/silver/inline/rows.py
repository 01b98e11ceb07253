"""Rows of silver tables in Arrow: finding those that news are about, and writing their buckets again."""

import re
import zlib
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from parley.core.fold import Row
from parley.pipeline.lake.catalogue.silver import BUCKET_EVENTS, BUCKET_GROUPS, time_column
from parley.pipeline.lake.commit import WHOLE, live_files, open_table
from parley.pipeline.lake.files import DataFile, TableWriter
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.reading import bounds_meet
from parley.pipeline.lake.tables import Table
from parley.pipeline.silver.inline.folding import Change, NotPlainError
from parley.pipeline.silver.specs import Spec

Wanted = Mapping[str, Collection[str] | None]
"""Hub to the keys of rows; None stands for all of its rows."""

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")
_MOMENT: Final = pa.timestamp("us", tz="UTC")


def read_arrow(root: Path, paths: Iterable[str], table: Table, condition: Any = None) -> Any:
    """Files of a table as one Arrow table, without the columns that it is partitioned by."""
    files: Any = pads.dataset([str(root / path) for path in paths], schema=table.file_schema, format="parquet")
    return files.to_table(filter=condition)


class Shelf:
    """The rows of one table at one version, as far as news are about them."""

    def __init__(self, lake: Lake, spec: Spec, version: int, wanted: Wanted) -> None:
        self.version = version
        self._lake, self._spec = lake, spec
        self._root = Path(lake.path(spec.table))
        self._entries = live_files(open_table(lake, spec.table, version), WHOLE)
        self._read: dict[str, Any] = {}
        self.rows: dict[str, list[Row]] = {db_id: [] for db_id in wanted}
        ordered = {db_id: None if keys is None else sorted(keys) for db_id, keys in wanted.items()}
        for path, entry in self._entries.items():
            if _may_hold(entry, spec.key, ordered):
                self._take(path, wanted)

    def _take(self, path: str, wanted: Wanted) -> None:
        rows = read_arrow(self._root, [path], self._spec.table)
        found = rows.filter(self._are(rows, wanted))
        if found.num_rows:
            self._read[path] = rows
            names = [name for name in found.column_names if not pa.types.is_timestamp(found.schema.field(name).type)]
            for row in found.select(names).to_pylist():
                self.rows[row["db_id"]].append(row)

    def _are(self, rows: Any, wanted: Wanted) -> Any:
        """Which of the rows are wanted, and still change."""
        mask: Any = pa.array([False] * rows.num_rows)
        for db_id in pc.unique(rows["db_id"]).to_pylist():
            keys = wanted.get(db_id, ())
            if keys is None or keys:
                here: Any = pc.equal(rows["db_id"], db_id)
                if keys is not None:
                    here = pc.and_(here, pc.is_in(rows[self._spec.key], pa.array(sorted(keys), pa.string())))
                mask = pc.or_(mask, here)
        return pc.and_(mask, pc.is_null(rows["valid_to_event"])) if "valid_to_event" in rows.column_names else mask

    def merged(self, added: Any, changes: Mapping[str, Change]) -> tuple[Any, list[str]]:
        """The added rows with those that share a bucket with rows that go, and the buckets."""
        touched = {db_id: change.touched for db_id, change in changes.items()}
        going = {path: self._are(rows, touched) for path, rows in self._read.items()}
        hit = {self._bucket(path) for path, mask in going.items() if pc.any(mask).as_py()}
        parts = [added]
        for path in self._entries:
            if self._bucket(path) in hit:
                rows = self._read[path] if path in self._read else read_arrow(self._root, [path], self._spec.table)
                kept = rows.filter(pc.invert(going[path])) if path in going else rows
                bucket = pa.repeat(pa.scalar(self._bucket(path), pa.string()), kept.num_rows)
                parts.append(kept.append_column("bucket", bucket).select(added.column_names))
        return pa.concat_tables(parts), sorted(hit)

    def _bucket(self, path: str) -> str:
        return self._entries[path]["partition"]["bucket"]


def _may_hold(entry: Mapping[str, Any], key: str, wanted: Mapping[str, list[str] | None]) -> bool:
    """Whether the file can hold a wanted row, by its statistics. Keys come in order."""
    lows: Row = entry["min"] or {}
    for db_id, keys in wanted.items():
        if bounds_meet(entry, "db_id", at_least=db_id, at_most=db_id):
            if keys is None:
                return True
            first = bisect_left(keys, str(lows.get(key, "")))
            if first < len(keys) and bounds_meet(entry, key, at_least=keys[first]):
                return True
    return False


def new_rows(spec: Spec, changes: Mapping[str, Change]) -> Any:
    """The rows of all hubs with the columns that the table has beside those of the fold."""
    table, origin = spec.table, spec.origin
    rows: list[Row] = [row | {"db_id": db_id} for db_id, change in changes.items() for row in change.rows]
    times = {time_column(name): name for name in table.schema.names}
    arrays: list[Any] = []
    for field in table.schema:
        if field.name == "bucket":
            arrays.append(pa.array([_bucket(row["db_id"], row[origin]) for row in rows], pa.string()))
        elif field.name in times:
            arrays.append(_moments([row[times[field.name]] for row in rows]))
        else:
            arrays.append(pa.array([row[field.name] for row in rows], field.type))
    return pa.table(arrays, schema=table.schema)


def _moments(texts: list[str | None]) -> Any:
    """The moments that texts mean, all of them written as the hub writes them."""
    if not all(text is None or _TIME.fullmatch(text) for text in texts):
        raise NotPlainError("a time is not written as the hub writes it")
    return pc.cast(pa.array(texts, pa.string()), _MOMENT)


def _bucket(db_id: str, origin: int) -> str:
    return f"{zlib.crc32(db_id.encode()) % BUCKET_GROUPS}-{origin // BUCKET_EVENTS:06}"


def write_rows(lake: Lake, spec: Spec, rows: Any) -> list[DataFile]:
    """Writes rows to files of the table in the order in which Spark would."""
    order = [(name, "ascending") for name in (*spec.table.partition_by, "db_id", spec.origin)]
    with TableWriter(lake, spec.table) as writer:
        for batch in rows.sort_by(order).to_batches():
            writer.write(batch)
    return writer.files
