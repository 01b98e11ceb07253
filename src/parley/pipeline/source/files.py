"""Reading a log straight from a workspace's file, while its hub writes to it or not.

The rows go from SQLite into Arrow columns without becoming Python values (ADBC), which is what makes the pipeline's
rate. A reader of a file in WAL mode sees one moment of it and never makes the writer wait.
"""

import importlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
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
_BOUNDS: Final = (
    "SELECT coalesce((SELECT event_id FROM events ORDER BY event_id LIMIT 1) - 1, 0),"
    " coalesce((SELECT event_id FROM events ORDER BY event_id DESC LIMIT 1), 0)"
)
# ADBC takes a column's type from the first batch, where one may be all NULL: this row in front tells the types.
_TYPES: Final = "SELECT " + ", ".join("0" if name == "event_id" else "''" for name in LOG_COLUMNS)
_EVENTS: Final = f"SELECT {', '.join(LOG_COLUMNS)} FROM events WHERE event_id > {{lo}} AND event_id <= {{hi}}"


def read_bounds(database: str) -> Bounds:
    """What the file's log holds now."""
    connection = open_reader(Path(database))
    try:
        lo, hi = connection.execute(_BOUNDS).fetchall()[0]
    finally:
        connection.close()
    return Bounds(int(str(lo)), int(str(hi)))


def read_batches(database: str, wanted: EventRange, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """The range as batches of ``LOG_COLUMNS``."""
    statement = f"{_EVENTS.format(lo=wanted.lo, hi=wanted.hi)}{_filter(wanted)}"
    return select_batches(database, _TYPES, statement, batch_rows)


def select_batches(database: str, typed: str, statement: str, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """What a query of the file gives, as batches. ``typed`` selects one row that tells the columns' types."""
    with _opened(Path(database)) as query:
        for _ in query(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}", 1):
            pass
        typed_row = 1
        for batch in query(f"{typed} UNION ALL SELECT * FROM ({statement})", batch_rows):
            rows = batch.slice(typed_row)
            typed_row = 0
            if rows.num_rows:
                yield rows


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
