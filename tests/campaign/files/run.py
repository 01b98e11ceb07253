"""The campaign: one round after the other, of a hub, and of two daemons with a broker.

In each, one file below one server is removed, replaced, cut short or made read-only at a random moment under load. The
servers run as an ordinary user, since root may write whatever its mode says.
"""

import random
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.campaign.files.hub import hub_round
from tests.campaign.files.mesh import mesh_round
from tests.campaign.report import Report

ROUNDS_OF_EACH = (hub_round, mesh_round, mesh_round)
"""A round of a mesh strikes a daemon or the broker."""


async def struck_files(*, rounds: int, seed: int) -> Report:
    """Control: a hub and a daemon that do not look after their files, and whose database is removed."""
    report = Report("files", seed)
    strikes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="pf-") as name:
        folder = _open(Path(name))
        for number in range(rounds):
            place = _open(folder / f"round-{number}")
            play = ROUNDS_OF_EACH[number % len(ROUNDS_OF_EACH)]
            done, problems = await play(place, random.Random(seed + number))
            strikes[f"{done.act} {done.kind}"] += 1
            report.runs += 1
            report.violations += [f"round {number}, {done}: {problem}" for problem in problems]
            shutil.rmtree(place)
        report.control = await _control(folder, seed)
    report.facts = {
        "strikes": dict(sorted(strikes.items())),
        "seconds_per_round": round((time.monotonic() - report.started) / max(1, report.runs), 3),
    }
    return report


def _open(folder: Path) -> Path:
    """A folder that the ordinary user can enter."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    return folder


async def _control(folder: Path, seed: int) -> list[str]:
    """What was found of servers that are blind; nothing if one of them was passed."""
    found: list[str] = []
    for number, play in enumerate((hub_round, mesh_round)):
        _, problems = await play(_open(folder / f"blind-{number}"), random.Random(seed), blind=True, act="remove")
        lost = [problem for problem in problems if "lost" in problem]
        if not lost:
            return []
        found += lost
    return found
