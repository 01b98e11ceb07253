"""``python -m bench``: starts a real hub in a temporary folder, measures it, and prints one JSON document.

stdout is the document; progress goes to stderr. Everything is synced to disk (``synchronous=FULL``), rate limits are
off, and each message carries 200 bytes.
"""

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop

from bench import baseline, machine
from bench.figures import AGENTLIP, figure, verdict
from bench.load.chromium import find_chromium
from bench.load.hub import MESSAGE_BYTES, Hub
from bench.load.process import find_command
from bench.plan import LAKE_PARTS, LAKE_SIZES, Plan
from bench.rivals import nats_jetstream, redis_streams
from bench.scenarios import bus, crowd, derived, fanout, history, hung, insert, lake, mesh, move, page, tools
from parley.sandbox import missing
from tests.postgres import private_server

SCENARIOS = (
    *("insert", "edit", "tail", "replay", "move", "fanout"),
    *("derived", "hung", "tools", "page", "mesh", "bus", "lake", "redis", "nats"),
)
_LISTS = re.compile(r"\[([^][{}]*)\]")
_RIVALS = {"redis": redis_streams, "nats": nats_jetstream}


def main() -> int:
    options = _options()
    plan = replace(
        Plan().quick() if options.quick else Plan(),
        repeat=options.repeat,
        lake_parts=options.lake_parts,
        lake_sizes=options.lake_sizes,
        lake_keep=options.lake_keep,
    )
    with (
        tempfile.TemporaryDirectory(prefix="parley-bench-", dir=options.folder) as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        if options.baseline:
            report = runner.run(run_beside(Path(folder), plan, options.only, options.baseline, options.alternations))
        else:
            report = runner.run(run(Path(folder), plan, options.only))
    text = _LISTS.sub(lambda match: "[" + " ".join(match[1].split()) + "]", json.dumps(report, indent=2))
    print(text)
    if options.json_out:
        options.json_out.write_text(text + "\n")
    return 0


async def run(folder: Path, plan: Plan, only: Sequence[str]) -> dict[str, Any]:
    """Measures what was asked for and returns the whole report."""
    started = time.monotonic()
    about = {"machine": machine.describe(folder), "message_bytes": MESSAGE_BYTES, "synchronous": "full"}
    figures: dict[str, Any] = {}
    if {"insert", "edit"} & set(only):
        figures |= await _without_index(folder / "plain", plan, only)
    if {"insert", "tail", "replay", "move", "fanout"} & set(only):
        figures |= await _with_index(folder / "indexed", plan, only)
    if {"derived", "hung"} & set(only):
        figures |= await _with_plugins(folder, plan, only)
    if "tools" in only:
        with Hub(folder / "tools") as hub:
            figures |= await _say("tools", tools.tools, hub, plan)
    if "page" in only:
        figures |= await _page(folder / "page", plan)
    if "mesh" in only:
        figures |= await _mesh(folder / "mesh", plan)
    if "bus" in only:
        _progress("the bus, beside NATS request and reply and bare commits")
        figures |= await bus.bus(folder / "bus", plan)
    if "lake" in only:
        _progress(f"the pipeline: {', '.join(plan.lake_parts)}")
        figures |= await asyncio.to_thread(lake.lake, folder / "lake", plan)
    rivals = {name: await _rival(name, folder / name, plan) for name in _RIVALS if name in only}
    about["machine"]["load_after"] = [round(load, 2) for load in os.getloadavg()]
    about["machine"]["python_loop_cpu_ms_after"] = machine.python_loop_cpu_ms()
    return {
        **about,
        "seconds": round(time.monotonic() - started),
        "verdict": verdict(figures),
        "hub": figures,
        **rivals,
        "agentlip": AGENTLIP,
    }


async def run_beside(folder: Path, plan: Plan, only: Sequence[str], commit: str, alternations: int) -> dict[str, Any]:
    """Measures the working tree and an earlier commit in turns, and returns the whole report."""
    started = time.monotonic()
    about = {"machine": machine.describe(folder), "message_bytes": MESSAGE_BYTES, "synchronous": "full"}
    with baseline.worktree(commit) as tree:
        _progress(f"{', '.join(only)} beside {commit}, {alternations} times in turns")
        figures = await baseline.compare(folder, plan, only, alternations, baseline.environments(tree))
    about["machine"]["load_after"] = [round(load, 2) for load in os.getloadavg()]
    return {
        **about,
        "seconds": round(time.monotonic() - started),
        "baseline": baseline.full_name(commit),
        "alternations": alternations,
        "compared": figures,
    }


async def _without_index(folder: Path, plan: Plan, only: Sequence[str]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    with Hub(folder, config=insert.WITHOUT_FTS) as hub:
        if "insert" in only:
            figures |= await _say("insert", insert.insert, hub, plan)
        if "edit" in only:
            figures |= await _say("edit", insert.edit, hub, plan)
    return figures


async def _with_index(folder: Path, plan: Plan, only: Sequence[str]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    with Hub(folder) as hub:
        if "insert" in only:
            figures |= await _say("insert with the full-text index", insert.insert_with_fts, hub, plan)
        if {"tail", "replay"} & set(only):
            _progress(f"filling the log up to {plan.history} events")
            topic_id, filled = await history.fill(hub, plan)
            figures |= filled
            if "replay" in only:
                figures |= await _say("replay", history.replay, hub, plan)
            if "tail" in only:
                _progress("tail")
                figures |= await history.tail(hub, plan, topic_id)
        if "move" in only:
            figures |= await _say("move", move.move, hub, plan)
            figures |= await _say("large move", move.move_large, hub, plan)
        if "fanout" in only:
            figures |= await _say("fan-out", fanout.fanout, hub, plan)
        figures["memory"] = figure("memory", [{"resident_mb": round(hub.process.resident_bytes() / 1e6, 1)}])
    return figures


async def _with_plugins(folder: Path, plan: Plan, only: Sequence[str]) -> dict[str, Any]:
    """Nothing where no sandbox can be built: plugins do not run there."""
    lacking = missing()
    if lacking:
        _progress(f"no plugin runs here: {'; '.join(lacking)}")
        return {}
    figures: dict[str, Any] = {}
    if "derived" in only:
        _progress("the linkifier in its sandbox")
        figures |= derived.functions(folder, plan)
        _progress("derived work")
        figures |= await derived.derived(folder / "derived", plan)
    if "hung" in only:
        _progress("inserts beside plugins that hang, and beside busy ones")
        figures |= await hung.hung(folder / "hung", plan)
    return figures


async def _page(folder: Path, plan: Plan) -> dict[str, Any]:
    program = find_chromium()
    if program is None:
        _progress("no browser is here to load the page in (Debian package chromium)")
        return {}
    with Hub(folder, config=insert.WITHOUT_FTS) as hub:
        _progress(f"the page, with a topic of {plan.page} messages")
        return await page.page(hub, program, plan)


async def _mesh(folder: Path, plan: Plan) -> dict[str, Any]:
    _progress(f"{plan.crowd:,} peers on one broker")
    figures = await crowd.crowd(folder / "c", plan)
    _progress("a hundred peers and a broker, in SQLite")
    figures |= await mesh.mesh(folder / "s", plan, None, "mesh")
    if find_command("initdb") is None and not list(Path("/usr/lib/postgresql").glob("*/bin/initdb")):  # noqa: ASYNC240
        _progress("PostgreSQL is missing: nothing to keep the meshes in but SQLite (Debian package postgresql)")
        return figures
    _progress("a hundred peers and a broker, in PostgreSQL")
    with private_server(durable=True) as server:
        return figures | await mesh.mesh(folder / "p", plan, server.new_url(), "mesh_postgresql")


async def _say(
    name: str, scenario: Callable[[Hub, Plan], Awaitable[dict[str, Any]]], hub: Hub, plan: Plan
) -> dict[str, Any]:
    _progress(name)
    return await scenario(hub, plan)


async def _rival(name: str, folder: Path, plan: Plan) -> dict[str, Any]:
    _progress(name)
    rival = _RIVALS[name]
    report = await rival.measure(folder, plan)
    if report is None:
        _progress(f"{rival.COMMAND} is missing: nothing to compare with; scripts/setup --bench installs it")
        return {"missing": rival.COMMAND}
    return report


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", type=_some(SCENARIOS), default=SCENARIOS, help=f"some of {','.join(SCENARIOS)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: shows that it runs, not how fast")
    parser.add_argument("--repeat", type=int, default=Plan().repeat, help="repetitions whose median counts")
    parser.add_argument("--baseline", metavar="COMMIT", help="measure this commit, too, in turns, and give the ratios")
    parser.add_argument("--alternations", type=int, default=7, help="turns with a baseline, whose median counts")
    parser.add_argument("--json-out", type=Path, help="write the document to this file, too")
    parser.add_argument("--folder", type=Path, help="where the servers write; the system's temporary folder if omitted")
    parts = f"what of the pipeline is measured: some of {','.join(LAKE_PARTS)}"
    parser.add_argument("--lake-parts", type=_some(LAKE_PARTS), default=LAKE_PARTS, help=parts)
    parser.add_argument("--lake-sizes", type=_some(LAKE_SIZES), default=LAKE_SIZES, help="over how long histories")
    parser.add_argument("--lake-keep", type=Path, help="where histories that were made stay, for the next run to take")
    options = parser.parse_args()
    if options.baseline:
        options.only = baseline.COMPARED if options.only is SCENARIOS else options.only
        alone = [name for name in options.only if name not in baseline.COMPARED]
        if alone:
            parser.error(f"--baseline compares {' and '.join(baseline.COMPARED)}, not {', '.join(alone)}")
    return options


def _some(known: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    def names(text: str) -> tuple[str, ...]:
        chosen = tuple(text.split(","))
        unknown = [name for name in chosen if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
        return chosen

    return names


def _progress(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
