"""Judging new events in the state that the silver tables hold, before any of them is folded."""

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from parley.pipeline.fold import Facts, Known, quarantined
from parley.pipeline.fold.payloads import MESSAGE_EVENTS, named
from parley.pipeline.lake.catalogue import silver
from parley.pipeline.lake.commit import WHOLE, commit, discard, ensure_table
from parley.pipeline.lake.files import stage
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.reading import read_table
from parley.pipeline.lake.tables import Table
from parley.pipeline.silver.reading import Marks, steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def judge(
    spark: "SparkSession",
    lake: Lake,
    events: "DataFrame",
    facts: Facts,
    stands: Marks,
    until: Marks,
    *,
    anew: bool = False,
) -> dict[str, int]:
    """Puts what cannot be folded into quarantine. Returns how many events were refused, by reason.

    Anew, the events are all that there are, and the verdicts replace those of before.
    """
    table = silver.QUARANTINE
    goes_on = not anew and any(stands.get(db_id) for db_id in until)
    known = _known(spark, lake, events, stands) if goes_on else None
    refused = quarantined(events, facts, known).persist()
    try:
        counted: Any = refused.groupBy("reason").count().collect()
        reasons = {row["reason"]: row["count"] for row in counted}
        files = stage(refused.coalesce(1), lake, table) if reasons else []
    finally:
        refused.unpersist()
    try:
        replace = WHOLE if anew else ()
        commit(lake, table, files, cursors=steps(table, stands, until), replace=replace, about={"parley": "build"})
    except BaseException:
        discard(lake, table, files)
        raise
    return reasons


def _known(spark: "SparkSession", lake: Lake, events: "DataFrame", stands: Marks) -> Known:
    """The rows that the events may be about."""
    about = named(events, *MESSAGE_EVENTS, "message.enriched", "topic.attachment_added")
    ids = about.select("db_id", F.col("entity_id").alias("id")).distinct()

    def rows(table: Table) -> "DataFrame":
        ensure_table(lake, table)
        return read_table(spark, lake, table).where(F.col("db_id").isin(sorted(stands)))

    return Known(
        channels=rows(silver.CHANNELS),
        topics=rows(silver.TOPICS),
        messages=rows(silver.MESSAGES).join(ids, ["db_id", "id"], "left_semi"),
        attachments=rows(silver.ATTACHMENTS).join(ids, ["db_id", "id"], "left_semi"),
        tasks=rows(silver.TASKS),
        leases=rows(silver.LEASES),
        agents=rows(silver.AGENTS),
    )
