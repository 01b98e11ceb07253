"""Who is in which mesh, so that a delivery can be told by the name of its recipient.

The members of a broker are one partition, which is written again when it is not what the broker has.
"""

import contextlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from parley.core.clock import Clock, SystemClock
from parley.core.pipeline_errors import LakeConflict
from parley.pipeline.brokers.reading import open_store
from parley.pipeline.brokers.rows import MOMENT, read_rows, repeated, write_rows
from parley.pipeline.brokers.schema import MEMBERS, STORED_MEMBERS
from parley.pipeline.brokers.stores import BrokerRef
from parley.pipeline.lake.catalogue.mesh import BROKER_MEMBERS
from parley.pipeline.lake.commit import commit, discard, table_version
from parley.pipeline.lake.place import Lake


def take_members(lake: Lake, brokers: Sequence[BrokerRef], *, clock: Clock | None = None) -> None:
    """Brings the table up to what the brokers have. What another run writes meanwhile is as new, and stays."""
    now_ms = (clock or SystemClock()).now_ms()
    for broker in brokers:
        with contextlib.suppress(LakeConflict):
            _take(lake, broker, now_ms)


def _take(lake: Lake, broker: BrokerRef, now_ms: int) -> None:
    base, partition = table_version(lake, BROKER_MEMBERS), {"broker_id": broker.broker_id}
    held: Any = read_rows(
        lake,
        BROKER_MEMBERS,
        version=base,
        may_hold=lambda entry: entry["partition"] == partition,
        columns=STORED_MEMBERS.names,
    )
    with open_store(broker.address) as store:
        members: Any = pa.Table.from_batches(store.batches(STORED_MEMBERS, MEMBERS), schema=STORED_MEMBERS)
    if held.sort_by([("mesh_id", "ascending"), ("member_id", "ascending")]).equals(members):
        return
    seen = members.append_column("seen_at", repeated(now_ms * 1000, MOMENT, members.num_rows))
    files = write_rows(lake, BROKER_MEMBERS, seen, partition)
    try:
        commit(lake, BROKER_MEMBERS, files, replace=[partition], base=base, about={"parley": "ingest"})
    except BaseException:
        discard(lake, BROKER_MEMBERS, files)
        raise
