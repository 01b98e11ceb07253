"""Bronze of deliveries: what became of each, as far as somebody looked.

A delivery is leased, given back, delivered or given up, and even one that was delivered may be asked for again; nothing
logs that. So each run looks at all deliveries that the broker still has and appends those that are not as they were
when they were last seen, and those that the broker has removed since. What happened between two looks is not known.
Times, states and the number of attempts are the broker's own.

Deliveries are compared bucket by bucket. A bucket that is as it was costs one reading of it on both sides.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from parley.core.clock import Clock, SystemClock
from parley.core.pipeline_errors import LakeConflict
from parley.pipeline.brokers.reading import Store, open_store
from parley.pipeline.brokers.rows import MOMENT, read_rows, repeated, write_rows
from parley.pipeline.brokers.schema import DELIVERIES, DELIVERY_BOUNDS, STORED_DELIVERIES
from parley.pipeline.brokers.stores import BrokerRef
from parley.pipeline.lake.catalogue.mesh import BROKER_DELIVERIES, BUCKET_DELIVERIES
from parley.pipeline.lake.commit import WHOLE, Step, commit, discard, ensure_table, live_files, open_table
from parley.pipeline.lake.files import DataFile
from parley.pipeline.lake.place import Lake

CURSOR_PREFIX: Final = "parley.observed."
CONFLICTS_MAX: Final = 20
_KEY: Final = ("broker_message_id", "recipient_id")
"""What a delivery is known by; after a restore its number may be another's."""
_SEEN: Final = pa.schema([*STORED_DELIVERIES, pa.field("gone", pa.bool_())])


class Seen(NamedTuple):
    """How many deliveries of a broker were found changed, and the number of the look that found them."""

    changed: int
    observation: int


def observe_deliveries(
    lake: Lake, brokers: Sequence[BrokerRef], *, clock: Clock | None = None, bucket_size: int = BUCKET_DELIVERIES
) -> dict[str, Seen]:
    """Looks at the deliveries of all brokers once; what was seen, by broker."""
    now_ms = (clock or SystemClock()).now_ms()
    return {broker.broker_id: _observe(lake, broker, now_ms, bucket_size) for broker in brokers}


def cursor_name(broker_id: str) -> str:
    """The name of the cursor that numbers the looks at a broker's deliveries."""
    return CURSOR_PREFIX + broker_id


def bucket_name(broker_id: str, number: int) -> str:
    """The partition of a bucket; the names of a broker's buckets sort as their numbers do."""
    return f"{broker_id}-{number:08d}"


def last_seen(observations: Any) -> Any:
    """The last observation of each delivery, in the order of their numbers."""
    return _one_of_each(observations, "last")


def first_seen(observations: Any) -> Any:
    """When each delivery was first seen, in the same order."""
    return _one_of_each(observations, "first")["observed_at"]


def _one_of_each(observations: Any, which: Literal["first", "last"]) -> Any:
    names = [name for name in observations.column_names if name not in _KEY]
    ordered = observations.sort_by("observation")
    whole = pc.ScalarAggregateOptions(skip_nulls=False)
    found = ordered.group_by(list(_KEY), use_threads=False).aggregate([(name, which, whole) for name in names])
    renamed = found.rename_columns([name.removesuffix(f"_{which}") for name in found.column_names])
    order = [("delivery_id", "ascending"), *((name, "ascending") for name in _KEY)]
    return renamed.select(observations.column_names).sort_by(order)


def _observe(lake: Lake, broker: BrokerRef, now_ms: int, bucket_size: int) -> Seen:
    for _ in range(CONFLICTS_MAX):
        try:
            return _look(lake, broker, now_ms, bucket_size)
        except LakeConflict:
            continue  # another run has seen what we saw, or more
    raise LakeConflict(f"Other runs were quicker {CONFLICTS_MAX} times in a row", table=BROKER_DELIVERIES.view)


def _look(lake: Lake, broker: BrokerRef, now_ms: int, bucket_size: int) -> Seen:
    table = ensure_table(lake, BROKER_DELIVERIES)
    stands = table.transaction_version(cursor_name(broker.broker_id))
    number = (stands or 0) + 1
    floor_name = f"{cursor_name(broker.broker_id)}.{broker.epoch}.floor"
    floor = table.transaction_version(floor_name)
    files: list[DataFile] = []
    try:
        with open_store(broker.address) as store:
            first, last = (int(each) // bucket_size for each in store.rows(DELIVERY_BOUNDS)[0])
            known = _buckets_known(lake, broker.broker_id, table.version())
            for bucket in sorted({*range(first, last + 1), *known} - set(range(floor or 0))):
                rows = _changes(lake, table.version(), broker, store, bucket, bucket_size)
                if rows.num_rows:
                    named = {"bucket": bucket_name(broker.broker_id, bucket)}
                    files += write_rows(lake, BROKER_DELIVERIES, _observed(rows, broker, number, now_ms), named)
        steps = [Step(cursor_name(broker.broker_id), stands, number)] if files else []
        # Buckets below the first delivery that the broker has are all gone by now and need no further look.
        steps += [Step(floor_name, floor, first)] if first > (floor or 0) else []
        commit(lake, BROKER_DELIVERIES, files, cursors=steps, about={"parley": "observe"})
    except BaseException:
        discard(lake, BROKER_DELIVERIES, files)
        raise
    changed = sum(file.rows for file in files)
    return Seen(changed, number if changed else stands or 0)


def _buckets_known(lake: Lake, broker_id: str, version: int) -> set[int]:
    names = {str(entry["partition"]["bucket"]) for entry in _entries(lake, version)}
    return {int(name.removeprefix(f"{broker_id}-")) for name in names if name.startswith(f"{broker_id}-")}


def _entries(lake: Lake, version: int) -> Iterator[dict[str, Any]]:
    yield from live_files(open_table(lake, BROKER_DELIVERIES, version), WHOLE).values()


def _changes(lake: Lake, version: int, broker: BrokerRef, store: Store, bucket: int, bucket_size: int) -> Any:
    """Deliveries of the bucket that are new or not as they were last seen, as rows of ``_SEEN``."""
    lo, hi = bucket * bucket_size - 1, (bucket + 1) * bucket_size - 1
    stored: Any = pa.Table.from_batches(
        store.batches(STORED_DELIVERIES, DELIVERIES.format(lo=lo, hi=hi)), schema=STORED_DELIVERIES
    )
    there = stored.append_column("gone", repeated(False, pa.bool_(), stored.num_rows))
    name = bucket_name(broker.broker_id, bucket)
    seen = last_seen(
        read_rows(
            lake,
            BROKER_DELIVERIES,
            version=version,
            may_hold=lambda entry: entry["partition"]["bucket"] == name,
            columns=[*_SEEN.names, "observation"],
        )
    ).select(_SEEN.names)
    still = seen.filter(pc.invert(seen["gone"]))
    if still.combine_chunks().equals(there.combine_chunks()):
        return there.slice(0, 0)
    before = {_key(row): row for row in seen.to_pylist()}
    changed = [row for row in there.to_pylist() if before.pop(_key(row), None) != row]
    removed = [row | {"gone": True} for row in before.values() if not row["gone"]]
    return pa.Table.from_pylist([*changed, *removed], schema=_SEEN)


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _KEY)


def _observed(rows: Any, broker: BrokerRef, number: int, now_ms: int) -> Any:
    count = rows.num_rows
    added = {
        "broker_id": repeated(broker.broker_id, pa.string(), count),
        "epoch": repeated(broker.epoch, pa.int64(), count),
        "observation": repeated(number, pa.int64(), count),
        "observed_at": repeated(now_ms * 1000, MOMENT, count),
    }
    schema = BROKER_DELIVERIES.file_schema
    return pa.table([added[name] if name in added else rows[name] for name in schema.names], schema=schema)
