"""The audit from end to end."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from parley.core.clock import Clock, SystemClock
from parley.core.files import write_atomic
from parley.pipeline.audit.brokers.run import audit_brokers
from parley.pipeline.audit.bronze import bronze_findings
from parley.pipeline.audit.checks import OF_REASON
from parley.pipeline.audit.comparing import compare, duplicates
from parley.pipeline.audit.copies import HubCopy, copied
from parley.pipeline.audit.findings import Finding, Found, frame_of, gather, merge
from parley.pipeline.audit.keys import key_findings
from parley.pipeline.audit.report import AuditReport, judge
from parley.pipeline.audit.scan import Scanned, scan
from parley.pipeline.audit.scopes import scope_findings
from parley.pipeline.brokers.stores import BrokerRef
from parley.pipeline.fold import accepted, current_tables, quarantined
from parley.pipeline.hubs import HubRef
from parley.pipeline.lake import Lake
from parley.pipeline.lake.catalogue.bronze import EVENTS
from parley.pipeline.lake.commit import exists
from parley.pipeline.progress import Progress, Silent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUMMARY: Final = "audit.json"
"""The last audit's report, in the lake's own folder."""
_UNKNOWN_WITHOUT_ARCHIVE: Final = ("event.reference", "event.generation")
"""What cannot be judged where the beginning of a log is missing."""


def audit(
    spark: "SparkSession | None",
    hubs: Sequence[HubRef],
    *,
    brokers: Sequence[BrokerRef] = (),
    lake: Lake | None = None,
    folder: Path | None = None,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Holds each hub's tables, and bronze if there is a lake, against the hub's log, and brokers against themselves.

    Only hubs need Spark. ``folder`` is where their copies go, a folder that all workers reach; else the system's folder
    for temporary files. With a lake, the report is kept in it. Raises ``AuditNeedsFile`` for a hub that is known by its
    address alone.
    """
    now_ms = (clock or SystemClock()).now_ms()
    progress = progress or Silent()
    taken = lake if lake is not None and exists(lake, EVENTS) else None
    with ExitStack() as stack:
        with progress.stage("copying"):
            place, copies = stack.enter_context(copied(hubs, folder))
        parts = list(_search(spark, copies, place, taken, progress)) if spark is not None and copies else []
    looked = audit_brokers(brokers, lake, now_ms, progress)
    report = judge(now_ms, copies, parts, with_lake=taken is not None, brokers=looked)
    if lake is not None:
        write_atomic(lake.own / SUMMARY, json.dumps(report.summary(), indent=1).encode())
    return report


def _search(
    spark: "SparkSession", copies: Sequence[HubCopy], place: Path, lake: Lake | None, progress: Progress
) -> Iterator[Found]:
    with progress.stage("reading the logs"):
        scanned = scan(spark, copies, place)
        yield scanned.found
        yield merge(_records(copies, scanned))
    with progress.stage("judging each event"):
        refused = quarantined(scanned.events, scanned.facts).select("db_id", "event_id", "name", "reason").persist()
        found = gather([_refusals(refused, copies)])
        yield found
    with progress.stage("comparing with the tables"):
        # Nearly always nothing was refused, and then nothing has to be looked for.
        events = accepted(scanned.events, refused) if found.totals else scanned.events
        folded = current_tables(events, scanned.facts)
        searches = [
            *compare(spark, folded, copies),
            duplicates(folded["topic_attachments"]),
            scope_findings(events),
            key_findings(spark, scanned.events, copies),
            *([] if lake is None else [bronze_findings(spark, lake, scanned.events, copies)]),
        ]
        yield gather(searches)
        refused.unpersist()


def _refusals(refused: "DataFrame", copies: Sequence[HubCopy]) -> "DataFrame":
    """What the fold refuses, as findings of the checks that its reasons belong to."""
    check = F.create_map(*(F.lit(part) for pair in OF_REASON.items() for part in pair))[F.col("reason")]
    truncated = [copy.db_id for copy in copies if copy.begins_after > 0]
    rows = refused.withColumn("check", check)
    if truncated:
        rows = rows.where(~(F.col("db_id").isin(*truncated) & F.col("check").isin(*_UNKNOWN_WITHOUT_ARCHIVE)))
    said = F.concat_ws(": ", F.col("name"), F.regexp_replace("reason", "_", " "))
    event_id = F.col("event_id")
    return frame_of(rows, F.col("check"), "events", id=event_id.cast("string"), event_id=event_id, found=said)


def _records(copies: Sequence[HubCopy], scanned: Scanned) -> Iterator[Finding]:
    """Archives that the table records and the log does not, or otherwise, and the other way round."""
    for copy in copies:
        recorded = {archive.name: (archive.sha256, archive.up_to) for archive in copy.archives}
        told = {
            str(payload.get("archive")): (payload.get("sha256"), payload.get("up_to_event_id"))
            for (db_id, _), payload in scanned.told.items()
            if db_id == copy.db_id
        }
        # The event of an archive comes after all that is in it, and may itself lie in a later one that is missing.
        unknown = {archive.name for archive in copy.archives if archive.up_to < copy.begins_after}
        for name in sorted((recorded.keys() | told.keys()) - (unknown - told.keys())):
            if recorded.get(name) != told.get(name):
                yield Finding(
                    "archive.record", copy.db_id, "archives", name, None, None, _said(told, name), _said(recorded, name)
                )


def _said(archives: Mapping[str, tuple[object, object]], name: str) -> str:
    if name not in archives:
        return "nothing"
    sha256, up_to = archives[name]
    return f"{sha256} up to event {up_to}"
