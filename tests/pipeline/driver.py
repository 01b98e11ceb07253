"""A driver to be killed: takes the events of hubs into a lake, again and again, until its standard input ends.

``python -m tests.pipeline.driver LAKE PATTERN [--inline] [--without-cursor]`` prints ``ready`` when it can begin and a
line per turn. ``--inline`` does every round by itself and starts no Spark. ``--without-cursor`` is the positive
control: the same, but the cursor is left out of the commit.
"""

import argparse
import sys
import threading
from pathlib import Path
from typing import Any

from parley.core.pipeline_errors import LakeConflict
from parley.pipeline import ingest as ingesting
from parley.pipeline.hubs import find_hubs
from parley.pipeline.lake import Lake
from parley.pipeline.lake.commit import commit
from parley.pipeline.rounds import Rounds
from parley.pipeline.session import open_session
from tests.pipeline.sessions import FOR_SMALL_QUERIES

ROUNDS = Rounds(first=60, growth=1)
"""Small, so that a kill meets every part of a round often."""
INLINE_EVENTS = 1 << 60


def commit_without_cursor(*args: Any, cursors: Any, **options: Any) -> int:
    return commit(*args, **options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lake", type=Path)
    parser.add_argument("pattern")
    parser.add_argument("--inline", action="store_true")
    parser.add_argument("--without-cursor", action="store_true")
    options = parser.parse_args()
    if options.without_cursor:
        ingesting.commit = commit_without_cursor
    spark: Any = None if options.inline else open_session(settings={**FOR_SMALL_QUERIES, "spark.driver.memory": "512m"})
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    print("ready", flush=True)
    lake = Lake.open_or_create(options.lake)
    while not ended.is_set():
        try:
            report = ingesting.ingest(
                spark,
                lake,
                find_hubs([options.pattern]),
                rounds=ROUNDS,
                inline_events=INLINE_EVENTS if options.inline else 0,
            )
            print(report.events, flush=True)
        except LakeConflict as conflict:
            print(f"conflict: {conflict}", flush=True)
        ended.wait(0.01)


if __name__ == "__main__":
    main()
