"""Bronze of brokers: their messages into the lake, each once.

A run reads the cursor of each mesh from the table, reads what came after it, and commits the files together with the
new cursors, as it is done for hubs. The driver does it alone: a message without its body is a short row.

A restored broker begins a new epoch and gives numbers again that the lake has already. The cursors of an epoch are its
own. They begin where the lake and the broker last agree on a message, so that nothing is taken twice, and what was lost
by the restore stays in the lake under its old epoch.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from parley.core.clock import Clock, SystemClock
from parley.core.pipeline_errors import BrokerInvalid, LakeConflict
from parley.pipeline.brokers.ranges import MessageRange, read_bounds, read_messages, split
from parley.pipeline.brokers.reading import Store, open_store, quoted
from parley.pipeline.brokers.rows import moments, read_rows, repeated
from parley.pipeline.brokers.schema import IDENTITIES, STORED_IDENTITIES
from parley.pipeline.brokers.stores import BrokerRef, broker_at
from parley.pipeline.lake.catalogue.mesh import BROKER_MESSAGES
from parley.pipeline.lake.commit import Step, commit, discard, ensure_table
from parley.pipeline.lake.cursors import read_cursors
from parley.pipeline.lake.files import DataFile, TableWriter
from parley.pipeline.lake.place import Lake

if TYPE_CHECKING:
    from deltalake import DeltaTable

CURSOR_PREFIX: Final = "parley.broker."
ROUND_NUMBERS: Final = 1_000_000
"""Numbers of one commit: what a kill can cost."""
CONFLICTS_MAX: Final = 20
"""Rounds in a row that others may win; each of them took messages in."""

Progress = Callable[[int], None]
"""Is told how many messages are in the lake by now."""


@dataclass(slots=True)
class TakenReport:
    """What a run has done."""

    messages: int = 0
    commits: int = 0
    conflicts: int = 0
    cursors: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """The last number of each mesh, by broker."""
    problems: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class MeshPlan:
    """What one mesh has for the lake, and where its cursor stands, if it does yet."""

    wanted: MessageRange
    cursor: int | None

    @property
    def step(self) -> Step:
        """The cursor's way when the range is in the lake."""
        return Step(cursor_name(self.wanted.broker, self.wanted.mesh_id), self.cursor, self.wanted.hi)


def cursor_name(broker: BrokerRef, mesh_id: str) -> str:
    """The name of a mesh's cursor in bronze, at the broker's present epoch."""
    return f"{CURSOR_PREFIX}{broker.broker_id}.{broker.epoch}.{mesh_id}"


def take_messages(
    lake: Lake,
    brokers: Sequence[BrokerRef],
    *,
    clock: Clock | None = None,
    progress: Progress = lambda done: None,
    round_numbers: int = ROUND_NUMBERS,
) -> TakenReport:
    """Takes everything into the lake that the brokers hold now and that is not there yet."""
    clock = clock or SystemClock()
    report = TakenReport()
    for broker in brokers:
        with open_store(broker.address) as store:
            _take(lake, broker, store, report, clock, progress, round_numbers)
    return report


def _take(
    lake: Lake,
    broker: BrokerRef,
    store: Store,
    report: TakenReport,
    clock: Clock,
    progress: Progress,
    round_numbers: int,
) -> None:
    until = read_bounds(store)
    lost = 0
    while lost <= CONFLICTS_MAX:
        plans = list(_plan(lake, broker, store, until, report))
        report.cursors[broker.broker_id] = {each.wanted.mesh_id: each.cursor or 0 for each in plans}
        chosen = list(_first(plans, round_numbers))
        if not chosen:
            return
        try:
            _round(lake, store, chosen, clock.now_ms(), report)
            lost = 0
            progress(report.messages)
        except LakeConflict:
            lost += 1
            report.conflicts += 1
    raise LakeConflict(f"Other runs were quicker {lost} times in a row", table=BROKER_MESSAGES.view)


def _plan(
    lake: Lake, broker: BrokerRef, store: Store, until: dict[str, int], report: TakenReport
) -> Iterator[MeshPlan]:
    table = ensure_table(lake, BROKER_MESSAGES)
    for mesh_id, last in until.items():
        cursor = table.transaction_version(cursor_name(broker, mesh_id))
        stands = cursor
        if stands is None:
            stands = _agreed(lake, table, broker, store, mesh_id, report)
        # All of a mesh may have been removed as too old; its cursor stays.
        yield MeshPlan(MessageRange(broker, mesh_id, stands, max(stands, last)), cursor)


def _first(plans: Iterable[MeshPlan], numbers: int) -> Iterator[MeshPlan]:
    """So much of the plans as fits in one round, in their order, and cursors of an epoch that have yet to be set."""
    for each in plans:
        wanted = each.wanted
        if (wanted.span > 0 and numbers > 0) or (each.cursor is None and wanted.lo == wanted.hi > 0):
            hi = min(wanted.hi, wanted.lo + numbers)
            numbers -= hi - wanted.lo
            yield MeshPlan(MessageRange(wanted.broker, wanted.mesh_id, wanted.lo, hi), each.cursor)


def _agreed(lake: Lake, table: "DeltaTable", broker: BrokerRef, store: Store, mesh_id: str, report: TakenReport) -> int:
    """The last message on which the lake and a broker at a new epoch agree; 0 if the lake has none of the mesh."""
    prefix = f"{CURSOR_PREFIX}{broker.broker_id}."
    known = read_cursors(lake, BROKER_MESSAGES, table.version())
    if not any(name.startswith(prefix) and name.endswith(f".{mesh_id}") for name in known):
        return 0
    of_mesh: Any = (pc.field("broker_id") == broker.broker_id) & (pc.field("mesh_id") == mesh_id)
    columns = STORED_IDENTITIES.names
    held: Any = read_rows(lake, BROKER_MESSAGES, version=table.version(), columns=columns, condition=of_mesh)
    pairs = set(zip(*(held[name].to_pylist() for name in columns), strict=True))
    agreed = 0
    for batch in store.batches(STORED_IDENTITIES, IDENTITIES.format(mesh=quoted(mesh_id))):
        there = zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
        agreed = max([agreed, *(number for number, message_id in there if (number, message_id) in pairs)])
    lost = sum(number > agreed for number, _ in pairs)
    problem = f"{broker.source} was restored: {lost} messages of mesh {mesh_id} that the lake has are not in it"
    if lost and problem not in report.problems:
        report.problems.append(problem)
    return agreed


def _round(lake: Lake, store: Store, plans: list[MeshPlan], now_ms: int, report: TakenReport) -> None:
    files = [file for each in plans for part in split(each.wanted) for file in write_range(lake, store, part, now_ms)]
    steps = [each.step for each in plans]
    try:
        _refuse_restored({each.wanted.broker for each in plans})
        commit(lake, BROKER_MESSAGES, files, cursors=steps, about={"parley": "ingest"})
    except BaseException:
        discard(lake, BROKER_MESSAGES, files)
        raise
    report.commits += 1
    report.messages += sum(file.rows for file in files)


def _refuse_restored(brokers: Iterable[BrokerRef]) -> None:
    """What was read before and after a restore does not belong together."""
    for broker in brokers:
        if broker_at(broker.address) != broker:
            changed = BrokerInvalid(f"{broker.source} was restored while it was read", source=broker.source)
            changed.hint = "Nothing of it was committed. Run the command again."
            raise changed


def write_range(lake: Lake, store: Store, wanted: MessageRange, now_ms: int) -> list[DataFile]:
    """Writes the messages of a range to files of bronze, one a day."""
    with TableWriter(lake, BROKER_MESSAGES) as writer:
        for batch in read_messages(store, wanted):
            writer.write(_with_origin(batch, wanted.broker.source, now_ms))
    return writer.files


def _with_origin(batch: pa.RecordBatch, source: str, now_ms: int) -> pa.RecordBatch:
    rows = batch.num_rows
    columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns["source"] = repeated(source, pa.string(), rows)
    columns["ingested_at"] = repeated(now_ms * 1000, pa.timestamp("us", tz="UTC"), rows)
    columns["day"] = days(columns["accepted_ms"])
    schema = BROKER_MESSAGES.schema
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def days(milliseconds: Any) -> Any:
    """The day of each moment, as partitions name it."""
    arrow: Any = pc
    return arrow.strftime(moments(milliseconds), format="%Y-%m-%d")
