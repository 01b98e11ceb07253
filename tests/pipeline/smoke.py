"""What has to work on every kind of Spark, as a program of its own: one process can have only one kind.

``python -m tests.pipeline.smoke FOLDER --master URL`` or ``--remote URL`` reads the hubs under ``FOLDER/hubs`` through
the data source, takes them into ``FOLDER/lake`` by Spark's tasks, folds the events and asks in SQL; with ``--whole`` it
builds all tables and the report, by the product's own settings. It prints what it found as JSON.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from parley.app.pipeline.run import run_stages
from parley.core.settings import PipelineSettings
from parley.pipeline import open_session, register
from parley.pipeline.fold import messages, read_facts
from parley.pipeline.hubs import find_hubs
from parley.pipeline.ingest import ingest
from parley.pipeline.lake import Lake, register_views
from parley.pipeline.progress import Silent
from parley.pipeline.session import cores_of
from parley.pipeline.silver import build_silver
from tests.pipeline.sessions import FOR_SMALL_QUERIES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--master")
    parser.add_argument("--remote")
    parser.add_argument("--whole", action="store_true")
    options = parser.parse_args()
    settings = {"spark.sql.shuffle.partitions": "2"} if options.whole else FOR_SMALL_QUERIES
    spark = open_session(master=options.master, remote=options.remote, settings=settings)
    register(spark)
    pattern = str(options.folder / "hubs" / "*")
    source = spark.read.format("parley_hub").option("workspaces", pattern).option("events_per_partition", "40")
    lake = Lake.open_or_create(options.folder / "lake")
    hubs = find_hubs([pattern])
    report = ingest(spark, lake, hubs, inline_events=0)
    register_views(spark, lake)
    events = spark.table("bronze_events")
    found: dict[str, Any] = {
        "read": source.load().count(),
        "ingested": report.events,
        "by_sql": spark.sql("select count(distinct db_id, event_id) as n from bronze_events").collect()[0].n,
        "messages": messages(events, read_facts(events)).count(),
        "cores": cores_of(spark),
    }
    if options.whole:
        build_silver(spark, lake, inline_events=0)
        found["report"] = run_stages(spark, lake, hubs, PipelineSettings(), Silent())["report"]
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
