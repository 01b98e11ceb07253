"""The first pass: reads each log once, looks at each event by itself and beside the one before it, and lays it down as
Parquet for the passes that follow.

Ids must follow each other, so a range of them that was planned from both ends of a log shows by itself where one is
missing.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parley.core import untrusted_json
from parley.pipeline.audit.copies import HubCopy
from parley.pipeline.audit.file_checks import look_into
from parley.pipeline.audit.findings import FINDING_DDL, Finding, Found, collect, tell
from parley.pipeline.fold import Archive, Facts
from parley.pipeline.session import LITERAL_PATHS
from parley.pipeline.source.ranges import EventRange, pack, split
from parley.pipeline.source.reading import read_range
from parley.pipeline.source.schema import EVENT_DDL, EVENT_SCHEMA
from parley.sqlite import close_quietly, open_reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS_FOLDER: Final = "events"
ARCHIVED: Final = "workspace.archived"
_READABLE: Final = (
    r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(Z|[+-]\d{2}:\d{2})$"
)


class Scanned(NamedTuple):
    """The events of all hubs, what was found on the way, and the archives that the logs tell of."""

    events: "DataFrame"
    found: Found
    facts: Facts
    told: dict[tuple[str, int], dict[str, Any]]
    """By hub and event, what the log says of archives."""


def scan(spark: "SparkSession", copies: Sequence[HubCopy], folder: Path) -> Scanned:
    """Reads all logs, and lets a task for each hub look into its file."""
    (folder / EVENTS_FOLDER).mkdir()
    target = str(folder / EVENTS_FOLDER)
    packs = pack(part for copy in copies for wanted in copy.history for part in split(wanted))
    work: list[tuple[EventRange, ...] | HubCopy] = [*packs, *copies]

    def run(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine_are: list[int] = [number for batch in numbers for number in batch.column(0).to_pylist()]
        for number in mine_are:
            mine = work[number]
            yield from tell(look_into(mine) if isinstance(mine, HubCopy) else _read(mine, f"{target}/{number}.parquet"))

    found = collect(spark.range(0, len(work), 1, len(work)).mapInArrow(run, FINDING_DDL))
    events = spark.read.schema(EVENT_DDL).options(**LITERAL_PATHS).parquet(target)
    told = _archives_told(events)
    archives = tuple(
        Archive(db_id, event_id, min(up_to, event_id))
        for (db_id, event_id), payload in told.items()
        if isinstance(up_to := payload.get("up_to_event_id"), int)
    )
    truncated = frozenset(copy.db_id for copy in copies if copy.begins_after > 0)
    return Scanned(events, found, Facts(archives, truncated), told)


def _archives_told(events: "DataFrame") -> dict[tuple[str, int], dict[str, Any]]:
    """The payloads of the archives' events, by hub and event."""
    rows: Any = events.where(events["name"] == ARCHIVED).select("db_id", "event_id", "data_json").collect()
    return {(row[0], row[1]): _payload(row[2]) for row in sorted(rows)}


def _read(ranges: Iterable[EventRange], target: str) -> Iterator[Finding]:
    with pq.ParquetWriter(target, EVENT_SCHEMA, compression="zstd", compression_level=1) as writer:
        for wanted in ranges:
            yield from _read_range(wanted, writer)


def _read_range(wanted: EventRange, writer: Any) -> Iterator[Finding]:
    last, ts = wanted.lo, _time_of(wanted)
    for batch in read_range(wanted):
        writer.write_batch(batch)
        yield from _gaps(wanted.hub.db_id, last, batch.column("event_id").to_numpy())
        yield from _times(wanted.hub.db_id, ts, batch)
        last, ts = batch.column("event_id")[-1].as_py(), batch.column("ts")[-1].as_py()
    if last < wanted.hi:
        yield _gap(wanted.hub.db_id, last, wanted.hi + 1)


def _time_of(wanted: EventRange) -> str:
    """The time of the event before the range; empty if there is none."""
    assert wanted.hub.database is not None
    connection = open_reader(Path(wanted.hub.database))
    try:
        row = connection.execute("SELECT ts FROM events WHERE event_id = ?", (wanted.lo,)).fetchone()
    finally:
        close_quietly(connection)
    return "" if row is None else str(row[0])


def _gaps(db_id: str, last: int, ids: Any) -> Iterator[Finding]:
    if int(ids[-1]) - last == len(ids):
        return  # they increase, so none is missing
    for event_id in ids.tolist():
        if event_id != last + 1:
            yield _gap(db_id, last, event_id)
        last = event_id


def _gap(db_id: str, last: int, following: int) -> Finding:
    missing = f"events {last + 1} to {following - 1}" if following - last > 2 else f"event {last + 1}"
    return Finding("events.gap", db_id, "events", str(last + 1), event_id=last + 1, expected=missing)


def _times(db_id: str, before: str, batch: pa.RecordBatch) -> Iterator[Finding]:
    times = batch.column("ts")
    arrow: Any = pc
    readable = arrow.match_substring_regex(times, _READABLE)
    if not arrow.all(readable).as_py():
        for number in arrow.indices_nonzero(arrow.invert(readable)).to_pylist():
            event_id = batch.column("event_id")[number].as_py()
            yield Finding(
                "events.time", db_id, "events", str(event_id), "ts", event_id, "a time", times[number].as_py()
            )
    previous = pa.concat_arrays([pa.array([before], pa.string()), times.slice(0, len(times) - 1)])
    back = arrow.and_(arrow.less(times, previous), readable)
    for number in arrow.indices_nonzero(back).to_pylist():
        event_id = batch.column("event_id")[number].as_py()
        then, now = previous[number].as_py(), times[number].as_py()
        yield Finding("events.clock", db_id, "events", str(event_id), "ts", event_id, f"not before {then}", now)


def _payload(text: str) -> dict[str, Any]:
    try:
        return untrusted_json.decode(text, dict[str, Any])
    except msgspec.DecodeError:
        return {}
