"""Reading a log straight from a workspace's file, while its hub writes to it or not.

The rows go from SQLite into Arrow columns without becoming Python values (ADBC), which is what makes the pipeline's
rate. A reader of a file in WAL mode sees one moment of it and never makes the writer wait.
"""

from collections.abc import Iterator
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
    from adbc_driver_sqlite import dbapi

    driver: Any = dbapi
    with driver.connect(readable_address(Path(database))) as connection, connection.cursor() as cursor:
        cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        cursor.fetchall()
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(batch_rows)})
        cursor.execute(f"{typed} UNION ALL SELECT * FROM ({statement})")
        typed_row = 1
        for batch in cursor.fetch_record_batch():
            rows = batch.slice(typed_row)
            typed_row = 0
            if rows.num_rows:
                yield rows


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
