"""Holding hubs, and the lake if there is one, against their logs, and brokers against themselves."""

from typing import TYPE_CHECKING

from parley.app.pipeline.opening import Place, brokers_of, hubs_of, lake_folder, spark_session
from parley.core.errors import InvalidInput
from parley.pipeline.audit.copies import refuse_distant
from parley.pipeline.audit.report import AuditReport
from parley.pipeline.audit.run import audit
from parley.pipeline.brokers.stores import BrokerRef
from parley.pipeline.hubs import HubRef
from parley.pipeline.lake import Lake
from parley.pipeline.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_audit(place: Place, progress: Progress) -> AuditReport:
    """Audits the hubs and brokers that were named."""
    hubs, brokers, lake = hubs_of(place), brokers_of(place), _lake_if_any(place)
    if not hubs:
        return audit(None, [], brokers=brokers, lake=lake, progress=progress)
    refuse_distant(hubs)  # before Spark is started
    with spark_session(place, progress) as spark:
        return audit_with(spark, place, hubs, brokers, lake, progress)


def audit_with(
    spark: "SparkSession",
    place: Place,
    hubs: list[HubRef],
    brokers: list[BrokerRef],
    lake: Lake | None,
    progress: Progress,
) -> AuditReport:
    """An audit in a session that is open. What a cluster's workers are to read goes into the lake's own folder."""
    elsewhere = place.master is not None or place.remote is not None
    folder = lake.own if elsewhere and lake is not None else None
    return audit(spark, hubs, brokers=brokers, lake=lake, folder=folder, progress=progress)


def _lake_if_any(place: Place) -> Lake | None:
    """The lake that was named, which has to be there, or the workspace's own if it is there."""
    if place.lake is not None:
        return Lake.open(place.lake)
    try:
        folder = lake_folder(place)
    except InvalidInput:
        return None
    return Lake.open(folder) if folder.exists() else None
