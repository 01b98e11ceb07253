"""Silver of brokers: messages with moments instead of numbers, and each delivery as it was last seen.

Both follow from bronze alone, so a table that is built anew is what many builds have left. Only what is new in bronze
is read: messages beyond the cursor of their mesh, and buckets in which something was seen since.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from parley.core.pipeline_errors import LakeConflict
from parley.pipeline.brokers import bronze_deliveries, bronze_messages
from parley.pipeline.brokers.rows import moments, read_rows, write_rows
from parley.pipeline.lake.catalogue.mesh import BROKER_DELIVERIES, BROKER_MESSAGES, MESH_DELIVERIES, MESH_MESSAGES
from parley.pipeline.lake.commit import (
    WHOLE,
    Step,
    commit,
    discard,
    exists,
    live_files,
    open_table,
    table_version,
)
from parley.pipeline.lake.cursors import read_cursors
from parley.pipeline.lake.files import DataFile, TableWriter
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.reading import bounds_meet

CONFLICTS_MAX: Final = 20
ABOUT: Final = {"parley": "build"}
PRIORITIES: Final = ("now", "next", "low")
"""By rank."""


@dataclass(slots=True)
class MeshBuilt:
    """Rows written, by table, and buckets that were written again."""

    tables: dict[str, int] = field(default_factory=dict[str, int])
    buckets: int = 0
    conflicts: int = 0


def build_mesh_silver(lake: Lake) -> MeshBuilt:
    """Brings both tables up to what bronze holds; nothing is done in a lake without brokers."""
    built = MeshBuilt()
    for bronze, build in ((BROKER_MESSAGES, _build_messages), (BROKER_DELIVERIES, _build_deliveries)):
        if exists(lake, bronze):
            _until_won(lake, build, built)
    return built


def _until_won(lake: Lake, build: Any, built: MeshBuilt) -> None:
    for _ in range(CONFLICTS_MAX):
        try:
            build(lake, built)
            return
        except LakeConflict:
            built.conflicts += 1
    raise LakeConflict(f"Other builds were quicker {CONFLICTS_MAX} times in a row")


def _build_messages(lake: Lake, built: MeshBuilt) -> None:
    version = table_version(lake, BROKER_MESSAGES)
    stands = read_cursors(lake, MESH_MESSAGES, table_version(lake, MESH_MESSAGES))
    reached = _cursors(lake, version, bronze_messages.CURSOR_PREFIX)
    news = {name: last for name, last in reached.items() if last > stands.get(name, 0)}
    if not news:
        return
    files: list[DataFile] = []
    try:
        with TableWriter(lake, MESH_MESSAGES) as writer:
            for name, last in news.items():
                for batch in _messages(lake, version, name, stands.get(name, 0), last).to_batches():
                    writer.write(batch)
        files = writer.files
        steps = [Step(name, stands.get(name), last) for name, last in news.items()]
        commit(lake, MESH_MESSAGES, files, cursors=steps, about=ABOUT)
    except BaseException:
        discard(lake, MESH_MESSAGES, files)
        raise
    built.tables[MESH_MESSAGES.name] = sum(file.rows for file in files)


def _cursors(lake: Lake, version: int, prefix: str) -> dict[str, int]:
    found = read_cursors(lake, BROKER_MESSAGES, version)
    return {name: last for name, last in sorted(found.items()) if name.startswith(prefix)}


def _messages(lake: Lake, version: int, cursor: str, lo: int, hi: int) -> Any:
    """The messages of one mesh and epoch that came after a number, as silver has them."""
    broker_id, epoch, mesh_id = cursor.removeprefix(bronze_messages.CURSOR_PREFIX).split(".", 2)
    of_mesh: Any = (
        (pc.field("broker_id") == broker_id)
        & (pc.field("epoch") == int(epoch))
        & (pc.field("mesh_id") == mesh_id)
        & (pc.field("history_id") > lo)
        & (pc.field("history_id") <= hi)
    )

    def may_hold(entry: Mapping[str, Any]) -> bool:
        numbers = bounds_meet(entry, "history_id", at_least=lo + 1, at_most=hi)
        return numbers and bounds_meet(entry, "broker_id", at_least=broker_id, at_most=broker_id)

    rows = read_rows(lake, BROKER_MESSAGES, version=version, may_hold=may_hold, condition=of_mesh)
    derived = {"accepted_at": moments(rows["accepted_ms"]), "day": bronze_messages.days(rows["accepted_ms"])}
    schema = MESH_MESSAGES.schema
    return pa.table([derived[name] if name in derived else rows[name] for name in schema.names], schema=schema)


def _build_deliveries(lake: Lake, built: MeshBuilt) -> None:
    version, base = table_version(lake, BROKER_DELIVERIES), table_version(lake, MESH_DELIVERIES)
    stands = read_cursors(lake, MESH_DELIVERIES, base)
    found = read_cursors(lake, BROKER_DELIVERIES, version)
    reached = {name: last for name, last in found.items() if not name.endswith(".floor")}
    news = {name: last for name, last in reached.items() if last > stands.get(name, 0)}
    if not news:
        return
    files: list[DataFile] = []
    buckets = sorted(_changed_buckets(lake, version, {name: stands.get(name, 0) for name in news}))
    try:
        for bucket in buckets:
            files += write_rows(lake, MESH_DELIVERIES, _deliveries(lake, version, bucket), {"bucket": bucket})
        steps = [Step(name, stands.get(name), last) for name, last in news.items()]
        replaced = [{"bucket": bucket} for bucket in buckets]
        commit(lake, MESH_DELIVERIES, files, cursors=steps, replace=replaced, base=base, about=ABOUT)
    except BaseException:
        discard(lake, MESH_DELIVERIES, files)
        raise
    built.tables[MESH_DELIVERIES.name] = sum(file.rows for file in files)
    built.buckets = len(buckets)


def _changed_buckets(lake: Lake, version: int, stands: Mapping[str, int]) -> set[str]:
    """Buckets of these brokers with an observation beyond their cursors."""
    buckets: set[str] = set()
    for entry in live_files(open_table(lake, BROKER_DELIVERIES, version), WHOLE).values():
        bucket = str(entry["partition"]["bucket"])
        name = bronze_deliveries.cursor_name(bucket.rpartition("-")[0])
        if name in stands and bounds_meet(entry, "observation", at_least=stands[name] + 1):
            buckets.add(bucket)
    return buckets


def _deliveries(lake: Lake, version: int, bucket: str) -> Any:
    """The deliveries of a bucket as they were last seen."""
    seen = read_rows(
        lake, BROKER_DELIVERIES, version=version, may_hold=lambda entry: entry["partition"]["bucket"] == bucket
    )
    last = bronze_deliveries.last_seen(seen)
    firsts = bronze_deliveries.first_seen(seen)
    arrow: Any = pc
    delivered = arrow.equal(last["state"], "delivered")
    taken = arrow.subtract(last["settled_ms"], last["queued_ms"])
    derived: dict[str, Any] = {
        "priority": _named(last["priority_rank"]),
        "mentioned": arrow.equal(last["mentioned"], 1),
        "queued_at": moments(last["queued_ms"]),
        "lease_until": moments(last["lease_until_ms"]),
        "settled_at": moments(last["settled_ms"]),
        "latency_ms": arrow.if_else(delivered, taken, pa.scalar(None, pa.int64())),
        "first_seen_at": firsts,
        "changed_seen_at": last["observed_at"],
    }
    schema = MESH_DELIVERIES.file_schema
    return pa.table([derived[name] if name in derived else last[name] for name in schema.names], schema=schema)


def _named(ranks: Any) -> Any:
    """The priorities of these ranks; null for a number that is no rank."""
    arrow: Any = pc
    cases = arrow.make_struct(*(arrow.equal(ranks, rank) for rank in range(len(PRIORITIES))))
    return arrow.case_when(cases, *(pa.scalar(name) for name in PRIORITIES))
