"""Looking after a table: fewer files, none that nobody needs, what happened to it, and back to an earlier version."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from parley.core.clock import iso
from parley.core.pipeline_errors import LakeConflict, LakeNotFound
from parley.pipeline.lake.catalogue.bronze import CURSOR_PREFIX, EVENTS
from parley.pipeline.lake.commit import WHOLE, Step, discard, exchange, live_files, open_table
from parley.pipeline.lake.cursors import read_cursors
from parley.pipeline.lake.epochs import EPOCH_PREFIX, FORMAT_WITH_EPOCHS, RESTORES, epoch_of, epoch_step
from parley.pipeline.lake.files import DataFile, Partition, TableWriter, describe
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.tables import Table

if TYPE_CHECKING:
    from deltalake import DeltaTable

TARGET_BYTES: Final = 64 * 1024 * 1024
"""Files are put together up to this size, which a task reads in about a second."""
ORPHAN_HOURS_MIN: Final = 24
"""Files that no version names may belong to a run that has not committed yet; none takes as long."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """How many files were put together into how many; ``left`` were being replaced by somebody else."""

    files_before: int = 0
    files_after: int = 0
    left: int = 0


def vacuum(lake: Lake, table: Table, *, days: float, dry_run: bool = False) -> list[str]:
    """Deletes files that left the table more than so many days ago, and those of runs that never committed.

    Versions older than that can no longer be read or restored. Returns the files' names.
    """
    hours = max(ORPHAN_HOURS_MIN, round(days * 24))
    found = open_table(lake, table)
    return found.vacuum(retention_hours=hours, dry_run=dry_run, enforce_retention_duration=False, full=True)


def compact(lake: Lake, table: Table, target_bytes: int = TARGET_BYTES) -> Compacted:
    """Puts small files of one partition together, and within it only those with the same value to cluster by.

    The table's content stays as it is, and nobody who reads or appends meanwhile is disturbed.
    """
    found = open_table(lake, table)
    before = after = left = 0
    for group in _groups(found, table, target_bytes):
        written = _rewrite(lake, table, found, group)
        gone = {entry["path"]: entry for entry in group}
        try:
            exchange(lake, table, written, gone, same_content=True, about={"parley": "compact"})
            before, after = before + len(group), after + len(written)
        except LakeConflict:
            discard(lake, table, written)
            left += len(group)
    return Compacted(before, after, left)


def history(lake: Lake, table: Table, limit: int | None = None) -> list[dict[str, Any]]:
    """The table's newest versions, the newest first: when, by what, and how it changed the cursors."""
    return [
        {
            "version": entry["version"],
            "at": iso(int(entry["timestamp"])),
            "operation": str(entry.get("parley") or entry["operation"]).lower(),
        }
        for entry in open_table(lake, table).history(limit)
    ]


def restore(lake: Lake, table: Table, version: int) -> int:
    """Makes the table what it was at a version, as a new one; the cursors go back with it. Returns the new version.

    Cursors that stayed where they are would leave a gap for ever: what was taken back would never be read again. Where
    cursors tell how far bronze has the hubs' logs, each hub gets a new epoch, so that what was built from the table is
    built anew; of other tables it is told by how often they were restored.
    """
    old, now = open_table(lake, table, version), open_table(lake, table)
    then, current = live_files(old, WHOLE), live_files(now, WHOLE)
    root = Path(lake.path(table))
    lost = [path for path in then if not (root / path).is_file()]
    if lost:
        raise LakeNotFound(
            f"{len(lost)} files of version {version} of {table.view} were vacuumed", table=table.view, version=version
        )
    back = [describe(lake, table, path, _partition(entry)) for path, entry in then.items() if path not in current]
    gone = {path: entry for path, entry in current.items() if path not in then}
    stood = read_cursors(lake, table, version)
    stand = read_cursors(lake, table)
    steps = [Step(name, stands, stood.get(name, 0)) for name, stands in stand.items() if name != RESTORES]
    steps.append(Step(RESTORES, stand.get(RESTORES), stand.get(RESTORES, 0) + 1))
    if table is EVENTS:
        lake.raise_format(FORMAT_WITH_EPOCHS)
        hubs = [name.removeprefix(CURSOR_PREFIX) for name in stand if name.startswith(CURSOR_PREFIX)]
        steps = [step for step in steps if not step.name.startswith(EPOCH_PREFIX)]
        steps += [epoch_step(stand, db_id, epoch_of(stand, db_id) + 1) for db_id in hubs]
    return exchange(lake, table, back, gone, cursors=steps, about={"parley": "restore"})


def _groups(found: "DeltaTable", table: Table, target_bytes: int) -> list[list[dict[str, Any]]]:
    """The files to put together, at most a target's worth in each group, at least two."""
    together: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for entry in live_files(found, WHOLE).values():
        if entry["size_bytes"] < target_bytes:
            together[_place(entry, table)].append(entry)
    groups: list[list[dict[str, Any]]] = []
    for entries in together.values():
        group: list[dict[str, Any]] = []
        for entry in sorted(entries, key=lambda entry: (_first_id(entry), entry["path"])):
            if group and sum(each["size_bytes"] for each in group) + entry["size_bytes"] > target_bytes:
                groups.append(group)
                group = []
            group.append(entry)
        groups.append(group)
    return [group for group in groups if len(group) > 1]


def _place(entry: Mapping[str, Any], table: Table) -> tuple[Any, ...]:
    lows: dict[str, Any] = entry["min"] or {}
    partition: dict[str, Any] = entry["partition"] or {}
    return (*partition.values(), lows.get(table.cluster_by) if table.cluster_by is not None else None)


def _first_id(entry: Mapping[str, Any]) -> int:
    lows: dict[str, Any] = entry["min"] or {}
    return lows.get("event_id") or 0


def _rewrite(lake: Lake, table: Table, found: "DeltaTable", group: list[dict[str, Any]]) -> list[DataFile]:
    root = Path(lake.path(table))
    # The columns that the table has, also those that only a newer Parley knows; a file from before one has nulls in it.
    columns = pa.schema(found.schema().to_arrow())
    schema = pa.schema([field for field in columns if field.name not in table.partition_by])
    rows: Any = ds.dataset([str(root / entry["path"]) for entry in group], schema=schema, format="parquet")
    with TableWriter(lake, table, schema) as writer:
        for batch in rows.to_batches():
            writer.write_partition(_partition(group[0]), batch)
    return writer.files


def _partition(entry: Mapping[str, Any]) -> Partition:
    values: dict[str, Any] = entry["partition"] or {}
    return {name: None if value is None else str(value) for name, value in values.items()}
