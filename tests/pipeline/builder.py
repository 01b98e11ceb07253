"""A builder to be killed: takes the events of hubs into a lake and builds its tables, until its standard input ends.

``python -m tests.pipeline.builder LAKE PATTERN [--spark] [--enrich] [--without-cursor]`` prints ``ready`` when it can
begin and a line per turn. It folds and counts by itself and opens Spark only for what needs it, such as what a kill
left behind. ``--spark`` lets Spark fold and count everything, ``--enrich`` runs a plugin over the messages.
``--without-cursor`` is the positive control: the same, but cursors are left out of the commits.
"""

import argparse
import sys
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley.core.clock import SystemClock
from parley.core.pipeline_errors import LakeConflict
from parley.core.settings import PipelineSettings
from parley.pipeline.enrich.plugins import choose
from parley.pipeline.enrich.run import enrich
from parley.pipeline.gold.building import BY_SPARK, build_gold
from parley.pipeline.gold.building import INLINE_EVENTS as GOLD_INLINE
from parley.pipeline.hubs import find_hubs
from parley.pipeline.ingest import ingest
from parley.pipeline.lake import Lake, read_table
from parley.pipeline.lake.catalogue.silver import MESSAGES, QUARANTINE
from parley.pipeline.lake.commit import commit, ensure_table
from parley.pipeline.session import open_session
from parley.pipeline.silver import build_silver
from parley.pipeline.silver.inline import INLINE_EVENTS, build_inline
from parley.pipeline.silver.inline import building as inline
from parley.pipeline.silver.reading import bronze_marks, silver_marks
from parley.pipeline.silver.specs import SPECS
from tests.pipeline.sessions import FOR_SMALL_QUERIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLUGIN = "links"
CHUNK_MESSAGES = 20
"""Few, so that a kill meets a commit often."""
INLINE = 1 << 60


@cache
def session() -> "SparkSession":
    return open_session(settings={**FOR_SMALL_QUERIES, "spark.driver.memory": "512m"})


def commit_without_cursor(*args: Any, cursors: Any, **options: Any) -> int:
    return commit(*args, **options)


def turn(lake: Lake, pattern: str, options: argparse.Namespace) -> None:
    """Everything that is new, through all tables."""
    hubs = find_hubs([pattern])
    ingest(session, lake, hubs, inline_events=INLINE)
    ends = bronze_marks(lake)
    in_doubt = build_inline(lake, ends, 0 if options.spark else INLINE_EVENTS) is None
    if in_doubt and any(silver_marks(lake, table) != ends for table in _built()):
        build_silver(session(), lake, inline_events=0)
    build_gold(session, lake, PipelineSettings(), inline_events=BY_SPARK if options.spark else GOLD_INLINE)
    if options.enrich:
        ensure_table(lake, MESSAGES)
        chosen = choose(hubs, PLUGIN, SystemClock(), Path(options.lake).parent / "home")
        enrich(session(), lake, read_table(session(), lake, MESSAGES), chosen, chunk_messages=CHUNK_MESSAGES)


def _built() -> list[Any]:
    return [QUARANTINE, *(spec.table for spec in SPECS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lake", type=Path)
    parser.add_argument("pattern")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--enrich", action="store_true")
    parser.add_argument("--without-cursor", action="store_true")
    options = parser.parse_args()
    if options.without_cursor:
        inline.commit = commit_without_cursor
    if options.spark or options.enrich:
        session()
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    print("ready", flush=True)
    lake = Lake.open_or_create(options.lake)
    while not ended.is_set():
        try:
            turn(lake, options.pattern, options)
            print("built", flush=True)
        except LakeConflict as conflict:
            print(f"conflict: {conflict}", flush=True)
        ended.wait(0.01)


if __name__ == "__main__":
    main()
