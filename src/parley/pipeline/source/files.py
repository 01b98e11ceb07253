"""Reading a log straight from a workspace's file, while its hub writes to it or not.

The rows go from SQLite into Arrow columns without becoming Python values (ADBC), which is what makes the pipeline's
rate. A reader of a file in WAL mode sees one moment of it and never makes the writer wait.
"""

import importlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from parley.core.errors import ServiceUnavailable
from parley.pipeline.source.ranges import Bounds, EventRange
from parley.pipeline.source.schema import LOG_COLUMNS
from parley.sqlite import open_reader

BUSY_TIMEOUT_MS: Final = 15_000
"""Another reader that recovers a log after a crash holds the file for a moment."""
# Two seeks at the ends of the primary key, however long the log is.
_LO: Final = "coalesce((SELECT event_id FROM events ORDER BY event_id LIMIT 1) - 1, 0)"
_HI: Final = "coalesce((SELECT event_id FROM events ORDER BY event_id DESC LIMIT 1), 0)"
_BOUNDS: Final = f"SELECT {_LO}, {_HI}"
# ADBC takes a column's type from the first batch, where one may be all NULL: this row in front tells the types. It also
# tells what the log holds, since it belongs to the moment at which the rows after it are read.
_HELD: Final = {"event_id": _HI, "ts": f"CAST({_LO} AS TEXT)"}
_FRONT: Final = "SELECT " + ", ".join(f"{_HELD.get(name, repr(''))} AS {name}" for name in LOG_COLUMNS)
_EVENTS: Final = f"SELECT {', '.join(LOG_COLUMNS)} FROM events WHERE event_id >= {{first}} AND event_id <= {{hi}}"
# The event that the range goes on from, if the log has one.
_BEFORE: Final = (
    "coalesce((SELECT event_id FROM events WHERE event_id <= {lo} ORDER BY event_id DESC LIMIT 1), {lo} + 1)"
)


def read_bounds(database: str) -> Bounds:
    """What the file's log holds now."""
    connection = open_reader(Path(database))
    try:
        lo, hi = connection.execute(_BOUNDS).fetchall()[0]
    finally:
        connection.close()
    return Bounds(int(str(lo)), int(str(hi)))


def read_batches(
    database: str, wanted: EventRange, batch_rows: int, told: Callable[[Bounds], None]
) -> Iterator[pa.RecordBatch]:
    """The range as batches of ``LOG_COLUMNS``, after the event before it if all names are wanted.

    ``told`` is told what the log holds at the one moment that all of it is read at.
    """
    first = f"{wanted.lo} + 1" if wanted.names is not None else _BEFORE.format(lo=wanted.lo)
    statement = f"{_EVENTS.format(first=first, hi=wanted.hi)}{_filter(wanted)}"
    batches = _select(database, _FRONT, statement, batch_rows)
    front = next(batches)
    told(Bounds(int(front.column("ts")[0].as_py()), front.column("event_id")[0].as_py()))
    yield from _filled(front.slice(1), batches)


def select_batches(database: str, typed: str, statement: str, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """What a query of the file gives, as batches. ``typed`` selects one row that tells the columns' types."""
    batches = _select(database, typed, statement, batch_rows)
    yield from _filled(next(batches).slice(1), batches)


def _select(database: str, front: str, statement: str, batch_rows: int) -> Iterator[pa.RecordBatch]:
    with _opened(Path(database)) as query:
        for _ in query(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}", 1):
            pass
        yield from query(f"{front} UNION ALL SELECT * FROM ({statement})", batch_rows)


def _filled(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from (batch for batch in chain([first], others) if batch.num_rows)


@contextmanager
def _opened(database: Path) -> Generator[Callable[[str, int], Iterator[pa.RecordBatch]]]:
    """What asks the file, by ADBC's own interface: that of Python's databases loads pandas and Polars beside it."""
    manager: Any = importlib.import_module("adbc_driver_manager")
    driver: Any = importlib.import_module("adbc_driver_sqlite")

    def query(statement: str, batch_rows: int) -> Iterator[pa.RecordBatch]:
        with manager.AdbcStatement(connection) as asked:
            asked.set_options(**{"adbc.sqlite.query.batch_rows": str(batch_rows)})
            asked.set_sql_query(statement)
            stream, _ = asked.execute_query()
            with pa.RecordBatchReader.from_stream(stream) as batches:
                yield from batches

    with driver.connect(readable_address(database)) as opened, manager.AdbcConnection(opened) as connection:
        yield query


def readable_address(database: Path) -> str:
    """The file as a read-only URI; immutable where SQLite's own files beside it cannot be made and nothing is in them.

    The rule is that of ``open_reader``, which says no where commits would be invisible.
    """
    address = f"{database.absolute().as_uri()}?mode=ro"
    try:
        open_reader(database, immutable_fallback=False).close()
    except ServiceUnavailable:
        open_reader(database).close()
        return f"{address}&immutable=1"
    return address


def _filter(wanted: EventRange) -> str:
    if wanted.names is None:
        return ""
    quoted = ("'" + name.replace("'", "''") + "'" for name in wanted.names)
    return f" AND name IN ({', '.join(quoted)})"
