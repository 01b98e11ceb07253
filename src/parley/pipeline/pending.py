"""Bulk work over messages: what is due, in chunks, each committed before the next is begun.

The work on a message is known by its version and by what does it (a plugin's digest, a model's fingerprint). What the
table of results holds under that key is done. The rest is set aside once and worked through chunk by chunk; a run that
is killed loses the chunk that it was busy with, and the next run begins with what is not done then.

A counter in the table moves with each commit. If another run did some of the same work meanwhile, the commit is
refused, its files are removed, and what is due is looked up again; so no message is in the table twice under one key.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from parley.core.pipeline_errors import LakeConflict
from parley.pipeline.lake import Lake, Step, Table, commit, cursor, discard
from parley.pipeline.lake.files import FACTS_DDL, DataFile, Task, collect_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_MESSAGES: Final = 2_500
"""Messages of one task: enough that starting a process for them does not show."""
CONFLICTS_MAX: Final = 20
"""Chunks in a row that another run may win; each of them is progress."""

Progress = Callable[[int, int], None]
"""Is told how many messages are done of how many that were due."""


@dataclass(frozen=True, slots=True)
class Work:
    """One kind of bulk work: where its results go, what is due now, and the task that does it."""

    table: Table
    counter: str
    """The name of the cursor that moves with each commit."""
    due: "Callable[[], DataFrame]"
    """The messages that are not done, read anew at each call, with ``db_id`` and ``id`` among their columns."""
    task: Task
    about: str


@dataclass(slots=True)
class WorkReport:
    """What was done."""

    due: int = 0
    done: int = 0
    commits: int = 0
    conflicts: int = 0


def work_through(
    spark: "SparkSession",
    lake: Lake,
    work: Work,
    *,
    progress: Progress = lambda done, due: None,
    each: Callable[[list[DataFile]], None] = lambda files: None,
    chunk_messages: int | None = None,
) -> WorkReport:
    """Does all that is due now. ``each`` is told the files of every commit."""
    report = WorkReport()
    lost = 0
    while lost <= CONFLICTS_MAX:
        try:
            _pass(spark, lake, work, report, progress, each, chunk_messages or _chunk_messages(spark))
            return report
        except LakeConflict:
            report.conflicts += 1
            lost += 1
    raise LakeConflict(f"Other runs were quicker {lost} times", table=work.table.view)


def _pass(
    spark: "SparkSession",
    lake: Lake,
    work: Work,
    report: WorkReport,
    progress: Progress,
    each: Callable[[list[DataFile]], None],
    chunk_messages: int,
) -> None:
    """Works through what is due now, until it is done or somebody else commits."""
    from pyspark.sql import functions as F

    stands = cursor(lake, work.table, work.counter)
    due = work.due().persist()
    try:
        count = due.count()
        report.due = report.done + count
        progress(report.done, report.due)
        chunks = -(-count // chunk_messages)
        number = F.pmod(F.xxhash64("db_id", "id"), F.lit(max(chunks, 1)))
        for chunk in range(chunks):
            messages = due.where(number == chunk).repartition(-(-min(count, chunk_messages) // TASK_MESSAGES))
            files = collect_files(messages.mapInArrow(work.task, FACTS_DDL))
            if not files:
                continue
            stands = _commit(lake, work, files, stands)
            report.commits += 1
            report.done += sum(file.rows for file in files)
            each(files)
            progress(report.done, report.due)
    finally:
        due.unpersist()


def _commit(lake: Lake, work: Work, files: list[DataFile], stands: int | None) -> int:
    reached = (stands or 0) + 1
    try:
        commit(lake, work.table, files, cursors=[Step(work.counter, stands, reached)], about={"parley": work.about})
    except BaseException:
        discard(lake, work.table, files)
        raise
    return reached


def _chunk_messages(spark: "SparkSession") -> int:
    """As much as keeps every core busy for a while."""
    return TASK_MESSAGES * int(str(spark.conf.get("spark.sql.shuffle.partitions")))
