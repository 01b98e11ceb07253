"""Bronze: taking new events of the hubs into the lake, each once.

A run reads each hub's cursor from the table, reads what came after it, and commits the files together with the new
cursors. Reading and writing are one step of a task: it reads its range into Arrow batches and writes them to Parquet
files at once, so nothing of an event ever passes through the JVM. The driver commits once a round, and a round is as
large as the cluster is. One so small that a Spark job would take longer than the work is done by the driver itself,
which then needs no Spark at all.

Two runs at once are harmless. If another run moved a cursor while this one was reading, the commit is refused, the
files are removed and the round is planned again from where the cursors stand now. The same is done where a hub is no
longer what was planned: each task tells what it has read, and what that follows; a hub that archived meanwhile, or was
restored, gives something else.

A hub that was restored goes on from where it and bronze part, under its next epoch.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from parley.core.clock import Clock, SystemClock
from parley.core.pipeline_errors import LakeConflict
from parley.pipeline.histories import Histories, event_at
from parley.pipeline.hubs import HubRef, leads_to
from parley.pipeline.lake.catalogue.bronze import CURSOR_PREFIX, EVENTS, NO_DAY
from parley.pipeline.lake.commit import Step, commit, discard, ensure_table
from parley.pipeline.lake.files import DataFile, TableWriter, Task
from parley.pipeline.lake.place import Lake
from parley.pipeline.lost_events import begin_epoch
from parley.pipeline.rounds import Rounds
from parley.pipeline.session import cores_of
from parley.pipeline.source.ranges import EventRange, pack, split
from parley.pipeline.source.reading import RangeReading, Taken, break_between, read_bounds

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

    Spark = SparkSession | Callable[[], SparkSession]
    """A session, or what opens one when it is needed."""

ROUNDS: Final = Rounds()
INLINE_EVENTS: Final = 20_000
"""Rounds up to this size are done by the driver: a fraction of a second, less than a job takes to start."""
COPY: Final = (
    "{source} has another history than {followed}, the same hub, which the lake follows: it is a copy, or a backup."
    " Nothing was taken from it; name the hub that the lake follows, or give this one a lake of its own with --lake"
)
RESTORED: Final = (
    "{source} was restored: {lost} is no longer in its log. What the lake had of it is in bronze_lost_events"
)
RANGE_DDL: Final = "files string, taken string"
CONFLICTS_MAX: Final = 20
"""Rounds in a row that others may win; each of them took events in, so this is far more than two runs need."""


@dataclass(frozen=True, slots=True)
class HubPlan:
    """What one hub has for the lake. ``problem`` says in words why its events cannot be what they should be."""

    hub: HubRef
    cursor: int | None
    lo: int
    hi: int
    problem: str | None = None
    followed: frozenset[str] = frozenset()
    """What stands for the event that they follow, as bronze has it; nothing if it has none, or cannot tell."""
    agreed: int | None = None
    """The last event that the hub has in common with bronze, which has others after it: the hub was restored."""


class Piece(NamedTuple):
    """What one range has become: files, and what was read into them."""

    files: list[DataFile]
    taken: Taken


@dataclass(slots=True)
class IngestReport:
    """What a run has done."""

    events: int = 0
    files: int = 0
    bytes: int = 0
    commits: int = 0
    conflicts: int = 0
    version: int = 0
    cursors: dict[str, int] = field(default_factory=dict[str, int])
    problems: list[str] = field(default_factory=list[str])

    def followed_by(self, later: "IngestReport") -> "IngestReport":
        """Both runs as one: what they did together, and how it is after the second."""
        return IngestReport(
            self.events + later.events,
            self.files + later.files,
            self.bytes + later.bytes,
            self.commits + later.commits,
            self.conflicts + later.conflicts,
            later.version,
            later.cursors,
            list(dict.fromkeys([*self.problems, *later.problems])),
        )


Progress = Callable[[int, int], None]
"""Is told how many events are in the lake of how many that were waiting."""


def ingest(
    spark: "Spark",
    lake: Lake,
    hubs: Sequence[HubRef],
    *,
    clock: Clock | None = None,
    progress: Progress = lambda done, total: None,
    rounds: Rounds = ROUNDS,
    inline_events: int = INLINE_EVENTS,
) -> IngestReport:
    """Takes everything into the lake that the hubs hold now and that is not there yet."""
    clock = clock or SystemClock()
    size = rounds.first
    report = IngestReport()
    until = {hub.db_id: read_bounds(hub).hi for hub in hubs}
    lost = 0
    while lost <= CONFLICTS_MAX:
        try:
            plans = plan(lake, hubs, until, clock.now_ms())
            seen = [each.problem for each in plans if each.problem is not None]
            report.problems = list(dict.fromkeys([*report.problems, *seen]))  # a round may end what was wrong before it
            report.cursors = {each.hub.db_id: each.cursor or 0 for each in plans}
            waiting = sum(each.hi - each.lo for each in plans)
            progress(report.events, report.events + waiting)
            if any(each.agreed is not None for each in plans):
                continue  # they go on from where they parted
            chosen = list(_first(plans, size))
            if not chosen:
                report.version = ensure_table(lake, EVENTS).version()
                return report
            few = sum(each.hi - each.lo for each in chosen) <= inline_events
            session = None if few else spark() if callable(spark) else spark
            files = _round(session, lake, chosen, rounds, clock.now_ms(), report)
            lost = 0
            if session is not None and waiting > size:
                size = rounds.following(size, files, cores_of(session))
        except LakeConflict:
            lost += 1
            report.conflicts += 1
    raise LakeConflict(f"Other runs were quicker {lost} times in a row", table=EVENTS.view)


def watch(
    spark: "Spark",
    lake: Lake,
    find: Callable[[], Sequence[HubRef]],
    stopped: threading.Event,
    *,
    every_seconds: float,
    clock: Clock | None = None,
    tell: Callable[[IngestReport], None] = lambda report: None,
) -> IngestReport:
    """Takes in what is new, again and again, until it is told to stop; a round that is under way is finished.

    Each turn is a run like any other, with the same commit, and ``find`` is asked for the hubs anew, so one that comes
    into being meanwhile is seen. Returns all turns together.
    """
    whole = IngestReport()
    while not stopped.is_set():
        turn = ingest(spark, lake, find(), clock=clock)
        whole = whole.followed_by(turn)
        tell(whole)
        stopped.wait(every_seconds)
    return whole


def cursor_name(db_id: str) -> str:
    """The name of a hub's cursor in bronze."""
    return CURSOR_PREFIX + db_id


def plan(lake: Lake, hubs: Sequence[HubRef], until: Mapping[str, int], now_ms: int) -> list[HubPlan]:
    """What each hub has beyond its cursor, up to an id of it. Hubs that were restored begin their next epoch.

    Raises ``LakeConflict`` if another run was quicker with that.
    """
    table = ensure_table(lake, EVENTS)
    held = Histories(lake, table)
    return [
        _in_epoch(
            lake,
            table,
            held,
            _plan(hub, table.transaction_version(cursor_name(hub.db_id)), until[hub.db_id], held),
            now_ms,
        )
        for hub in hubs
    ]


def _plan(hub: HubRef, cursor: int | None, until: int, held: Histories) -> HubPlan:
    bounds = read_bounds(hub)
    stands = cursor or 0
    if stands > bounds.hi:
        return _parted(hub, stands, bounds.lo, bounds.hi, held)
    hi = min(bounds.hi, until)
    followed: dict[str, str] = held.held(hub.db_id, stands) if bounds.lo < stands < hi else {}
    if followed:
        found = event_at(hub, stands)
        if found.problem is None and found.ending not in followed:
            return _parted(hub, stands, found.held_lo, stands - 1, held)
    lo = max(stands, bounds.lo)
    problem = None
    if lo > stands and hi > lo:
        problem = f"events {stands + 1} to {lo} of {hub.source} were archived before the lake had them"
    return HubPlan(hub, cursor, min(lo, hi), hi, problem, frozenset(followed))


def _parted(hub: HubRef, stands: int, lowest: int, highest: int, held: Histories) -> HubPlan:
    """A hub whose history is no longer that of bronze: it was restored, or it is a copy of the hub.

    It is a copy if bronze was following another source, and any source of it is still there. Nothing is taken from a
    copy. A hub that was restored is planned again when it has its next epoch.
    """
    if hub.source not in held.held(hub.db_id, stands).values():
        others = (source for source in held.sources(hub.db_id) if source != hub.source and leads_to(source, hub))
        followed = next(others, None)
        if followed is not None:
            problem = COPY.format(source=hub.source, followed=followed)
            return HubPlan(hub, stands, stands, stands, problem)
    agreed = held.agreement(hub, lowest, highest)
    first = f"event {agreed + 1}" if agreed + 1 == stands else f"what came after event {agreed}, up to event {stands},"
    problem = RESTORED.format(source=hub.source, lost=first)
    return HubPlan(hub, stands, stands, stands, problem, agreed=agreed)


def _in_epoch(lake: Lake, table: "DeltaTable", held: Histories, planned: HubPlan, now_ms: int) -> HubPlan:
    """The plan; of a hub that was restored, when it has its next epoch: nothing, until the next look."""
    if planned.agreed is None:
        return planned
    hub, agreed = planned.hub, planned.agreed
    files = held.files_beyond(hub.db_id, agreed)
    begin_epoch(lake, table, files, hub.db_id, Step(cursor_name(hub.db_id), planned.cursor, agreed), now_ms)
    return planned


def _first(plans: Iterable[HubPlan], events: int) -> Iterator[HubPlan]:
    """So much of the plans as fits in one round, in their order."""
    for each in plans:
        if each.hi > each.lo and events > 0:
            hi = min(each.hi, each.lo + events)
            events -= hi - each.lo
            yield replace(each, hi=hi, problem=None)


def divide(plans: Iterable[HubPlan], events: int) -> list[tuple[EventRange, ...]]:
    """The ranges of a round, by the task that takes them; so many events at most are a task's."""
    whole = (EventRange(each.hub, each.lo, each.hi) for each in plans)
    return pack((part for each in whole for part in split(each, events)), events)


def _round(
    spark: "SparkSession | None", lake: Lake, plans: list[HubPlan], rounds: Rounds, now_ms: int, report: IngestReport
) -> int:
    """Takes the plans in with one commit. Returns how many files that were."""
    tasks = divide(plans, rounds.task)
    if spark is None:
        pieces = [write_range(lake, wanted, now_ms) for task in tasks for wanted in task]
    else:
        pieces = _by_tasks(spark, lake, tasks, now_ms)
    files = [file for piece in pieces for file in piece.files]
    steps = [Step(cursor_name(each.hub.db_id), each.cursor, each.hi) for each in plans]
    try:
        _compare(plans, pieces)
        report.version = commit(lake, EVENTS, files, cursors=steps, about={"parley": "ingest"})
    except BaseException:
        discard(lake, EVENTS, files)
        raise
    _count(report, files)
    return len(files)


def _compare(plans: Iterable[HubPlan], pieces: Iterable[Piece]) -> None:
    """Raises ``LakeConflict`` if what was read is not what was planned: the hub is another one than it was then."""
    read: dict[str, list[Piece]] = {}
    for piece in pieces:
        read.setdefault(piece.taken.db_id, []).append(piece)
    for each in plans:
        own = sorted(read.get(each.hub.db_id, []), key=lambda piece: piece.taken.lo)
        taken = [piece.taken for piece in own]
        joints = [each.lo, *(piece.hi for piece in taken)]
        whole = joints == [*(piece.lo for piece in taken), each.hi]
        written = sum(file.rows for piece in own for file in piece.files)
        problem = break_between(each.followed, taken)
        if problem is None and (not whole or written != sum(piece.rows for piece in taken)):
            problem = f"{written} events were written of the planned {each.lo + 1} to {each.hi}"
        if problem is not None:
            raise LakeConflict(f"{each.hub.source} is not what it was: {problem}", table=EVENTS.view)


def _by_tasks(spark: "SparkSession", lake: Lake, tasks: list[tuple[EventRange, ...]], now_ms: int) -> list[Piece]:
    # One row a partition: each task finds its ranges by the number that it is given.
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    rows: Any = numbers.mapInArrow(_taking(lake, tasks, now_ms), RANGE_DDL).collect()
    return [Piece([DataFile(*file) for file in json.loads(row.files)], Taken(*json.loads(row.taken))) for row in rows]


def _count(report: IngestReport, files: list[DataFile]) -> None:
    report.commits += 1
    report.files += len(files)
    report.events += sum(file.rows for file in files)
    report.bytes += sum(file.bytes for file in files)


def _taking(lake: Lake, tasks: list[tuple[EventRange, ...]], now_ms: int) -> Task:
    def take(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine: list[int] = [number for batch in numbers for number in batch.column(0).to_pylist()]
        for number in mine:
            for wanted in tasks[number]:
                piece = write_range(lake, wanted, now_ms)
                yield pa.RecordBatch.from_pylist([{name: json.dumps(told) for name, told in piece._asdict().items()}])

    return take


def write_range(lake: Lake, wanted: EventRange, now_ms: int) -> Piece:
    """Writes the events of a range to files of bronze, one a day. Nothing is wrong before somebody compares them."""
    reading = RangeReading(wanted)
    with TableWriter(lake, EVENTS) as writer:
        for batch in reading:
            _write(writer, batch, wanted.hub.source, now_ms)
    return Piece(writer.files, reading.taken)


def _write(writer: TableWriter, events: pa.RecordBatch, source: str, now_ms: int) -> None:
    rows = events.num_rows
    added: dict[str, Any] = {
        "source": pa.repeat(pa.scalar(source, pa.string()), rows),
        "ingested_at": pa.repeat(pa.scalar(now_ms * 1000, pa.timestamp("us", tz="UTC")), rows),
    }
    arrays = [added[name] if name in added else events.column(name) for name in EVENTS.file_schema.names]
    batch = pa.RecordBatch.from_arrays(arrays, schema=EVENTS.file_schema)
    starts = pc.utf8_slice_codeunits(events.column("ts"), 0, len(NO_DAY))
    for start in pc.unique(starts).to_pylist():
        part = batch if pc.all(pc.equal(starts, start)).as_py() else batch.filter(pc.equal(starts, start))
        writer.write_partition({"day": day_of(start)}, part)


def day_of(ts: str) -> str:
    """The day that a logged time names; ``NO_DAY`` if it names none."""
    day = ts[: len(NO_DAY)]
    digits = day.replace("-", "")
    shaped = len(day) == len(NO_DAY) and day[4] == day[7] == "-" and len(digits) == 8
    return day if shaped and digits.isascii() and digits.isdigit() else NO_DAY
