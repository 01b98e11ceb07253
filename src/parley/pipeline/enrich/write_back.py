"""Sending findings back to the hubs they are about, as politely as any other client.

It happens on the driver, which has the tokens, through the hub's own API: the hub compares the message's version in the
transaction that stores, so what is stale is refused there and only counted here. All requests of a run go under one
name, so the hub's limit for one agent holds for all of them together; a refusal for the rate is waited out for as long
as the hub asks. What became of each is kept in the lake, in portions. A run that is killed sends at most one portion
again, and to store the same findings twice has one effect.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
import pyarrow as pa

from parley.client import Client
from parley.core.clock import Clock, SystemClock
from parley.core.errors import InvalidInput, MessageDeleted, NotFound, PayloadTooLarge, VersionConflict
from parley.pipeline.enrich.plugins import Chosen
from parley.pipeline.hubs import HubRef
from parley.pipeline.lake import Lake, commit, discard, read_table, table_version
from parley.pipeline.lake.catalogue.vectors import PLUGIN_FINDINGS, PLUGIN_WRITE_BACKS
from parley.pipeline.lake.files import TableWriter
from parley.pipeline.pending import Progress
from parley.wire.answers import FindingsResult
from parley.wire.requests import FoundAttachment, FoundEnrichment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AGENT: Final = "parley-pipeline"
"""The name under which a hub counts the requests."""
PATIENCE_SECONDS: Final = 600.0
"""How long one request is tried while the hub is busy, restarts or limits the rate."""
AT_ONCE: Final = 4
"""Requests under way: enough that the hub is never waited for idly."""
PORTION: Final = 500
"""Findings that are sent before what became of them is kept."""
Outcome = Literal["stored", "unchanged", "stale", "gone", "refused"]
"""It is in the hub now, or was already; the message has changed since, or is no more; or it breaks a rule there."""

_enrichments = msgspec.json.Decoder(list[FoundEnrichment]).decode
_attachments = msgspec.json.Decoder(list[FoundAttachment]).decode


@dataclass(slots=True)
class WriteBackReport:
    """How many findings had which outcome."""

    due: int = 0
    stored: int = 0
    unchanged: int = 0
    stale: int = 0
    gone: int = 0
    refused: int = 0


def write_back(
    spark: "SparkSession",
    lake: Lake,
    hubs: Sequence[HubRef],
    messages: "DataFrame",
    standing: "DataFrame",
    chosen: Mapping[str, Chosen],
    *,
    clock: Clock | None = None,
    progress: Progress = lambda done, due: None,
    open_client: Callable[[HubRef], Client] | None = None,
) -> WriteBackReport:
    """Sends what the chosen plugins found in messages as they are now, and was not sent before.

    ``messages`` and ``standing`` are ``silver_messages`` and ``silver_enrichments``: where a plugin finds nothing and
    nothing of it stands, there is nothing to send. Raises what keeps a hub from being asked at all, such as
    ``HubNotRunning`` or ``InvalidAuth``; what was sent before that is kept.
    """
    clock = clock or SystemClock()
    report = WriteBackReport()
    table_version(lake, PLUGIN_WRITE_BACKS)
    due = _due(spark, lake, messages, standing, chosen).persist()
    opened: dict[str, Client] = {}
    try:
        report.due = due.count()
        progress(0, report.due)
        if report.due:
            opened = {hub.db_id: (open_client or client_of)(hub) for hub in hubs if hub.db_id in chosen}
        for portion in _portions(row.asDict() for row in due.toLocalIterator()):
            sent = _send_all(opened, portion, clock)
            _keep(lake, sent)
            for row in sent:
                setattr(report, row["outcome"], getattr(report, row["outcome"]) + 1)
            progress(sum(_done(report)), report.due)
    finally:
        due.unpersist()
        for client in opened.values():
            client.close()
    return report


def client_of(hub: HubRef) -> Client:
    """A patient client of the hub, under the pipeline's name."""
    if hub.database is not None:
        return Client.connect(hub.source, agent=AGENT, patience_seconds=PATIENCE_SECONDS)
    return Client.connect(url=hub.url, token=hub.token(), agent=AGENT, patience_seconds=PATIENCE_SECONDS)


def _due(
    spark: "SparkSession", lake: Lake, messages: "DataFrame", standing: "DataFrame", chosen: Mapping[str, Chosen]
) -> "DataFrame":
    """Findings about messages as they are now that say something new, without those that were sent."""
    from pyspark.sql import functions as F

    key = ["db_id", "message_id", "version", "plugin", "plugin_digest"]
    digests = spark.createDataFrame(
        [(db_id, each.plugin.name, each.digest) for db_id, each in chosen.items()],
        "db_id string, plugin string, plugin_digest string",
    )
    now = messages.where("deleted_at IS NULL").select("db_id", F.col("id").alias("message_id"), "version")
    found = read_table(spark, lake, PLUGIN_FINDINGS).where("failure IS NULL")
    # An extractor that found nothing never has anything to say: attachments are only ever added.
    stands = standing.select("db_id", "message_id", F.col("plugin_name").alias("plugin"), F.lit(True).alias("stands"))
    telling = found.join(stands.distinct(), ["db_id", "message_id", "plugin"], "left").where(
        "findings_json IS NOT NULL OR (plugin_type = 'linkifier' AND stands)"
    )
    current = telling.join(F.broadcast(digests), ["db_id", "plugin", "plugin_digest"]).join(
        now, ["db_id", "message_id", "version"]
    )
    sent = read_table(spark, lake, PLUGIN_WRITE_BACKS).select(*key)
    return current.join(sent, key, "left_anti").select(*key, "plugin_type", "findings_json")


def _portions(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while portion := list(islice(rows, PORTION)):
        yield portion


def _send_all(clients: Mapping[str, Client], rows: Sequence[dict[str, Any]], clock: Clock) -> list[dict[str, Any]]:
    def send(row: dict[str, Any]) -> dict[str, Any]:
        return _send(clients[row["db_id"]], row, clock)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(send, rows))


def _send(client: Client, row: dict[str, Any], clock: Clock) -> dict[str, Any]:
    outcome: Outcome
    event_id, error = None, None
    try:
        event_id = _store(client, row).event_id
        outcome = "unchanged" if event_id is None else "stored"
    except VersionConflict:
        outcome = "stale"
    except (MessageDeleted, NotFound):
        outcome = "gone"
    except (InvalidInput, PayloadTooLarge) as refusal:
        outcome, error = "refused", refusal.message
    written_at = clock.now_ms() * 1000
    return {**row, "outcome": outcome, "event_id": event_id, "error": error, "written_at": written_at}


def _store(client: Client, row: dict[str, Any]) -> FindingsResult:
    found: str = row["findings_json"] or "[]"
    about = (row["message_id"], row["plugin"], row["version"])
    if row["plugin_type"] == "linkifier":
        return client.store_findings(*about, enrichments=_enrichments(found))
    return client.store_findings(*about, attachments=_attachments(found))


def _keep(lake: Lake, rows: Sequence[dict[str, Any]]) -> None:
    names = PLUGIN_WRITE_BACKS.schema.names
    kept = [{name: row[name] for name in names} for row in rows]
    with TableWriter(lake, PLUGIN_WRITE_BACKS) as writer:
        writer.write(pa.RecordBatch.from_pylist(kept, PLUGIN_WRITE_BACKS.schema))
    try:
        commit(lake, PLUGIN_WRITE_BACKS, writer.files, about={"parley": "enrich"})
    except BaseException:
        discard(lake, PLUGIN_WRITE_BACKS, writer.files)
        raise


def _done(report: WriteBackReport) -> tuple[int, ...]:
    return (report.stored, report.unchanged, report.stale, report.gone, report.refused)
