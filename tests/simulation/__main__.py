"""``python -m tests.simulation``: runs worlds and tells how they went.

There are worlds of daemons and brokers (``mesh``) and worlds of a LAN without a server (``bus``). Worlds are
independent, so ``--jobs`` runs several at once; what is told does not depend on it. The last line of each kind holds
the seeds, what was done in all, and a digest over the final states, and nothing that varies from run to run. Exit code
1 when anything was violated; the seed of that world, given alone, repeats it.
"""

import argparse
import hashlib
import logging
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests.simulation.bus.world import BusWorld
from tests.simulation.world import Result, World

SEEDS = "0-59"
WORLDS = {"mesh": World, "bus": BusWorld}


def main() -> int:
    options = _options()
    seeds = _seeds(options.seeds)
    passed = True
    with ProcessPoolExecutor(options.jobs) as pool:
        for kind in options.only:
            results = list(pool.map(partial(_run, kind), seeds))
            for result in results:
                for problem in result.problems:
                    print(f"{kind}, seed {result.seed}: {problem}", file=sys.stderr)
            print(summary(kind, options.seeds, results))
            passed = passed and not any(result.problems for result in results)
    return 0 if passed else 1


def summary(kind: str, seeds: str, results: list[Result]) -> str:
    """The last line."""
    digest = hashlib.sha256("".join(result.digest for result in results).encode()).hexdigest()
    counts = {
        "worlds": len(results),
        "operations": sum(result.operations for result in results),
        "crashes": sum(result.crashes for result in results),
        "violations": sum(len(result.problems) for result in results),
    }
    told = " ".join(f"{name}={count}" for name, count in counts.items())
    return f"simulated {kind} seeds={seeds} {told} digest={digest}"


def _run(kind: str, seed: int) -> Result:
    logging.disable(logging.CRITICAL)  # what goes wrong in a world is meant to
    with tempfile.TemporaryDirectory(prefix="parley-world-") as folder:
        return WORLDS[kind](seed, Path(folder)).run()


def _seeds(text: str) -> list[int]:
    """``7``, ``0-59`` or ``3,5,8-10``."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default=SEEDS, help="such as 7, 0-59 or 3,5,8-10")
    parser.add_argument("--only", nargs=1, choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument("--jobs", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
