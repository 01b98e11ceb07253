"""Lets the history of a workspace go on by the hub's own rules, a step at a time, until its standard input ends.

``python -m tests.pipeline.living WORKSPACE SEED``
"""

import random
import sys
import threading
from pathlib import Path

from parley.core.clock import ManualClock
from parley.workspace import discovery, queries
from tests.hub.histories import History
from tests.workspace.databases import START_MS, writing

PAUSE_SECONDS = (0.0, 0.3)
HOUR_MS = 3_600_000


def main() -> None:
    workspace, seed = discovery.at(Path(sys.argv[1])), int(sys.argv[2])
    ended, rng = threading.Event(), random.Random(seed)
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    with writing(workspace) as connection:
        history = History(connection, seed, ManualClock(START_MS + HOUR_MS))
        history.steps = 1000 * (queries.latest_event_id(connection) + 1)  # names that were given are not given again
        while not ended.wait(rng.uniform(*PAUSE_SECONDS)):
            history.run(1)


if __name__ == "__main__":
    main()
