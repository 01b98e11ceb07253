"""Findings on their way from Spark's tasks to the driver: any number of them, of which the first few travel.

A damaged hub can differ in millions of places. Each partition therefore hands on the first of each check and hub, and
how many more there are, so that what reaches the driver is bounded, and the total is exact.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

SHOWN: Final = 20
"""Differences of one check and hub that are listed; the total is always told."""
VALUE_CHARS: Final = 200
"""How much of a value a finding repeats."""

FINDING_DDL: Final = (
    "check string, db_id string, place string, id string, column string, event_id bigint,"
    " expected string, found string, times bigint"
)


class Finding(NamedTuple):
    """One place where a hub is not what it should be.

    ``place`` is the table, ``expected`` what should stand there and ``found`` what does. Without a place it stands for
    ``times`` others that are not listed.
    """

    check: str
    db_id: str
    place: str
    id: str | None = None
    column: str | None = None
    event_id: int | None = None
    expected: str | None = None
    found: str | None = None
    times: int = 1


class Found(NamedTuple):
    """What a search has found: the first findings of each check and hub, and how many there are in all."""

    listed: list[Finding]
    totals: dict[tuple[str, str], int]
    """By check and hub."""


_SCHEMA: Final = pa.schema(
    [
        (name, pa.int64() if kind == "bigint" else pa.string())
        for name, kind in (part.split() for part in FINDING_DDL.split(", "))
    ]
)


def frame_of(
    rows: DataFrame,
    check: Column | str,
    place: str,
    *,
    id: Column | None = None,
    column: Column | str | None = None,
    event_id: Column | None = None,
    expected: Column | None = None,
    found: Column | None = None,
) -> DataFrame:
    """Rows of another frame, which has ``db_id``, as findings."""
    given: dict[str, Column | str | None] = {"check": check, "place": place, "column": column}
    texts: dict[str, Column | None] = {"id": id, "expected": expected, "found": found}
    return rows.select(
        *(_text(value).alias(name) for name, value in given.items()),
        "db_id",
        *(F.substring(_text(value), 1, VALUE_CHARS).alias(name) for name, value in texts.items()),
        (F.lit(None) if event_id is None else event_id).cast("bigint").alias("event_id"),
        F.lit(1).cast("bigint").alias("times"),
    ).select(*_SCHEMA.names)


def _text(value: Column | str | None) -> Column:
    return (value if isinstance(value, Column) else F.lit(value)).cast("string")


def gather(frames: Iterable[DataFrame]) -> Found:
    """Runs the searches as one job."""
    whole = reduce(DataFrame.unionByName, frames)
    return collect(whole.mapInArrow(_first, FINDING_DDL))


def collect(frame: DataFrame) -> Found:
    """Findings of tasks that have called ``tell``."""
    rows: Any = frame.collect()
    return merge(Finding(*row) for row in rows)


def merge(findings: Iterable[Finding]) -> Found:
    """Counts all and keeps the first of each check and hub."""
    totals: Counter[tuple[str, str]] = Counter()
    listed: list[Finding] = []
    for each in findings:
        totals[each.check, each.db_id] += each.times
        if each.place:
            listed.append(each)
    kept: Counter[tuple[str, str]] = Counter()
    first: list[Finding] = []
    for each in sorted(listed, key=_order):
        kept[each.check, each.db_id] += 1
        if kept[each.check, each.db_id] <= SHOWN:
            first.append(each)
    return Found(first, dict(totals))


def tell(findings: Iterable[Finding]) -> Iterator[pa.RecordBatch]:
    """The findings of a task as rows, with a row for those beyond the first few of each check and hub."""
    seen: Counter[tuple[str, str]] = Counter()
    rows: list[Finding] = []
    for each in findings:
        seen[each.check, each.db_id] += each.times
        if seen[each.check, each.db_id] <= SHOWN:
            rows.append(each)
    rows += [Finding(check, db_id, "", times=count - SHOWN) for (check, db_id), count in seen.items() if count > SHOWN]
    if rows:
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), _SCHEMA, strict=True)],
            schema=_SCHEMA,
        )


def _first(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from tell(Finding(**row) for batch in batches for row in batch.to_pylist())


def _order(finding: Finding) -> tuple[Any, ...]:
    return (finding.check, finding.db_id, finding.event_id or 0, finding.id or "", finding.column or "")
