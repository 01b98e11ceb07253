"""Appends to the log of a workspace, a few events at a time, as a busy hub would, until its standard input ends."""

import random
import sys
import threading
from pathlib import Path

from parley.workspace import discovery
from tests.pipeline.logs import append_to, log_rows
from tests.workspace.databases import writing

PAUSE_SECONDS = (0.0, 0.04)


def main() -> None:
    workspace = discovery.at(Path(sys.argv[1]))
    ended, rng = threading.Event(), random.Random(0)
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    number = len(log_rows(workspace.db))
    with writing(workspace) as connection:
        while not ended.wait(rng.uniform(*PAUSE_SECONDS)):
            count = rng.randrange(1, 6)
            append_to(connection, range(number, number + count))
            number += count


if __name__ == "__main__":
    main()
