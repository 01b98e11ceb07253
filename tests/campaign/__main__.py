"""``python -m tests.campaign``: every campaign in full, with its positive control; one JSON summary at the end.

Exit code 1 if anything was violated, or if a control was not caught. ``--seed`` repeats a run; ``--only`` and the
counts make it shorter or longer.
"""

import argparse
import asyncio
import inspect
import json
import secrets
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from tests.campaign.audited import audit_left
from tests.campaign.bus.run import bus_kills
from tests.campaign.cluster import cluster
from tests.campaign.crowd import crowd
from tests.campaign.derived import derived_kills
from tests.campaign.disk import failing_operations, power_cuts
from tests.campaign.doors.run import doors, full
from tests.campaign.files.run import struck_files
from tests.campaign.full_disk import full_disk
from tests.campaign.kill import kill_cycles
from tests.campaign.lake import lake_kills
from tests.campaign.lake_builds import lake_builds
from tests.campaign.mesh.faults import mesh_faults
from tests.campaign.mesh.kill import mesh_kills
from tests.campaign.properties import pipeline_properties
from tests.campaign.report import Report
from tests.campaign.soak import soak
from tests.campaign.starts import simultaneous_starts
from tests.campaign.team import team
from tests.campaign.tool_team import tool_team

NAMES = (
    "kill",
    "derived",
    "power_cuts",
    "failing_operations",
    "full_disk",
    "files",
    "starts",
    "crowd",
    "doors",
    "team",
    "tool_team",
    "mesh_kill",
    "mesh_faults",
    "bus",
    "lake",
    "lake_builds",
    "pipeline_properties",
    "cluster",
    "soak",
    "audit",
)


def main() -> int:
    options = _options()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="parley-left-", dir=options.folder) as left:
        campaigns = _campaigns(options, Path(left))
        reports: list[Report] = []
        for name in options.only:
            print(f"campaign: {name}, seed {options.seed}", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix=f"parley-{name}-", dir=options.folder) as folder:
                reports.append(_run(campaigns[name], Path(folder)))
            print(f"campaign: {name} {'passed' if reports[-1].passed else 'FAILED'}", file=sys.stderr, flush=True)
    passed = all(report.passed for report in reports)
    summary = {"passed": passed, "seed": options.seed, **{report.name: report.summary() for report in reports}}
    print(json.dumps(summary, indent=2))
    return 0 if passed else 1


def _campaigns(options: argparse.Namespace, left: Path) -> dict[str, Callable[[Path], Any]]:
    """``left`` takes the workspaces that kills leave behind, for the audit, which comes last."""
    keep = left if "audit" in options.only else None
    return {
        "kill": lambda folder: kill_cycles(folder, cycles=options.kills, seed=options.seed, keep=keep),
        "derived": lambda folder: derived_kills(folder, kills=options.derived_kills, seed=options.seed, keep=keep),
        "power_cuts": lambda _: power_cuts(runs=options.cuts, seed=options.seed),
        "failing_operations": lambda _: failing_operations(stride=options.stride, seed=options.seed),
        "full_disk": lambda folder: full_disk(folder, rounds=options.full_disks, seed=options.seed),
        "files": lambda _: struck_files(rounds=options.files, seed=options.seed),
        "starts": lambda folder: simultaneous_starts(folder, rounds=options.rounds, seed=options.seed),
        "crowd": lambda folder: crowd(folder, clients=options.clients, seed=options.seed),
        "doors": lambda folder: doors(folder, size=full(options.door_connections), seed=options.seed),
        "team": lambda folder: team(
            folder,
            workers=options.workers,
            tasks=10 * options.workers,
            leases=25 * options.workers,
            kills=options.workers,
            seed=options.seed,
        ),
        "tool_team": lambda folder: tool_team(
            folder,
            agents=options.workers,
            tasks=10 * options.workers,
            leases=25 * options.workers,
            kills=options.workers,
            seed=options.seed,
        ),
        "mesh_kill": lambda _: mesh_kills(rounds=options.mesh_kills, seed=options.seed),
        "mesh_faults": lambda _: mesh_faults(messages=options.mesh_messages, seed=options.seed),
        "bus": lambda folder: bus_kills(
            folder, kills=options.bus_kills, messages=40 * options.bus_kills, seed=options.seed
        ),
        "lake": lambda folder: lake_kills(folder, kills=options.lake_kills, seed=options.seed),
        "lake_builds": lambda folder: lake_builds(folder, kills=options.build_kills, seed=options.seed),
        "pipeline_properties": lambda folder: pipeline_properties(
            folder, histories=options.histories, seed=options.seed
        ),
        "cluster": lambda folder: cluster(folder, seed=options.seed),
        "soak": lambda folder: soak(folder, seconds=options.soak_seconds, seed=options.seed),
        "audit": lambda _: audit_left(left, seed=options.seed),
    }


def _run(campaign: Callable[[Path], Any], folder: Path) -> Report:
    result = campaign(folder)
    if not inspect.iscoroutine(result):
        return result
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(result)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--only", type=_names, default=list(NAMES), help=f"some of {','.join(NAMES)}")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 31), help="printed; repeats a run")
    parser.add_argument("--kills", type=int, default=1_000, help="cycles of kill -9 under load")
    parser.add_argument("--derived-kills", type=int, default=200, help="cycles of kill -9 while plugins work")
    parser.add_argument("--cuts", type=int, default=10_000, help="simulated power cuts")
    parser.add_argument("--stride", type=int, default=1, help="let only every n-th operation fail")
    parser.add_argument("--full-disks", type=int, default=5, help="times that a real disk fills up, of each kind")
    parser.add_argument("--files", type=int, default=500, help="times that a file is taken away or closed under load")
    parser.add_argument("--rounds", type=int, default=50, help="rounds of six simultaneous starts")
    parser.add_argument("--clients", type=int, default=300, help="feeds that are asked for at once")
    parser.add_argument("--door-connections", type=int, default=10_000, help="half-open connections to each server")
    parser.add_argument("--workers", type=int, default=20, help="programs, and then agents, that share ten tasks each")
    parser.add_argument("--bus-kills", type=int, default=500, help="kill -9 of an agent, for each 40 messages")
    parser.add_argument("--mesh-kills", type=int, default=1_000, help="kill -9 of a daemon or a broker at a given step")
    parser.add_argument("--mesh-messages", type=int, default=3_000, help="messages of each daemon in a bad network")
    parser.add_argument("--lake-kills", type=int, default=100, help="kill -9 of those who fill a lake")
    parser.add_argument("--build-kills", type=int, default=100, help="kill -9 of those who build a lake's tables")
    parser.add_argument("--histories", type=int, default=100, help="random histories that are built in every way")
    parser.add_argument("--soak-seconds", type=float, default=60.0, help="length of the steady load")
    parser.add_argument("--folder", type=Path, help="where to work; the system's temporary folder if omitted")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
