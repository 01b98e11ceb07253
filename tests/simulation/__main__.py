"""``python -m tests.simulation``: runs worlds and tells how they went.

Worlds are independent, so ``--jobs`` runs several at once; what is told does not depend on it. The last line holds the
seeds, what was done in all, and a digest over the final states, and nothing that varies from run to run. Exit code 1
when anything was violated; the seed of that world, given alone, repeats it.
"""

import argparse
import hashlib
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.simulation.world import Result, World

SEEDS = "0-59"


def main() -> int:
    options = _options()
    seeds = _seeds(options.seeds)
    with ProcessPoolExecutor(options.jobs) as pool:
        results = list(pool.map(_run, seeds))
    for result in results:
        for problem in result.problems:
            print(f"seed {result.seed}: {problem}", file=sys.stderr)
    print(summary(options.seeds, results))
    return 1 if any(result.problems for result in results) else 0


def summary(seeds: str, results: list[Result]) -> str:
    """The last line."""
    digest = hashlib.sha256("".join(result.digest for result in results).encode()).hexdigest()
    counts = {
        "worlds": len(results),
        "operations": sum(result.operations for result in results),
        "crashes": sum(result.crashes for result in results),
        "violations": sum(len(result.problems) for result in results),
    }
    told = " ".join(f"{name}={count}" for name, count in counts.items())
    return f"simulated seeds={seeds} {told} digest={digest}"


def _run(seed: int) -> Result:
    with tempfile.TemporaryDirectory(prefix="parley-world-") as folder:
        return World(seed, Path(folder)).run()


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
    parser.add_argument("--jobs", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
