"""Ranges of a mesh's history: what a broker holds, and how it is divided.

Numbers are given for the whole database, and two meshes may commit theirs in either order. Within a mesh they become
visible in order, since each is taken under the lock of the mesh's row and held to the commit. So the last number of a
mesh is a mark up to which nothing can come any more, and the last number of the database is none.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from parley.pipeline.brokers.reading import Store, open_store, quoted
from parley.pipeline.brokers.schema import BOUNDS, MESSAGE_SCHEMA, MESSAGES, STORED_MESSAGES
from parley.pipeline.brokers.stores import BrokerRef
from parley.pipeline.session import BATCH_ROWS

RANGE_NUMBERS: Final = 250_000
"""Numbers that one range spans: so many messages at most, and a second or two of reading."""
RANGE_COST: Final = 2_000
"""What opening a range costs, told in messages; it bounds how many small meshes share a task."""


@dataclass(frozen=True, slots=True)
class MessageRange:
    """Messages of one mesh with numbers in ``(lo, hi]``."""

    broker: BrokerRef
    mesh_id: str
    lo: int
    hi: int

    @property
    def span(self) -> int:
        """How many numbers it covers."""
        return self.hi - self.lo


def read_bounds(store: Store) -> dict[str, int]:
    """The last number of each mesh, 0 where nothing was said yet."""
    return {str(mesh_id): int(last) for mesh_id, last in store.rows(BOUNDS)}


def whole_history(broker: BrokerRef) -> list[MessageRange]:
    """All that the broker holds now, a range for each mesh."""
    with open_store(broker.address) as store:
        bounds = read_bounds(store)
    return [MessageRange(broker, mesh_id, 0, last) for mesh_id, last in bounds.items() if last > 0]


def split(whole: MessageRange, numbers: int = RANGE_NUMBERS) -> Iterator[MessageRange]:
    """The range in parts of equal span, none larger than ``numbers``."""
    count = -(-whole.span // numbers)
    for number in range(count):
        lo, hi = (whole.lo + whole.span * part // count for part in (number, number + 1))
        yield replace(whole, lo=lo, hi=hi)


def pack(ranges: Iterable[MessageRange], numbers: int = RANGE_NUMBERS) -> list[tuple[MessageRange, ...]]:
    """The ranges of each task: as they come, with small ones together."""
    packs: list[tuple[MessageRange, ...]] = []
    current: list[MessageRange] = []
    cost = 0
    for each in ranges:
        weight = each.span + RANGE_COST
        if current and cost + weight > numbers + RANGE_COST:
            packs.append(tuple(current))
            current, cost = [], 0
        current.append(each)
        cost += weight
    return [*packs, tuple(current)] if current else packs


def read_range(wanted: MessageRange, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """The messages of the range in the order of their numbers, as batches of ``MESSAGE_SCHEMA``, from either store."""
    with open_store(wanted.broker.address) as store:
        yield from read_messages(store, wanted, batch_rows)


def read_messages(store: Store, wanted: MessageRange, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """The same from a store that is open."""
    statement = MESSAGES.format(mesh=quoted(wanted.mesh_id), lo=wanted.lo, hi=wanted.hi)
    for batch in store.batches(STORED_MESSAGES, statement, batch_rows):
        rows = batch.num_rows
        broker_id = pa.repeat(pa.scalar(wanted.broker.broker_id, pa.string()), rows)
        epoch = pa.repeat(pa.scalar(wanted.broker.epoch, pa.int64()), rows)
        yield pa.RecordBatch.from_arrays([broker_id, epoch, *batch.columns], schema=MESSAGE_SCHEMA)
