"""A process that uses a store until it is killed: ``python -m tests.conformance.bus_store.victim PATH SEED``."""

import asyncio
import random
import sys
from pathlib import Path

from tests.conformance.bus_store.ledger import live
from tests.conformance.bus_store.makers import open_store

PEERS = 4


async def main(path: Path, rng: random.Random) -> None:
    store = open_store(path)
    while True:
        # Side by side, so that one commit carries the work of several.
        await asyncio.gather(*(live(store, me, rng, say) for me in range(1, PEERS + 1)))


def say(what: str, number: int) -> None:
    sys.stdout.write(f"{what} {number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), random.Random(int(sys.argv[2]))))
