"""Takes a broker into a lake and kills itself, as a kill -9 would, just before or after one of its commits.

Usage: python -m tests.pipeline.brokers.dying LAKE STORE before|after NUMBER
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from parley.pipeline.brokers import bronze_deliveries, bronze_messages
from parley.pipeline.brokers.stores import find_brokers
from parley.pipeline.lake import Lake

ROUND_NUMBERS = 4
BUCKET_SIZE = 10


def main(lake: str, store: str, when: str, number: str) -> None:
    left = [int(number)]

    def dying(commit: Any) -> Any:
        def commit_and_die(*args: Any, **how: Any) -> Any:
            left[0] -= 1
            if left[0] == 0 and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            version = commit(*args, **how)
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return version

        return commit_and_die

    for module in (bronze_messages, bronze_deliveries):
        vars(module)["commit"] = dying(vars(module)["commit"])
    opened, brokers = Lake.open_or_create(Path(lake)), find_brokers([store])
    bronze_messages.take_messages(opened, brokers, round_numbers=ROUND_NUMBERS)
    bronze_deliveries.observe_deliveries(opened, brokers, bucket_size=BUCKET_SIZE)


if __name__ == "__main__":
    main(*sys.argv[1:])
