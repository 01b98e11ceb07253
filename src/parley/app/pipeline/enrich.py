"""A plugin over all of history: what is new is taken in first, then the plugin runs on what it has not seen."""

from dataclasses import asdict
from typing import Any

from parley.app.pipeline.opening import Place, hubs_of, open_or_create_lake, spark_session
from parley.app.pipeline.upkeep import current_messages
from parley.core.clock import SystemClock
from parley.pipeline.enrich.plugins import choose
from parley.pipeline.enrich.run import enrich
from parley.pipeline.enrich.write_back import write_back
from parley.pipeline.lake import read_table
from parley.pipeline.lake.catalogue.silver import ENRICHMENTS
from parley.pipeline.progress import Progress


def run_enrich(
    place: Place, progress: Progress, plugin: str, *, since: int | None, retry_failed: bool, send_back: bool
) -> dict[str, Any]:
    """Runs the plugin on the messages of the hubs, and sends back what it found if that is wanted."""
    hubs, lake = hubs_of(place), open_or_create_lake(place)
    chosen = choose(hubs, plugin, SystemClock())  # what keeps it from running is said before Spark is started
    with spark_session(place, progress) as spark:
        messages = current_messages(spark, lake, hubs, progress)
        with progress.stage("enrich", "messages") as stage:
            report = enrich(spark, lake, messages, chosen, since=since, retry_failed=retry_failed, progress=stage.tell)
        summary: dict[str, Any] = {
            "lake": lake.root,
            "plugin": plugin,
            "digests": {db_id: each.digest for db_id, each in chosen.items()},
            "without": [hub.source for hub in hubs if hub.db_id not in chosen],
            **asdict(report),
        }
        if send_back:
            with progress.stage("write back", "messages") as stage:
                standing = read_table(spark, lake, ENRICHMENTS)
                sent = write_back(spark, lake, hubs, messages, standing, chosen, progress=stage.tell)
            summary["write_back"] = asdict(sent)
    return summary
