"""``spark.read.format("parley_hub")`` and ``spark.readStream.format("parley_hub")``.

Options: ``workspaces`` (folders or patterns of folders, separated by commas), ``hubs`` (addresses, separated by
commas), ``token_file`` (else the environment of whoever reads has ``PARLEY_HUB_TOKEN``), ``events_per_partition``, for
streams ``events_per_trigger``, and for batches ``after``, ``until``, ``names`` and ``push_filters``. Columns are those
of ``EVENT_DDL``.

The offset of a stream is ``{db_id: event_id}``. A hub that appears while a stream runs is read from its first event on.
With ``push_filters`` filters on ``db_id``, ``event_id`` and ``name`` are pushed down to the log. That is not the
default, because Spark 4.3 keeps what it pushed for one query of a frame and leaves rows out of the frame's next one, or
of the other side of a join; such a frame has to be loaded anew for each query. ``after``, ``until`` and ``names``
narrow what is read just as much, and always the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from parley.core.errors import InvalidInput, WorkspaceNotFound
from parley.pipeline.hubs import HubRef, find_hubs
from parley.pipeline.source.ranges import RANGE_EVENTS, EventRange, pack, split
from parley.pipeline.source.reading import read_bounds, read_range
from parley.pipeline.source.schema import EVENT_DDL

EVENT_ID_MAX = 2**63 - 1


class HubDataSource(DataSource):
    """The events of hubs."""

    @classmethod
    def name(cls) -> str:
        return "parley_hub"

    def schema(self) -> str:
        return EVENT_DDL

    def reader(self, schema: StructType) -> "HubReader":
        options = dict(self.options)
        return PushingHubReader(options) if _truth(options, "push_filters") else HubReader(options)

    def streamReader(self, schema: StructType) -> "HubStreamReader":  # noqa: N802 - Spark's name
        return HubStreamReader(dict(self.options))


class Ranges(InputPartition):
    """What one task reads: several ranges where they are small."""

    def __init__(self, ranges: Sequence[EventRange]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)


class HubReader(DataSourceReader):
    """All that the hubs hold when the query is planned."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        self._lo, self._hi = _number(options, "after", 0), _number(options, "until", EVENT_ID_MAX, low=0)
        self._db_ids: set[str] | None = None
        self._names = set(_list(options, "names")) or None

    def partitions(self) -> Sequence[Ranges]:
        names = None if self._names is None else tuple(sorted(self._names))
        wanted: list[EventRange] = []
        for hub in hubs_of(self._options):
            if self._db_ids is None or hub.db_id in self._db_ids:
                bounds = read_bounds(hub)
                lo, hi = max(bounds.lo, self._lo), min(bounds.hi, self._hi)
                wanted += [EventRange(hub, lo, hi, names)] if hi > lo else []
        return _partitions(wanted, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)


class PushingHubReader(HubReader):
    """The same, narrowed by the filters of a query."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Narrows what is read. Every filter is handed back, so Spark applies it as well."""
        for each in filters:
            column = getattr(each, "attribute", None)
            if column == ("event_id",):
                self._narrow(each)
            elif column == ("db_id",):
                self._db_ids = _intersection(self._db_ids, each)
            elif column == ("name",):
                self._names = _intersection(self._names, each)
        return filters

    def _narrow(self, given: Filter) -> None:
        match given:
            case GreaterThan():
                self._lo = max(self._lo, given.value)
            case GreaterThanOrEqual():
                self._lo = max(self._lo, given.value - 1)
            case LessThan():
                self._hi = min(self._hi, given.value - 1)
            case LessThanOrEqual():
                self._hi = min(self._hi, given.value)
            case EqualTo():
                self._lo, self._hi = max(self._lo, given.value - 1), min(self._hi, given.value)
            case _:
                pass


class HubStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """New events as they come. Ids become visible in order, so the newest one is a mark behind which nothing comes."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        self._target: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        most = _number(self._options, "events_per_trigger", 0)
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = _newest(self._options)

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return _newest(self._options)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return admit(start, self._target if self._target is not None else _newest(self._options), most)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Ranges]:
        hubs = {hub.db_id: hub for hub in hubs_of(self._options)}
        wanted: list[EventRange] = []
        for db_id, hi in end.items():
            lo = start.get(db_id, 0)
            if hi > lo and db_id not in hubs:
                raise WorkspaceNotFound(f"Hub {db_id} has unread events {lo + 1} to {hi}, but is gone", db_id=db_id)
            if hi > lo:
                wanted.append(EventRange(hubs[db_id], max(lo, read_bounds(hubs[db_id]).lo), hi))
        return _partitions([each for each in wanted if each.span > 0], self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)


def hubs_of(options: Mapping[str, str]) -> list[HubRef]:
    """The hubs that a source's options name. At least one has to be named: a task stands in no folder of a user's."""
    workspaces, urls = _list(options, "workspaces"), _list(options, "hubs")
    if not workspaces and not urls:
        raise InvalidInput("parley_hub needs the option workspaces or hubs", option="workspaces")
    return find_hubs(workspaces, urls, options.get("token_file"))


def admit(start: Mapping[str, int], newest: Mapping[str, int], most: int | None) -> dict[str, int]:
    """How far a micro-batch goes: all the way, or to ``most`` events shared fairly among the hubs that have any."""
    end = dict(start)
    behind = {db_id: hi - start.get(db_id, 0) for db_id, hi in newest.items() if hi > start.get(db_id, 0)}
    left = sum(behind.values()) if most is None else most
    for count, db_id in enumerate(sorted(behind, key=lambda db_id: (behind[db_id], db_id))):
        share = min(behind[db_id], max(1, left // (len(behind) - count))) if left > 0 else 0
        if share:
            end[db_id] = start.get(db_id, 0) + share
            left -= share
    return end


def _newest(options: Mapping[str, str]) -> dict[str, int]:
    return {hub.db_id: read_bounds(hub).hi for hub in hubs_of(options)}


def _partitions(wanted: Iterable[EventRange], options: Mapping[str, str]) -> list[Ranges]:
    events = _number(options, "events_per_partition", RANGE_EVENTS)
    parts = [part for each in wanted for part in split(each, events)]
    return [Ranges(each) for each in pack(parts, events)]


def _read(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    # Spark hands a partition of its own to the one task of a query that has nothing to read.
    for wanted in partition.ranges if isinstance(partition, Ranges) else ():
        yield from read_range(wanted)


def _intersection(known: set[str] | None, given: Filter) -> set[str] | None:
    if isinstance(given, EqualTo):
        values = {given.value}
    elif isinstance(given, In):
        values = set(given.value)
    else:
        return known
    return values if known is None else known & values


def _truth(options: Mapping[str, str], name: str) -> bool:
    told = options.get(name, "false").lower()
    if told not in ("true", "false"):
        raise InvalidInput(f"The option {name} is either true or false", option=name)
    return told == "true"


def _list(options: Mapping[str, str], name: str) -> list[str]:
    return [each.strip() for each in options.get(name, "").split(",") if each.strip()]


def _number(options: Mapping[str, Any], name: str, default: int, *, low: int | None = None) -> int:
    """A whole number; the least is ``low``, else 1, or 0 where that is the default."""
    least = min(default, 1) if low is None else low
    try:
        number = int(options.get(name, default))
    except ValueError:
        number = least - 1
    if number < least:
        raise InvalidInput(f"The option {name} has to be a whole number from {least} on", option=name)
    return number
