"""Bringing the lake up to now before something is computed from it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from parley.pipeline.hubs import HubRef
from parley.pipeline.ingest import ingest
from parley.pipeline.lake import Lake, read_table
from parley.pipeline.lake.catalogue.silver import MESSAGES
from parley.pipeline.progress import Progress
from parley.pipeline.silver import build_silver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def current_messages(spark: "SparkSession", lake: Lake, hubs: Sequence[HubRef], progress: Progress) -> "DataFrame":
    """The messages of the hubs as they are now: new events are taken in and folded first."""
    from pyspark.sql import functions as F

    with progress.stage("ingest", "events") as stage:
        ingest(spark, lake, hubs, progress=stage.tell)
    with progress.stage("build", "tables") as stage:
        build_silver(spark, lake, progress=lambda _, done, total: stage.tell(done, total))
    return read_table(spark, lake, MESSAGES).where(F.col("db_id").isin([hub.db_id for hub in hubs]))
