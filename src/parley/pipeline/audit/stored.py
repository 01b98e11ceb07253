"""The hubs' own tables as frames, read in tasks from the copies by ADBC, divided by row ids."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import apsw
import pyarrow as pa

from parley.pipeline.audit.copies import READ, HubCopy
from parley.pipeline.session import BATCH_ROWS
from parley.pipeline.source.files import select_batches
from parley.sqlite import close_quietly, open_reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PART_ROWS: Final = 250_000
"""Rows in one task: about a second of reading."""
_NUMBERS: Final = frozenset({"version", "span_start", "span_end", "outdated", "generation", "event_id"})
_BYTES: Final = frozenset({"fingerprint"})
_WITHOUT_ROWID: Final = frozenset({"agents", "idempotency_keys"})


class Part(NamedTuple):
    """Rows of one table of one hub, at most ``rows`` of them: those with row ids in ``(lo, hi]``, or all."""

    db_id: str
    database: str
    columns: tuple[str, ...]
    rows: int
    lo: int | None = None
    hi: int | None = None


def stored_table(spark: "SparkSession", copies: Sequence[HubCopy], table: str) -> "DataFrame":
    """A table of all hubs, with ``db_id``. A column that a hub's file lacks is null there."""
    tasks = list(_packed(part for copy in copies for part in _parts(copy, table)))
    ddl = ", ".join(("db_id string", *(f"{column} {_type(column)}" for column in READ[table])))
    if not tasks:
        return spark.createDataFrame([], ddl)

    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine: list[int] = [number for batch in numbers for number in batch.column(0).to_pylist()]
        for number in mine:
            for part in tasks[number]:
                yield from _read(table, part)

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, ddl)


def _packed(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """The parts of each task: as they come, with small ones together."""
    task: list[Part] = []
    for part in parts:
        if task and sum(each.rows for each in task) + part.rows > PART_ROWS:
            yield task
            task = []
        task.append(part)
    if task:
        yield task


def _parts(copy: HubCopy, table: str) -> Iterator[Part]:
    columns = copy.columns[table]
    if not columns:
        return
    if table in _WITHOUT_ROWID:
        (count,) = _ask(copy.database, f"SELECT count(*) FROM {table}")
        yield Part(copy.db_id, copy.database, columns, count)
        return
    ends = f"(SELECT min(rowid) - 1 FROM {table}), (SELECT max(rowid) FROM {table})"
    first, last = _ask(copy.database, f"SELECT {ends}")
    count = -(-(last - first) // PART_ROWS)
    for number in range(count):
        lo, hi = (first + (last - first) * each // count for each in (number, number + 1))
        yield Part(copy.db_id, copy.database, columns, hi - lo, lo, hi)


def _ask(database: str, question: str) -> list[int]:
    """One row of numbers; nothing counts as zero."""
    connection: apsw.Connection = open_reader(Path(database))
    try:
        (row,) = connection.execute(question).fetchall()
    finally:
        close_quietly(connection)
    return [0 if value is None else int(str(value)) for value in row]


def _read(table: str, part: Part) -> Iterator[pa.RecordBatch]:
    typed = ", ".join("0" if each in _NUMBERS else "x''" if each in _BYTES else "''" for each in READ[table])
    wanted = ", ".join(each if each in part.columns else "NULL" for each in READ[table])
    where = "" if part.lo is None else f" WHERE rowid > {part.lo} AND rowid <= {part.hi}"
    schema = pa.schema([("db_id", pa.string()), *((each, _arrow_type(each)) for each in READ[table])])
    for batch in select_batches(part.database, f"SELECT {typed}", f"SELECT {wanted} FROM {table}{where}", BATCH_ROWS):
        db_id = pa.repeat(pa.scalar(part.db_id, pa.string()), batch.num_rows)
        yield pa.RecordBatch.from_arrays([db_id, *batch.columns], schema=schema)


def _type(column: str) -> str:
    return "bigint" if column in _NUMBERS else "binary" if column in _BYTES else "string"


def _arrow_type(column: str) -> Any:
    return pa.int64() if column in _NUMBERS else pa.binary() if column in _BYTES else pa.string()
