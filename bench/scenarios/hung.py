"""Ingestion beside plugins: what an insert costs with none, with plugins whose every process hangs, and with busy ones.

A hub of each kind runs at the same time and they take turns, so that the machine's moods hit them alike; the ratios are
those of one round. Each kind with plugins has a linkifier and an extractor, so both write two jobs per message.
"""

import asyncio
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from bench.figures import Sample, figure, ratios
from bench.load.hub import Hub, by_command
from bench.load.peer import UnexpectedReply
from bench.load.process import ServerProcess
from bench.measure import CONNECTIONS
from bench.plan import Plan
from bench.scenarios.derived import LINKS, pointing
from bench.scenarios.insert import send

WORKERS = 2
BUSY = f'{LINKS}[[plugins]]\nname = "urls"\ntype = "extractor"\n'
HUNG = f"""
[plugin_defaults]
workers = {WORKERS}
deadline_seconds = 600
[[plugins]]
name = "asleep"
type = "linkifier"
module = "asleep.py"
[[plugins]]
name = "asleep-too"
type = "extractor"
module = "asleep.py"
"""
ASLEEP = """
import time

def enrich(message, config):
    while True:
        time.sleep(3600)

extract = enrich
"""
RATIOS = ("p50_ms", "p99_ms", "cpu_us")
START_SECONDS = 60.0
DRAIN_SECONDS = 120.0
LOOK_SECONDS = 0.25
_WARM_UP = 200


async def hung(folder: Path, plan: Plan) -> dict[str, Any]:
    """One message after another, and 16 connections."""
    with ExitStack() as stack:
        hubs = {
            "none": stack.enter_context(Hub(folder / "none")),
            "hung": stack.enter_context(Hub(folder / "hung", config=HUNG, launch=partial(_trusted, module=ASLEEP))),
            "busy": stack.enter_context(Hub(folder / "busy", config=BUSY)),
        }
        topics = {name: (await hub.make_topics("hung", "measured"))[0] for name, hub in hubs.items()}
        for name, hub in hubs.items():
            await send(hub, hub.messages(topics[name], _WARM_UP, pointing), CONNECTIONS)
        await _all_asleep(hubs["hung"])
        await _drained(hubs["busy"])
        figures: dict[str, Any] = {}
        for connections, count in ((1, plan.hung_1), (CONNECTIONS, plan.hung_16)):
            samples: dict[str, list[Sample]] = {name: [] for name in hubs}
            for _ in range(plan.repeat):
                for name, hub in hubs.items():
                    samples[name].append(await send(hub, hub.messages(topics[name], count, pointing), connections))
                    await _drained(hubs["busy"])
            figures |= _figures(connections, samples)
        await expect_asleep(hubs["hung"])
    return figures


def _figures(connections: int, samples: dict[str, list[Sample]]) -> dict[str, Any]:
    """The figures of each kind; those with plugins with their ratios to the insert without any in the same round."""
    figures: dict[str, Any] = {}
    for kind, measured in samples.items():
        name = f"insert_{connections}_plugins_{kind}"
        if kind != "none":
            pairs = zip(measured, samples["none"], strict=True)
            measured = [{**sample, **ratios(sample, bare, RATIOS)} for sample, bare in pairs]
        figures[name] = figure(name, measured)
    return figures


def _trusted(folder: Path, module: str) -> ServerProcess:
    """A hub whose workspace brings this plugin, and whose user trusts it. The trust is kept beside the workspace."""
    (folder / "asleep.py").write_text(module)
    environment = {"PARLEY_HOME": str(folder.with_name(f"{folder.name}-home"))}
    for command in (("init",), ("trust", "--yes")):
        argv = [sys.executable, "-m", "parley", *command, "--workspace", str(folder)]
        subprocess.run(argv, check=True, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    return by_command(folder, environment)


async def _all_asleep(hub: Hub) -> None:
    """Returns once every worker has come up and does nothing more."""
    deadline = time.monotonic() + START_SECONDS
    spent = -1.0
    while time.monotonic() < deadline:
        workers = hub.process.descendants()
        try:
            before, spent = spent, sum(worker.cpu_seconds() for worker in workers)
        except OSError:  # one that only built a sandbox has ended since
            continue
        if len(workers) >= 2 * WORKERS and spent == before:
            return
        await asyncio.sleep(LOOK_SECONDS)
    raise UnexpectedReply("the hanging plugins did not come to rest")


async def expect_asleep(hub: Hub) -> None:
    """A plugin that answered or failed in the meantime would make the figures those of something else."""
    for plugin in (await hub.ask("GET", "/api/v1/plugins"))["plugins"]:
        if plugin["runs_total"] or plugin["failures_total"] or not plugin["waiting"]:
            raise UnexpectedReply(f"the plugin {plugin['name']} did not hang: {plugin}")


async def _drained(hub: Hub) -> None:
    """Returns once no job waits, so that the others are measured alone."""
    async with asyncio.timeout(DRAIN_SECONDS):
        while (await hub.ask("GET", "/api/v1/status"))["plugins"]["waiting"]:  # noqa: ASYNC110 - another process
            await asyncio.sleep(LOOK_SECONDS)
